package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script keeps a shell running until the test ends.
func script(t *testing.T, text string) *Keeper {
	t.Helper()
	k := Keep(Service{
		Name: "script", Log: filepath.Join(t.TempDir(), "log"),
		Command: func() *exec.Cmd { return exec.Command("/bin/sh", "-c", text) },
		Stop:    syscall.SIGTERM, Grace: 200 * time.Millisecond, Death: syscall.SIGKILL,
	}, NewThread(), func() {})
	t.Cleanup(k.End)
	return k
}

// eventually polls a condition of the operating system, which has no event for it.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not so: " + what)
		}
	}
}

func TestKeeperReplacesAProcessThatWasKilled(t *testing.T) {
	t.Parallel()
	k := script(t, "exec sleep 1000")
	eventually(t, "it runs", func() bool { return k.PID() != 0 })
	first := k.PID()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another one runs", func() bool { return k.PID() != 0 && k.PID() != first })
	if k.Deaths() != 1 {
		t.Errorf("Deaths() = %d, want 1", k.Deaths())
	}
}

func TestKeeperGoesOnWithOneThatCannotStay(t *testing.T) {
	t.Parallel()
	k := script(t, "echo again; exit 1")
	eventually(t, "it was started three times", func() bool { return k.Deaths() >= 3 })
	content, err := os.ReadFile(k.Log)
	if err != nil || strings.Count(string(content), "again\n") < 3 {
		t.Errorf("the log is %q, %v", content, err)
	}
}

func TestKeeperStopsAProcessThatDoesNotListen(t *testing.T) {
	t.Parallel()
	k := script(t, "trap '' TERM; echo up; while :; do sleep 0.01; done")
	eventually(t, "it has set its trap", func() bool {
		content, _ := os.ReadFile(k.Log)
		return strings.Contains(string(content), "up") && k.PID() != 0 // It may speak before it is known.
	})
	pid := k.PID()
	k.End()
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d after End: %v", pid, err)
	}
	if k.PID() != 0 {
		t.Errorf("PID() = %d after End", k.PID())
	}
}
