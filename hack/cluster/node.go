package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// What may run the pods.
const (
	// NodeProcess runs them as processes of this machine, from what is built.
	NodeProcess = "process"
	// NodeKubelet is a kubelet with containerd, which runs images. It wants root on Linux and some packages.
	NodeKubelet = "kubelet"
)

// images are the names in config/ and the programs in them.
var images = map[string]string{"ekiden/manager:dev": "manager", "ekiden/segment:dev": "segment"}

// sandbox is the image that a kubelet's node wants for itself.
const sandbox = "localhost/pause:dev"

// NodeFromEnvironment is what the variable NODE names.
func NodeFromEnvironment() (string, error) {
	node := os.Getenv("NODE")
	switch node {
	case "", NodeProcess:
		return NodeProcess, nil
	case NodeKubelet:
		return node, nil
	case "kind":
		return "", fmt.Errorf("NODE=kind: kind needs Docker, and nothing here starts it; NODE=%s runs the same images on a real kubelet without Docker", NodeKubelet)
	default:
		return "", fmt.Errorf("NODE is %s or %s, not %q", NodeProcess, NodeKubelet, node)
	}
}

// node are the flags that say what runs the pods, and from what.
func (c *Cluster) node() ([]string, error) {
	var flags []string
	if c.Node != NodeKubelet {
		for name, program := range images {
			flags = append(flags, "--image", name+"="+cmp.Or(c.Programs[program], filepath.Join(c.Repo, "bin", program)))
		}
		return flags, nil
	}
	flags = append(flags, "--node", NodeKubelet, "--image", sandbox+"="+c.archive("pause"))
	for name, program := range images {
		flags = append(flags, "--image", name+"="+c.archive(program))
	}
	if _, err := os.Stat(c.archive("pause")); err != nil {
		return nil, fmt.Errorf("a kubelet's node runs images, which `make images` writes: %w", err)
	}
	return flags, nil
}

func (c *Cluster) archive(image string) string {
	return filepath.Join(c.Repo, "bin", "images", image+".tar")
}

// KillNode has the node die as by a power cut. The control plane goes on.
func (c *Cluster) KillNode(ctx context.Context) error {
	return c.run(ctx, c.Progress, "node", "kill", "--dir", c.Dir)
}

// StartNode has the node come back.
func (c *Cluster) StartNode(ctx context.Context) error {
	return c.run(ctx, c.Progress, "node", "start", "--dir", c.Dir)
}
