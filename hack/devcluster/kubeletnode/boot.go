package kubeletnode

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// NamespaceFile is the descriptor at which the first process finds its network namespace.
const NamespaceFile = 3

// Attributes are those of the node's first process.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
}

// private are folders that the programs of a node write to by names that are built in. There they see one of their own.
var private = []string{"/run", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers", "/opt/containerd"}

// Boot is the node's first process. It starts program, which is the rest of the node, forwards SIGTERM to it, and
// collects what is orphaned. When it ends, the kernel ends all that is left.
func Boot(program string, arguments ...string) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("a node is started by `devcluster run --node kubelet`")
	}
	// The namespace belongs to the thread; the child is made by the same one.
	runtime.LockOSThread()
	if err := unix.Setns(NamespaceFile, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering the network: %w", err)
	}
	unix.CloseOnExec(NamespaceFile)
	if err := mounts(); err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	child := exec.Command(program, arguments...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		return fmt.Errorf("starting the node: %w", err)
	}
	go func() {
		<-told
		_ = child.Process.Signal(syscall.SIGTERM)
	}()
	return reap(child.Process.Pid)
}

// mounts gives the node a view of its own of what is about processes, and of the private folders.
func mounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separating the mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, folder := range private {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
			return fmt.Errorf("mounting %s: %w", folder, err)
		}
	}
	return nil
}

// reap collects every child until the one with this id ends, and returns how that ended.
func reap(child int) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("waiting for the node: %w", err)
		case pid == child && status.Exited() && status.ExitStatus() == 0:
			return nil
		case pid == child:
			return fmt.Errorf("the node ended with exit code %d, signal %d", status.ExitStatus(), status.Signal())
		}
	}
}
