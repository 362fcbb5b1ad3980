package launch

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// EndLeftovers kills every process whose HOME is folder or below it and waits
// until none is left. It returns how many it found.
//
// A death signal reaches a pod's process but not the children of that process.
// HOME is the mark by which those are found: it is inherited, and a pod's is a
// folder that belongs to nobody else.
func EndLeftovers(folder string) int {
	found := map[int]bool{}
	for range 100 {
		living := homed(folder)
		if len(living) == 0 {
			break
		}
		for _, pid := range living {
			found[pid] = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return len(found)
}

func homed(folder string) []int {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, path := range environments {
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Unreadable means another user's; empty means a zombie or the kernel's.
		environment, err := os.ReadFile(path)
		if err == nil && marked(environment, folder) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// marked says whether an environment, as the kernel shows it, has its HOME in folder.
func marked(environment []byte, folder string) bool {
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		home, is := strings.CutPrefix(string(variable), "HOME=")
		if is && (home == folder || strings.HasPrefix(home, folder+"/")) {
			return true
		}
	}
	return false
}

// Signal sends a signal to the whole group a started command leads.
func Signal(pid int, signal syscall.Signal) error {
	if err := syscall.Kill(-pid, signal); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("sending %s to process group %d: %w", signal, pid, err)
	}
	return nil
}
