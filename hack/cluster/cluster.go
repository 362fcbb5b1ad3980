// Package cluster starts a development cluster and installs Ekiden in it, as any user would: from config/, under the
// manager's own ServiceAccount. The demo and the stories use it.
package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options say where and how.
type Options struct {
	// Dir is the cluster's folder, Repo the root of this repository, whose bin/ holds what was built.
	Dir, Repo string
	// Programs are those that pods run as processes instead of what is in bin/, by name.
	Programs map[string]string
	// Node is what runs the pods: NodeProcess if it says nothing.
	Node string
	// Keep leaves the cluster running when this process ends. Otherwise nothing outlives the process, however it ends.
	Keep bool
	// Progress is told what happens.
	Progress io.Writer
}

// Cluster is a development cluster that runs.
type Cluster struct {
	Options
	supervisor *exec.Cmd
	// ended is closed when the supervisor has ended; outcome is set then.
	ended   chan struct{}
	outcome error
}

// Description is what the cluster says about itself.
type Description struct {
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	// HostAddress is where pods reach this machine. A server that they are to reach listens there.
	HostAddress string `json:"hostAddress"`
	// Node is the node: its name, whether it runs, and of a kubelet's the control group of its pods.
	Node struct {
		Name   string `json:"name"`
		State  string `json:"state"`
		Cgroup string `json:"cgroup"`
	} `json:"node"`
	Postgres struct {
		Host         string `json:"host"`
		Port         int    `json:"port"`
		SuperuserDSN string `json:"superuserDSN"`
	} `json:"postgres"`
	// Pids change when a process is restarted.
	Pids map[string]int `json:"pids"`
}

// readyWithin is how long a cluster may take to start.
const readyWithin = 2 * time.Minute

// Start starts the cluster and waits until it is ready.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{Options: o}
	flags, err := c.node()
	if err != nil {
		return nil, err
	}
	args := append([]string{"--dir", o.Dir}, flags...)
	if o.Keep {
		return c, c.run(ctx, o.Progress, append([]string{"up"}, args...)...)
	}
	// The cluster outlives ctx, which is about its start.
	c.supervisor = exec.CommandContext(context.WithoutCancel(ctx), c.binary(), append([]string{"run"}, args...)...)
	c.supervisor.Stdout, c.supervisor.Stderr = o.Progress, o.Progress
	if err := StartBound(c.supervisor); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.binary(), err)
	}
	c.ended = make(chan struct{})
	go func() {
		c.outcome = c.supervisor.Wait()
		close(c.ended)
	}()
	if err := c.ready(ctx); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		if _, err := c.Describe(); err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return errors.New("the cluster ended before it was ready: see " + filepath.Join(c.Dir, "logs"))
		case <-ctx.Done():
			return fmt.Errorf("the cluster did not become ready: see %s: %w", filepath.Join(c.Dir, "logs"), ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Stop stops the cluster and waits until nothing of it is left but its folder. Stopping twice is no error.
func (c *Cluster) Stop(ctx context.Context) error {
	if c.supervisor == nil {
		return c.run(ctx, c.Progress, "down", "--dir", c.Dir)
	}
	_ = c.supervisor.Process.Signal(os.Interrupt) // it may have ended already
	<-c.ended
	// Data that Postgres could not have in the folder goes only now.
	return errors.Join(c.outcome, c.run(ctx, io.Discard, "down", "--dir", c.Dir))
}

// Describe reads what the cluster says about itself; it fails while the cluster is not ready.
func (c *Cluster) Describe() (Description, error) {
	var d Description
	b, err := os.ReadFile(filepath.Join(c.Dir, "cluster.json"))
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(b, &d)
}

// Config is the administrator's access to the API.
func (c *Cluster) Config() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err == nil {
		cfg.QPS, cfg.Burst = 200, 400
	}
	return cfg, err
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "admin.kubeconfig") }

// Kubectl runs kubectl as the administrator and returns what it prints.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlIn(ctx, "", args...)
}

// KubectlIn is Kubectl with standard input.
func (c *Cluster) KubectlIn(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.binary(), append([]string{"kubectl", "--kubeconfig", c.Kubeconfig()}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

func (c *Cluster) binary() string { return filepath.Join(c.Repo, "bin", "devcluster") }

func (c *Cluster) run(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, c.binary(), args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // up takes down what it has begun
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("devcluster %s: %w", args[0], err)
	}
	return nil
}
