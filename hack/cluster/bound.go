package cluster

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startBound starts a process that the kernel kills when this one ends. The kernel counts by thread, not by process:
// the goroutine that starts it keeps its thread for as long as the process lives.
func startBound(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		select {}
	}()
	return <-started
}
