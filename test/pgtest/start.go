package pgtest

import (
	"os/exec"
	"runtime"
)

// startBound starts a process that ends with the thread which started it, and keeps that thread for as long. The channel is closed when
// the process has ended.
func startBound(c *exec.Cmd) (ended <-chan struct{}, err error) {
	started, over := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait()
		}
		close(over)
	}()
	return over, <-started
}
