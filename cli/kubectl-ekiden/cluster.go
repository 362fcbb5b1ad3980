package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// clusterFlags are kubectl's own, for this plugin.
type clusterFlags struct {
	kubeconfig, context, namespace, user string
	groups                               []string
}

func (f *clusterFlags) bind(root *cobra.Command) {
	set := root.PersistentFlags()
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "path to the kubeconfig file; empty means KUBECONFIG, then ~/.kube/config")
	set.StringVar(&f.context, "context", "", "name of the kubeconfig context; empty means the current one")
	set.StringVarP(&f.namespace, "namespace", "n", "", "namespace; empty means that of the context")
	set.StringVar(&f.user, "as", "", "user to impersonate")
	set.StringArrayVar(&f.groups, "as-group", nil, "group to impersonate; may be repeated")
}

// cluster is a way to the API server.
type cluster struct {
	client.WithWatch
	// Namespace is the one that was asked for, Server the address, for people.
	Namespace, Server string
	// Discovery asks the server what it is, and Skew tells how far its clock is ahead of ours. Both may be nil.
	Discovery discovery.DiscoveryInterface
	Skew      func() time.Duration
}

// patience bounds one request. A watch is longer and has the command's own bound.
const patience = 30 * time.Second

func connect(p program, f clusterFlags) (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	overrides.Context.Namespace = f.namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster is configured: set KUBECONFIG or pass --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if f.user != "" || len(f.groups) > 0 {
		config.Impersonate = rest.ImpersonationConfig{UserName: f.user, Groups: f.groups}
	}
	config.UserAgent = "kubectl-ekiden/" + version
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NewWarningWriter(p.Err, rest.WarningWriterOptions{Deduplicate: true})
	clock := &serverClock{}
	config.Wrap(clock.wrap)
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	short := rest.CopyConfig(config)
	short.Timeout = patience
	d, err := discovery.NewDiscoveryClientForConfig(short)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return &cluster{WithWatch: c, Namespace: namespace, Server: config.Host, Discovery: d, Skew: clock.skew}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

// explain says what an error of the API server means for who asked, and what cures it.
func (c *cluster) explain(doing string, err error) error {
	var network net.Error
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%s: the cluster %s does not know AgentRuns: install Ekiden there, or choose another cluster with --context: %w", doing, c.Server, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w\nAsk for the ClusterRole ekiden-viewer to look on, or ekiden-caller to start and cancel runs, in namespace %s", doing, err, c.Namespace)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %w\nLog in again: the credentials of this context are not accepted", doing, err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network):
		return fmt.Errorf("%s: the cluster %s is not reachable: %w", doing, c.Server, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}
