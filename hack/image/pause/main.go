//go:build linux

// Pause is what a pod's sandbox runs: it holds the namespaces of the pod and waits for its end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 8)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range told {
		if s != syscall.SIGCHLD {
			return
		}
		collect()
	}
}

// collect buries the dead: with a shared process namespace the orphans of a pod are children of this process.
func collect() {
	for {
		var status syscall.WaitStatus
		if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
