package apitest

import (
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Scheme knows the kinds of Kubernetes, CustomResourceDefinitions and the kinds of ekiden.dev.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatalf("filling the scheme: %v", err)
		}
	}
	return scheme
}

// Config is the configuration of an administrator, for the caller to change.
func (s *Server) Config() *rest.Config {
	return rest.CopyConfig(s.config)
}

// ConfigAs is the configuration of a user. As everywhere in Kubernetes the user is in system:authenticated
// besides the groups named, and a ServiceAccount in the groups of its kind.
func (s *Server) ConfigAs(user string, groups ...string) *rest.Config {
	config := s.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// Client is an administrator's.
func (s *Server) Client(t testing.TB) client.Client {
	t.Helper()
	return NewClient(t, s.Config())
}

// As is the client of a user.
func (s *Server) As(t testing.TB, user string, groups ...string) client.Client {
	t.Helper()
	return NewClient(t, s.ConfigAs(user, groups...))
}

// NewClient makes a client. Warnings of the API server are dropped unless config says otherwise.
func NewClient(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandler = rest.NoWarnings{}
	}
	c, err := client.New(config, client.Options{Scheme: Scheme(t)})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return c
}

// Namespace makes a namespace for the test alone. It goes with the server.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("test-%d", s.namespaces.Add(1))}}
	if err := s.Client(t).Create(t.Context(), namespace); err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	return namespace.Name
}

// Kubectl runs kubectl as an administrator and returns what it prints.
func (s *Server) Kubectl(t testing.TB, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), s.binary, append([]string{"kubectl", "--kubeconfig", s.kubeconfig}, arguments...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", arguments, err, output)
	}
	return string(output)
}

// Warnings records what the API server warns of: put it into a configuration as WarningHandler.
type Warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *Warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// All are the warnings so far.
func (w *Warnings) All() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
}
