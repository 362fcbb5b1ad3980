package supervisor

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/kubeletnode"
	"github.com/ekiden-dev/ekiden/hack/devcluster/launch"
	"github.com/ekiden-dev/ekiden/hack/devcluster/postgres"
	"github.com/ekiden-dev/ekiden/hack/devcluster/processnode"
)

const (
	// patience is how long one phase may take; on a loaded machine ten times
	// what was measured on a quiet one.
	patience = 90 * time.Second
	// fatalDeaths before the first sign of life mean that it will not come.
	fatalDeaths = 4
)

// start brings the cluster up. The database does not depend on the rest.
func (s *Supervisor) start(ctx context.Context) error {
	starting, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var both sync.WaitGroup
	for _, start := range []func(context.Context) error{s.startPostgres, s.startKubernetes} {
		both.Go(func() {
			if err := start(starting); err != nil {
				fail(err) // The other need not go on; the first failure is the reason.
			}
		})
	}
	both.Wait()
	if err := context.Cause(starting); err != nil {
		return err
	}
	if err := s.publish(); err != nil {
		return err
	}
	s.announce("cluster ready")
	return nil
}

func (s *Supervisor) startKubernetes(ctx context.Context) error {
	if err := s.plane.prepare(); err != nil {
		return fmt.Errorf("preparing the control plane: %w", err)
	}
	s.announce("certificates ready")
	if err := s.connect(); err != nil {
		return err
	}

	// The API server waits for etcd itself; its own start is the long one.
	etcd := s.keep(s.plane.etcd())
	apiServer := s.keep(s.plane.apiServer())
	if err := s.await(ctx, "etcd ready", etcd, s.etcdReady); err != nil {
		return err
	}
	if err := s.await(ctx, "kube-apiserver ready", apiServer, s.apiServerReady); err != nil {
		return err
	}
	// Earlier the others would end: they may do nothing before RBAC is set up.
	manager := s.keep(s.plane.controllerManager())
	s.keep(s.plane.scheduler())
	var node *launch.Keeper
	if s.options.Node != "" {
		node = s.keep(s.plane.node())
	}
	if err := s.await(ctx, "kube-controller-manager ready", manager, s.controllersReady); err != nil {
		return err
	}
	if node == nil {
		return nil
	}
	return s.await(ctx, "node ready", node, s.nodeReady)
}

func (s *Supervisor) startPostgres(ctx context.Context) error {
	if !s.options.Postgres {
		return nil
	}
	server, err := postgres.Prepare(ctx, s.options.Dir, s.plane.ports.Postgres, s.pods())
	if err != nil {
		return fmt.Errorf("preparing postgres: %w", err)
	}
	return s.await(ctx, "postgres ready", s.keep(postgresService(s.options.Dir, server)), server.Ready)
}

// pods says from where Postgres is reached besides loopback.
func (s *Supervisor) pods() postgres.Pods {
	node := s.plane.kubelet
	if node == nil {
		return postgres.Pods{}
	}
	return postgres.Pods{Address: node.Host(), Networks: []string{node.Cable(), node.Pods()}}
}

func (s *Supervisor) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", s.options.Dir.Kubeconfig("admin"))
	if err != nil {
		return fmt.Errorf("reading the administrator's kubeconfig: %w", err)
	}
	config.QPS = -1
	s.client, err = kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	return nil
}

func (s *Supervisor) etcdReady(ctx context.Context) error {
	address := net.JoinHostPort(cluster.Loopback, strconv.Itoa(s.plane.ports.EtcdClient))
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

func (s *Supervisor) apiServerReady(ctx context.Context) error {
	return s.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// controllersReady holds when a controller has done its work: pods of the
// default namespace are refused before its ServiceAccount is there.
func (s *Supervisor) controllersReady(ctx context.Context) error {
	_, err := s.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func (s *Supervisor) nodeName() string {
	if s.plane.kubelet != nil {
		return kubeletnode.Name
	}
	return processnode.Name
}

func (s *Supervisor) nodeReady(ctx context.Context) error {
	node, err := s.client.CoreV1().Nodes().Get(ctx, s.nodeName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		// Not one the node of an earlier start has left; times have whole seconds.
		fresh := !condition.LastHeartbeatTime.Time.Before(s.began.Truncate(time.Second))
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && fresh && len(node.Spec.Taints) == 0 {
			return nil
		}
	}
	return fmt.Errorf("the node is not ready")
}

// await polls a sign of life. It gives up early on a process that keeps dying.
func (s *Supervisor) await(ctx context.Context, phase string, k *launch.Keeper, sign func(context.Context) error) error {
	deadline := time.Now().Add(patience)
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := sign(attempt)
		cancel()
		switch {
		case err == nil:
			s.announce(phase)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case k.Deaths() >= fatalDeaths:
			return fmt.Errorf("%s ended %d times while starting; the end of %s:\n%s", k.Name, k.Deaths(), k.Log, tail(k.Log))
		case time.Now().After(deadline):
			return fmt.Errorf("not %s after %s (%w); the end of %s:\n%s", phase, patience, err, k.Log, tail(k.Log))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// tail returns the last lines of a log.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
