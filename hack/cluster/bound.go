package cluster

import (
	"os/exec"
	"runtime"
	"syscall"
)

// StartBound starts a process that the kernel ends when this one does. The kernel counts by thread, not by process:
// the goroutine that starts it keeps its thread for good.
//
// The process leads a group of its own, so that a Ctrl-C in the terminal reaches this process alone, which then stops
// the other one in order.
func StartBound(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		select {}
	}()
	return <-started
}
