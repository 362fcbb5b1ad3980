package kubeletnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/ekiden-dev/ekiden/hack/devcluster/launch"
)

// startPatience is how long containerd may take to answer.
const startPatience = 30 * time.Second

// Run is the rest of the node: it starts containerd, gives it the images, starts kubelet and kube-proxy, and keeps all
// running until the context ends.
func Run(ctx context.Context, c Config) error {
	if err := c.prepare(); err != nil {
		return fmt.Errorf("preparing the node: %w", err)
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this binary: %w", err)
	}
	thread := launch.NewThread()
	containerd := launch.Keep(c.service("containerd", "containerd", "--config", c.path("containerd.toml")), thread, func() {})
	defer containerd.End()
	if err := containerdReady(ctx); err != nil {
		return err
	}
	if err := c.Import(ctx, Socket); err != nil {
		return err
	}
	kubelet := launch.Keep(c.service("kubelet", executable, "kubelet",
		"--config="+c.path("kubelet.yaml"), "--kubeconfig="+c.Dir.Kubeconfig("node"), "--root-dir="+c.path("kubelet"),
		"--hostname-override="+Name, "--node-ip="+c.Address()), thread, func() {})
	defer kubelet.End()
	proxy := launch.Keep(c.service("kube-proxy", executable, "kube-proxy", "--config="+c.path("proxy.yaml")), thread, func() {})
	defer proxy.End()
	<-ctx.Done()
	return nil
}

func (c Config) service(name, program string, arguments ...string) launch.Service {
	return launch.Service{
		Name: name, Log: c.Dir.Log(name),
		Command: func() *exec.Cmd { return exec.Command(program, arguments...) },
		Stop:    syscall.SIGTERM, Grace: 2 * time.Second, Death: syscall.SIGKILL,
	}
}

// prepare brings the node to where a machine is after its boot: no pod's network is left, and nothing is configured but
// by us.
func (c Config) prepare() error {
	if err := clearNetwork(); err != nil {
		return fmt.Errorf("removing the bridge: %w", err)
	}
	if err := os.RemoveAll(c.path("addresses")); err != nil {
		return err
	}
	// The node forwards for its pods. This is the switch of its network namespace, not that of the machine.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		return fmt.Errorf("turning on forwarding: %w", err)
	}
	// The kubelet looks at each group it finds for seconds.
	if err := c.RemoveCgroup(); err != nil {
		return fmt.Errorf("removing the control groups of earlier pods: %w", err)
	}
	if err := makeCgroup(c.Cgroup()); err != nil {
		return fmt.Errorf("making the control group: %w", err)
	}
	return c.configure()
}

// containerdReady waits until containerd answers.
func containerdReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		err := ctr(ctx, Socket, "version").Run()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("containerd does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
