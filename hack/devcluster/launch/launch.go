// Package launch starts processes that do not outlive the one that started them.
package launch

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Thread starts processes from one operating system thread.
//
// The kernel sends a child its death signal when the thread that made the child
// ends, not the process. Go ends threads as it likes, so all children are made
// by one that is locked and never ends.
type Thread struct {
	orders chan order
}

type order struct {
	command *exec.Cmd
	result  chan error
}

// NewThread starts the thread. It lives as long as the process.
func NewThread() *Thread {
	t := &Thread{orders: make(chan order)}
	go func() {
		runtime.LockOSThread()
		for o := range t.orders {
			o.result <- o.command.Start()
		}
	}()
	return t
}

// Start starts the command in a process group of its own. It receives the death
// signal when this process ends for whatever reason, SIGKILL included.
func (t *Thread) Start(command *exec.Cmd, death syscall.Signal) error {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	command.SysProcAttr.Pdeathsig = death
	o := order{command: command, result: make(chan error)}
	t.orders <- o
	return <-o.result
}
