// Package integration tells stories: whole runs on the development cluster, with the manager installed as any user
// installs it, pods as processes, a real API server and a real Postgres. Only the model is scripted.
//
// All stories share one cluster and each has a namespace and a model server of its own, so that they may run side by side.
// Stories that kill what all share come last, one at a time.
package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
	"github.com/ekiden-dev/ekiden/test/serve"
)

var (
	shared *cluster.Cluster
	api    client.WithWatch
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "ekiden-stories-")
	if err != nil {
		return 1, err
	}
	repo, err := filepath.Abs(filepath.Join("..", "..")) // tests run in the folder of their package
	if err != nil {
		return 1, err
	}
	node, err := cluster.NodeFromEnvironment()
	if err != nil {
		return 1, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	log, err := os.Create(filepath.Join(dir, "cluster.log"))
	if err != nil {
		return 1, err
	}
	if shared, err = cluster.Start(ctx, cluster.Options{Dir: dir, Repo: repo, Node: node, Progress: log}); err != nil {
		return 1, err
	}
	code := 1
	err = shared.Install(ctx)
	if err == nil {
		err = connect()
	}
	if err == nil {
		serve.Host, err = hostAddress()
	}
	if err == nil {
		code = m.Run()
	}
	if err == nil && code == 0 && whole() {
		err = idle()
	}
	stopErr := shared.Stop(context.Background())
	if code == 0 && err == nil && stopErr == nil {
		return 0, os.RemoveAll(dir)
	}
	fmt.Fprintf(os.Stderr, "integration: logs of the cluster are in %s\n", dir)
	if err == nil {
		err = stopErr
	}
	return code, err
}

func connect() error {
	cfg, err := shared.Config()
	if err != nil {
		return err
	}
	scheme := k8sruntime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	api, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	return err
}

// hostAddress is where pods reach this machine: the servers of the stories listen there.
func hostAddress() (string, error) {
	d, err := shared.Describe()
	return d.HostAddress, err
}

// onKubelet says whether pods are containers on a kubelet's node, not processes of a process node.
func onKubelet() bool { return shared.Node == cluster.NodeKubelet }
