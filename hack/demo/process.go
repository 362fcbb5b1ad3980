package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a process that can be found again: its number alone may be given to another one.
type process struct {
	PID  int      `json:"pid"`
	Args []string `json:"args"`
	// Began is when the kernel started it, in ticks since the machine did.
	Began string `json:"began"`
}

// identify describes the process of that number, which runs those arguments.
func identify(pid int, args []string) (process, error) {
	began, err := began(pid)
	return process{PID: pid, Args: args, Began: began}, err
}

func load(file string) (process, error) {
	var p process
	b, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(b, &p)
}

func (p process) save(file string) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// alive reports whether this very process still runs.
func (p process) alive() bool {
	now, err := began(p.PID)
	if err != nil || now != p.Began {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
	return err == nil && slices.Equal(p.Args, strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"))
}

// end ends the process, if it still runs, and waits until it is gone.
func (p process) end() error {
	for n := range 1000 {
		if !p.alive() {
			return nil
		}
		signal := syscall.Signal(0)
		switch n {
		case 0:
			signal = syscall.SIGTERM
		case 900:
			signal = syscall.SIGKILL
		}
		if err := syscall.Kill(p.PID, signal); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("ending process %d: %w", p.PID, err)
		}
		<-time.After(10 * time.Millisecond) // the end of somebody else's child is not announced
	}
	return fmt.Errorf("process %d does not end", p.PID)
}

// began reads the time of the start: field 22, counted behind the name, which may hold anything.
func began(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 || string(fields[0]) == "Z" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return string(fields[19]), nil
}

// killContainer ends the process behind a container of the process node as the kernel does when memory runs out: at
// once and without a word. The environment proves that it is the pod's.
func killContainer(containerID, podUID string) (pid int, err error) {
	if pid, err = strconv.Atoi(strings.TrimPrefix(containerID, "process://")); err != nil {
		return 0, fmt.Errorf("container %q is not a process of this machine", containerID)
	}
	p, err := os.FindProcess(pid) // holds on to this process, whatever becomes of its number
	if err != nil {
		return pid, err
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return pid, err
	}
	if !slices.Contains(strings.Split(string(environment), "\x00"), "POD_UID="+podUID) {
		return pid, fmt.Errorf("process %d does not belong to pod %s", pid, podUID)
	}
	return pid, p.Kill()
}
