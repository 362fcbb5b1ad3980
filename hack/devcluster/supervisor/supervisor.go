// Package supervisor runs all processes of a development cluster.
//
//	supervisor ─┬─ etcd
//	            ├─ kube-apiserver
//	            ├─ kube-controller-manager
//	            ├─ kube-scheduler
//	            ├─ postgres
//	            └─ node ── the processes of pods, or a kubelet's machine
//
// It restarts what dies, as an init system would, and none of them outlives it.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/kubeletnode"
	"github.com/ekiden-dev/ekiden/hack/devcluster/launch"
	"github.com/ekiden-dev/ekiden/hack/devcluster/postgres"
)

// Options of a cluster.
type Options struct {
	Dir      cluster.Dir
	Images   cluster.Images
	Node     string // A kind, or nothing for no node.
	Postgres bool
}

// Supervisor owns the processes of one cluster.
type Supervisor struct {
	options Options
	plane   controlPlane
	thread  *launch.Thread
	began   time.Time
	client  kubernetes.Interface

	mu      sync.Mutex
	keepers map[string]*launch.Keeper
	stopped bool // The node, by somebody's wish.
	ready   bool // From then on cluster.json is there and follows the process ids.
}

// Run starts the cluster, keeps it running until the context ends, and stops it.
func Run(ctx context.Context, options Options) error {
	if options.Node == cluster.KubeletNode {
		if err := kubeletnode.Check(); err != nil {
			return err
		}
	}
	if err := options.Dir.Create(); err != nil {
		return err
	}
	release, err := claim(options.Dir)
	if err != nil {
		return err
	}
	defer release()
	if err := options.Dir.AddImages(options.Images); err != nil {
		return err
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this binary: %w", err)
	}
	ports, err := options.Dir.ChoosePorts()
	if err != nil {
		return fmt.Errorf("choosing ports: %w", err)
	}
	s := &Supervisor{
		options: options, began: time.Now(), thread: launch.NewThread(), keepers: map[string]*launch.Keeper{},
		plane: controlPlane{dir: options.Dir, ports: ports, executable: executable},
	}
	if options.Node == cluster.KubeletNode {
		if err := kubeletnode.CheckImages(options.Dir); err != nil {
			return err
		}
		if err := s.connectNode(); err != nil {
			return err
		}
		defer func() { _ = s.plane.network.Close() }()
	}
	defer s.stop()
	if err := s.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // Told to stop while starting.
		}
		return err
	}
	s.attend(ctx)
	return nil
}

// connectNode makes the network of a kubelet's node, on which servers are to listen.
func (s *Supervisor) connectNode() error {
	node := &kubeletnode.Config{Dir: s.options.Dir, Net: s.plane.ports.PodNet}
	// One that was killed has left it: groups have no owner whose end the kernel knows.
	if err := node.RemoveCgroup(); err != nil {
		return fmt.Errorf("removing the control groups of an earlier start: %w", err)
	}
	network, err := kubeletnode.Connect(*node)
	if err != nil {
		return err
	}
	s.plane.kubelet, s.plane.network = node, network
	return nil
}

// claim makes this process the supervisor of the directory, of which there is one.
func claim(dir cluster.Dir) (release func(), err error) {
	file, err := os.OpenFile(dir.PID(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claiming the directory: %w", err)
	}
	// The kernel gives the lock back when this process ends, however it ends.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("a supervisor is already running in %s", dir)
	}
	if err := os.Remove(dir.Description()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the last run's description: %w", err)
	}
	if err := file.Truncate(0); err != nil {
		return nil, fmt.Errorf("writing the process id: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, fmt.Errorf("writing the process id: %w", err)
	}
	return func() {
		_ = os.Remove(dir.Description())
		_ = os.Remove(dir.PID())
		_ = file.Close()
	}, nil
}

// keep starts a service.
func (s *Supervisor) keep(service launch.Service) *launch.Keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := launch.Keep(service, s.thread, s.describe)
	s.keepers[service.Name] = k
	return k
}

// announce ends a phase with its line.
func (s *Supervisor) announce(what string) {
	fmt.Printf("%s %.1fs\n", what, time.Since(s.began).Seconds())
}

// publish makes the cluster's description visible: it is ready.
func (s *Supervisor) publish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
	return s.options.Dir.Write(s.description())
}

// describe follows a change of process ids.
func (s *Supervisor) describe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		return
	}
	if err := s.options.Dir.Write(s.description()); err != nil {
		fmt.Println(err)
	}
}

func (s *Supervisor) description() cluster.Description {
	description := cluster.Description{
		Dir:         string(s.options.Dir),
		Kubeconfig:  s.options.Dir.Kubeconfig("admin"),
		Server:      s.plane.server(),
		HostAddress: s.plane.host(),
		ImagesFile:  s.options.Dir.Images(),
		PIDs:        map[string]int{"supervisor": os.Getpid()},
		Node:        s.node(),
	}
	if s.options.Postgres {
		description.Postgres = cluster.LocalPostgres(s.plane.host(), s.plane.ports.Postgres)
	}
	for name, k := range s.keepers {
		if pid := k.PID(); pid != 0 {
			description.PIDs[name] = pid
		}
	}
	return description
}

// stop ends everything in the order in which nothing waits for what has gone:
// pods need the API to say how they ended, and the API server hangs without etcd.
func (s *Supervisor) stop() {
	s.mu.Lock()
	s.ready, s.began = false, time.Now()
	s.mu.Unlock()
	_ = os.Remove(s.options.Dir.Description())
	order := [][]string{
		{"node"},
		{"kube-controller-manager", "kube-scheduler", "postgres"},
		{"kube-apiserver"},
		{"etcd"},
	}
	for _, names := range order {
		var wait sync.WaitGroup
		for _, name := range names {
			if k := s.keepers[name]; k != nil {
				wait.Go(k.End)
			}
		}
		wait.Wait()
	}
	launch.EndLeftovers(s.options.Dir.Pods())
	if node := s.plane.kubelet; node != nil {
		if err := node.RemoveCgroup(); err != nil {
			fmt.Println(err)
		}
	}
	s.announce("stopped")
}

// postgresService runs the database server; SIGINT is its fast stop.
func postgresService(dir cluster.Dir, server *postgres.Server) launch.Service {
	return launch.Service{
		Name: "postgres", Command: server.Command, Log: dir.Log("postgres"),
		Stop: syscall.SIGINT, Grace: 5 * time.Second, Death: syscall.SIGKILL,
	}
}
