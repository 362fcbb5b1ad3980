// Package supervisor runs all processes of a development cluster.
//
//	supervisor ─┬─ etcd
//	            ├─ kube-apiserver
//	            ├─ kube-controller-manager
//	            ├─ kube-scheduler
//	            ├─ postgres
//	            └─ node ── the processes of pods
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
	"github.com/ekiden-dev/ekiden/hack/devcluster/launch"
	"github.com/ekiden-dev/ekiden/hack/devcluster/postgres"
)

// Options of a cluster.
type Options struct {
	Dir      cluster.Dir
	Images   cluster.Images
	Node     bool
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
	keepers map[string]*keeper
	ready   bool // From then on cluster.json is there and follows the process ids.
}

// Run starts the cluster, keeps it running until the context ends, and stops it.
func Run(ctx context.Context, options Options) error {
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
		options: options, began: time.Now(), thread: launch.NewThread(), keepers: map[string]*keeper{},
		plane: controlPlane{dir: options.Dir, ports: ports, executable: executable},
	}
	defer s.stop()
	if err := s.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // Told to stop while starting.
		}
		return err
	}
	<-ctx.Done()
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
func (s *Supervisor) keep(service service) *keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := keep(service, s.thread, s.describe)
	s.keepers[service.name] = k
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
		Dir:        string(s.options.Dir),
		Kubeconfig: s.options.Dir.Kubeconfig("admin"),
		Server:     s.plane.server(),
		ImagesFile: s.options.Dir.Images(),
		PIDs:       map[string]int{"supervisor": os.Getpid()},
	}
	if s.options.Postgres {
		description.Postgres = cluster.LocalPostgres(s.plane.ports.Postgres)
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
				wait.Go(k.Stop)
			}
		}
		wait.Wait()
	}
	launch.EndLeftovers(s.options.Dir.Pods())
	s.announce("stopped")
}

// postgresService runs the database server; SIGINT is its fast stop.
func postgresService(dir cluster.Dir, server *postgres.Server) service {
	return service{
		name: "postgres", command: server.Command, log: dir.Log("postgres"),
		stop: syscall.SIGINT, grace: 5 * time.Second, death: syscall.SIGKILL,
	}
}
