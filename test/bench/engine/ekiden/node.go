package ekiden

import (
	"errors"
	"os"
	"os/exec"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// node runs segments as processes.
type node struct {
	binary, dsn string

	mu      sync.Mutex
	ready   *sync.Cond
	running bool
	pods    map[*pod]bool
}

// pod is the process of one attempt.
type pod struct {
	key   lifecycle.AttemptKey
	cmd   *exec.Cmd
	ended chan struct{}
	err   error
}

func newNode(binary, dsn string) *node {
	n := &node{binary: binary, dsn: dsn, pods: map[*pod]bool{}}
	n.ready = sync.NewCond(&n.mu)
	return n
}

// start starts the process of an attempt, once the node is up.
func (n *node) start(run types.UID, k lifecycle.AttemptKey) (*pod, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !n.running {
		n.ready.Wait()
	}
	p := &pod{key: k, ended: make(chan struct{})}
	p.cmd = exec.Command(n.binary, "--dsn", n.dsn, "--run", string(run)) //nolint:gosec,noctx // our own binary; the node ends it
	p.cmd.Env = append(os.Environ(), "POD_NAME=bench")
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	n.pods[p] = true
	go func() {
		p.err = p.cmd.Wait()
		n.mu.Lock()
		delete(n.pods, p)
		n.mu.Unlock()
		close(p.ended)
	}()
	return p, nil
}

func (n *node) up() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = true
	n.ready.Broadcast()
}

// down kills every process and returns when they are gone.
func (n *node) down() {
	n.mu.Lock()
	n.running = false
	var gone []*pod
	for p := range n.pods {
		_ = p.cmd.Process.Kill() // it may have ended
		gone = append(gone, p)
	}
	n.mu.Unlock()
	for _, p := range gone {
		<-p.ended
	}
}

// sight is what a cluster would show of the attempt.
func (p *pod) sight(k lifecycle.AttemptKey) lifecycle.Sighting {
	if p == nil || p.key != k {
		return lifecycle.Sighting{}
	}
	select {
	case <-p.ended:
	default:
		return lifecycle.Sighting{State: lifecycle.Working}
	}
	// Which fault it was is not asked: nothing of this bench makes one, but a Postgres that is slow to answer.
	end := lifecycle.AttemptEnd{Terminated: true}
	var exit *exec.ExitError
	switch {
	case p.err == nil:
		end.Class, end.Message = lifecycle.Yielded, "exit code 0"
	case errors.As(p.err, &exit) && exit.ExitCode() == contract.ExitFault:
		end.Class, end.Code, end.Message = lifecycle.Faulted, contract.FaultLedger, "exit code 75"
	default:
		end.Class, end.Message = lifecycle.Crashed, p.err.Error()
	}
	return lifecycle.Sighting{State: lifecycle.Ended, End: end}
}
