package supervisor

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/kubeletnode"
)

// NodeSignal has the supervisor look what is wanted of the node.
const NodeSignal = syscall.SIGUSR1

// What may be wanted of the node.
const (
	StartNode = "start"
	StopNode  = "stop"
	KillNode  = "kill"
)

// attend does what is wanted of the node until the context ends.
func (s *Supervisor) attend(ctx context.Context) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, NodeSignal)
	defer signal.Stop(asked)
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			wanted, err := os.ReadFile(s.options.Dir.NodeWanted())
			if err != nil {
				fmt.Println("reading what is wanted of the node:", err)
				continue
			}
			s.bring(strings.TrimSpace(string(wanted)))
		}
	}
}

// bring brings the node into the state that is wanted.
func (s *Supervisor) bring(wanted string) {
	s.mu.Lock()
	node, stopped := s.keepers["node"], s.stopped
	s.mu.Unlock()
	switch {
	case node == nil:
		fmt.Println("this cluster has no node")
		return
	case wanted == StartNode && stopped:
		s.setStopped(false)
		s.keep(s.plane.node())
	case wanted == StopNode && !stopped:
		node.End()
		s.setStopped(true)
	case wanted == KillNode && !stopped:
		node.Kill()
		s.setStopped(true)
	}
	s.describe()
}

func (s *Supervisor) setStopped(stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = stopped
}

// node describes the node; the caller holds the lock.
func (s *Supervisor) node() *cluster.Node {
	if s.options.Node == "" {
		return nil
	}
	node := &cluster.Node{Name: s.nodeName(), Kind: s.options.Node, State: cluster.NodeRunning}
	if s.stopped {
		node.State = cluster.NodeStopped
	}
	if kubelet := s.plane.kubelet; kubelet != nil {
		node.Cgroup = kubelet.Cgroup()
		if k := s.keepers["node"]; k != nil && k.PID() != 0 {
			node.Containerd = kubeletnode.SocketOf(k.PID())
		}
	}
	return node
}
