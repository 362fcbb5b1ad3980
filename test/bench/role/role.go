// Package role lets one program be all processes of a bench: it starts itself again in another role.
package role

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// variable tells a process its role, order what it needs for it, as JSON.
const (
	variable = "EKIDEN_BENCH_ROLE"
	order    = "EKIDEN_BENCH_ORDER"
)

// Play is a role. It tells the address, or anything else whoever started it waits for, once.
type Play func(ctx context.Context, order []byte, tell func(string)) error

// Taken plays the role that this process was started for, until whoever started it is gone. It is false if it has none.
func Taken(plays map[string]Play) bool {
	name := os.Getenv(variable)
	if name == "" {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the other end of standard input closes when our parent dies, however it dies
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	play, ok := plays[name]
	err := fmt.Errorf("there is no role %q", name)
	if ok {
		err = play(ctx, []byte(os.Getenv(order)), func(s string) { fmt.Println(s) })
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	return true
}

// Process is a process in a role.
type Process struct {
	// Told is what it has told.
	Told string

	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
}

// Start starts a process in the role and waits until it has told something.
func Start(name string, needs any) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(needs)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:gosec,noctx // ourselves; it ends with our end of its standard input
	cmd.Env = append(os.Environ(), variable+"="+name, order+"="+string(body))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a process as %s: %w", name, err)
	}
	p := &Process{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	out := bufio.NewReader(stdout)
	line, err := out.ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // how it ends is known to who ends it
		close(p.ended)
	}()
	if err != nil {
		p.Kill()
		return nil, errors.Join(fmt.Errorf("the process %s ended before it was ready", name), err)
	}
	p.Told = strings.TrimSpace(line)
	return p, nil
}

// Kill ends the process with SIGKILL, so that it can do nothing more, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	_ = p.stdin.Close()
}
