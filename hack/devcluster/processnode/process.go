package processnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/hack/devcluster/launch"
)

// process is one run of a container.
type process struct {
	number    int // 0 for the first run of the container.
	binary    string
	command   *exec.Cmd
	startedAt metav1.Time
	failure   error         // It could not even be started.
	done      chan struct{} // Closed when it has ended; what follows is set then.
	endedAt   metav1.Time
	state     *os.ProcessState
}

// launch starts the process. An error is one of the node; if the machine refuses
// to run the command, that is how the container ended.
func (c *container) launch(invocation *invocation) (*process, error) {
	logs := filepath.Join(c.pod.logs(), c.spec.Name)
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, err
	}
	earlier, err := filepath.Glob(filepath.Join(logs, "*.log"))
	if err != nil {
		return nil, err
	}
	p := &process{number: len(earlier), binary: invocation.binary, done: make(chan struct{}), startedAt: stamp()}
	output, err := os.OpenFile(logFile(logs, p.number), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()

	p.command = exec.Command(invocation.binary, invocation.arguments...)
	p.command.Args[0] = invocation.name
	p.command.Env, p.command.Dir = invocation.environment, invocation.directory
	// Files, not pipes: the process ends when it ends, whoever still holds its output.
	p.command.Stdout, p.command.Stderr = output, output
	if p.failure = p.command.Err; p.failure == nil {
		p.failure = c.pod.agent.thread.Start(p.command, syscall.SIGKILL)
	}
	if p.failure != nil {
		p.endedAt = stamp()
		close(p.done)
		return p, nil
	}
	go p.wait()
	return p, nil
}

func logFile(folder string, number int) string {
	return filepath.Join(folder, fmt.Sprintf("%d.log", number))
}

func (p *process) id() string { return fmt.Sprintf("process://%d", p.command.Process.Pid) }

func (p *process) wait() {
	_ = p.command.Wait() // Its result is in ProcessState.
	// A container ends with its first process; so does the group.
	_ = launch.Signal(p.command.Process.Pid, syscall.SIGKILL)
	p.state, p.endedAt = p.command.ProcessState, stamp()
	close(p.done)
}

// obey ends the process when the pod is ordered to.
func (p *process) obey(o *order) {
	select {
	case <-p.done:
		return
	case <-o.given:
	}
	_ = launch.Signal(p.command.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-o.killed:
		_ = launch.Signal(p.command.Process.Pid, syscall.SIGKILL)
	}
}

// The limits of a kubelet.
const (
	longestMessage = 4096
	longestTail    = 2048
	mostTailLines  = 80
)

// startError is the exit code of a container that could not be started.
const startError = 128

// termination is how the run is reported.
func (c *container) termination(p *process) *corev1.ContainerStateTerminated {
	ended := &corev1.ContainerStateTerminated{StartedAt: p.startedAt, FinishedAt: p.endedAt, Reason: "Completed"}
	if p.failure != nil {
		ended.ExitCode, ended.Reason, ended.Message = startError, "StartError", p.failure.Error()
		return ended
	}
	ended.ContainerID = p.id()
	ended.ExitCode, ended.Signal = exitCode(p.state)
	if ended.ExitCode != 0 {
		ended.Reason = "Error"
	}
	ended.Message = readMessage(c.terminationLog())
	if ended.Message == "" && ended.ExitCode != 0 && c.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		ended.Message = logTail(logFile(filepath.Join(c.pod.logs(), c.spec.Name), p.number))
	}
	return ended
}

// exitCode is 128 and the number of the signal for a process that was killed.
func exitCode(state *os.ProcessState) (code, signal int32) {
	status, is := state.Sys().(syscall.WaitStatus)
	if is && status.Signaled() {
		return 128 + int32(status.Signal()), int32(status.Signal())
	}
	return int32(state.ExitCode()), 0
}

// readMessage returns the beginning of what the container left as its message.
func readMessage(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return ""
		}
		return err.Error()
	}
	return strings.ToValidUTF8(string(content[:min(len(content), longestMessage)]), "")
}

// logTail returns the end of a log, in whole characters.
func logTail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	content = content[max(0, len(content)-longestTail):]
	for len(content) > 0 && !utf8.RuneStart(content[0]) {
		content = content[1:]
	}
	return string(lastLines(content, mostTailLines))
}
