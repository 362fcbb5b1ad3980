// Package kubeletnode is a real node: containerd, a kubelet and kube-proxy.
//
//	supervisor ── node (process 1) ── its keeper ─┬─ containerd ── the processes of pods
//	                                              ├─ kubelet
//	                                              └─ kube-proxy
//
// The node is a machine of its own as far as the kernel lets it be one. It has a
// process namespace, whose first process takes all others with it when it dies,
// shims and containers included; a mount namespace, so that its mounts and what it
// writes below /run concern nobody else; and a network namespace that a cable
// joins to this machine, with its own bridge, addresses and rules for Services.
// What the supervisor holds of them goes when it does, however it ends. So a node
// is killed as one pulls a plug: by one signal.
package kubeletnode

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

// Name of the Node.
const Name = "kubelet-node"

// Config is what a node needs to know.
type Config struct {
	Dir cluster.Dir
	// Net is the third octet of all its addresses, so that two nodes on one machine do not meet.
	Net int
}

// Host is the address at which the node and its pods reach this machine.
func (c Config) Host() string { return fmt.Sprintf("10.243.%d.1", c.Net) }

// Address is that of the node.
func (c Config) Address() string { return fmt.Sprintf("10.243.%d.2", c.Net) }

// Cable is the network of Host and Address.
func (c Config) Cable() string { return fmt.Sprintf("10.243.%d.0/30", c.Net) }

// Pods is the network of the pods.
func (c Config) Pods() string { return fmt.Sprintf("10.244.%d.0/24", c.Net) }

// tag tells what belongs to this cluster where directories are not known.
func (c Config) tag() string {
	sum := sha256.Sum256([]byte(c.Dir))
	return hex.EncodeToString(sum[:4])
}

// path is below the node's own folder.
func (c Config) path(names ...string) string {
	return c.Dir.Path(append([]string{"node"}, names...)...)
}
