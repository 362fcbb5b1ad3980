package kubeletnode

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

// ctr is containerd's own client, on the images and tasks of the kubelet.
func ctr(ctx context.Context, socket string, arguments ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ctr", append([]string{"--address", socket, "--namespace", "k8s.io"}, arguments...)...)
}

// CheckImages says whether the image is among those of the cluster without which no pod starts.
func CheckImages(dir cluster.Dir) error {
	images, err := cluster.ReadImages(dir.Images())
	if err == nil && images[Sandbox] == "" {
		err = fmt.Errorf("a kubelet's node needs the image %[1]s, which holds the namespaces of a pod: --image %[1]s=ARCHIVE (`make images` writes bin/images/pause.tar)", Sandbox)
	}
	return err
}

// Import gives containerd, at this socket, the archives of the cluster's images.
func (c Config) Import(ctx context.Context, socket string) error {
	images, err := cluster.ReadImages(c.Dir.Images())
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var problems error
	for name, archive := range images {
		all.Go(func() {
			if output, err := ctr(ctx, socket, "images", "import", "--snapshotter", snapshotter, archive).CombinedOutput(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				problems = errors.Join(problems, fmt.Errorf("importing %s from %s: %w: %s", name, archive, err, output))
			}
		})
	}
	all.Wait()
	if problems != nil {
		return problems
	}
	return known(ctx, socket, images)
}

// known fails if an archive did not hold the image it was named for: its pods would wait for ever.
func known(ctx context.Context, socket string, images cluster.Images) error {
	output, err := ctr(ctx, socket, "images", "list", "-q").Output()
	if err != nil {
		return fmt.Errorf("listing the images: %w", err)
	}
	have := strings.Fields(string(output))
	for name, archive := range images {
		if !slices.Contains(have, full(name)) {
			return fmt.Errorf("%s holds no image %s", archive, full(name))
		}
	}
	return nil
}

// full is a name as containerd has it. A first word that is no host belongs to the registry of old.
func full(name string) string {
	first, rest, found := strings.Cut(name, "/")
	switch {
	case !found:
		return "docker.io/library/" + name
	case first == "localhost" || strings.ContainsAny(first, ".:"):
		return first + "/" + rest
	default:
		return "docker.io/" + name
	}
}

// SocketOf is the socket of a node's containerd as this machine sees it, by the id of the node's first process.
func SocketOf(pid int) string { return fmt.Sprintf("/proc/%d/root%s", pid, Socket) }
