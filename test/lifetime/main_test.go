// Package lifetime tells stories of an installation: it is upgraded while runs wait and work, taken away under them, and put
// back. Each story has a cluster of its own, for it does to the manager what no other story could live beside.
package lifetime

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// patience is how long a story waits for anything. It bounds a test that is broken; no outcome depends on it.
const patience = 3 * time.Minute

// namespace is where the runs of a story are.
const namespace = "support"

// story is a cluster, and an agent in it that may refund if people say so.
type story struct {
	*testing.T
	repo    string
	cluster *cluster.Cluster
	api     client.Client
	model   *modelserver.Server
	tools   *toolserver.Server
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // The clients have nothing to say that the tests do not.
	os.Exit(m.Run())
}

// root is the folder of the repository.
func root() string {
	dir, err := filepath.Abs(filepath.Join("..", "..")) // tests run in the folder of their package
	if err != nil {
		panic(err)
	}
	return dir
}

// begin starts a cluster whose programs and manifests are those of a folder.
func begin(t *testing.T, repo string) *story {
	t.Helper()
	dir, err := os.MkdirTemp("", "ekiden-lifetime-") //nolint:usetesting // it outlives a test that failed, for whoever looks why
	if err != nil {
		t.Fatal(err)
	}
	progress, err := os.Create(filepath.Join(dir, "cluster.log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, repo: root(), tools: toolserver.Start(t, toolserver.Options{})}
	if s.cluster, err = cluster.Start(t.Context(), cluster.Options{Dir: dir, Repo: repo, Progress: progress}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.explain()
		}
		if err := s.cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("logs of the cluster are in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	s.api = s.as("")
	return s
}

// as is the access of a user, or of the administrator.
func (s *story) as(user string) client.Client {
	s.Helper()
	config, err := s.cluster.Config()
	if err != nil {
		s.Fatal(err)
	}
	config.Impersonate.UserName = user
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			s.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// employ makes the namespace, its agent, fran, who approves for finance, and edna, who may write runs and decisions. The model answers each run by its task.
func (s *story) employ(rules ...modelserver.Rule) {
	s.Helper()
	s.model = modelserver.New(modelserver.Script{Rules: rules}, nil)
	server := httptest.NewServer(s.model)
	s.Cleanup(func() {
		s.model.Stop()
		server.CloseClientConnections()
		server.Close()
	})
	s.create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "llm", Namespace: namespace}, StringData: map[string]string{"apiKey": "k"}},
		given.Endpoint(namespace, server.URL+"/v1"),
		given.MCPServer(namespace, s.tools.URL+"/mcp", func(t *v1alpha1.ToolServer) {
			t.Spec.Tools = []v1alpha1.ToolDeclaration{
				{Name: toolserver.GetCustomer, Effect: v1alpha1.EffectRead, TimeoutSeconds: 20}, {Name: toolserver.Refund, Effect: v1alpha1.EffectSend, TimeoutSeconds: 20},
			}
		}),
		given.Policy(namespace, given.Asks("money", "finance", 1, given.Tools+"/"+toolserver.Refund)),
		given.Definition(namespace, given.Uses(given.Tools, toolserver.GetCustomer, toolserver.Refund)),
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "finance"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"approverpools"}, ResourceNames: []string{"finance"}, Verbs: []string{"approve"}}},
		},
		binding("fran", "finance", "Role", "finance"), binding("fran", "approver", "ClusterRole", "ekiden-approver"),
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "editor"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"agentruns", "approvalrequests"}, Verbs: []string{"get", "create", "patch"}}},
		},
		binding("edna", "editor", "Role", "editor"),
	)
}

func binding(user, name, kind, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
	}
}

// refunding is a model that asks for a refund and then says that it is done.
func refunding(task string) modelserver.Rule {
	return modelserver.Rule{When: modelserver.When{Task: task}, Steps: []modelserver.Step{
		{Calls: &modelserver.Calls{List: []modelserver.Call{{ID: "call-0", Name: given.Tools + "__" + toolserver.Refund, Arguments: `{"id":"4711","amount":"120"}`}}}},
		{Text: "refunded"},
	}}
}

// slow is a model that reads a customer, and answers once the gate named like the task is opened.
func slow(task string) modelserver.Rule {
	return modelserver.Rule{When: modelserver.When{Task: task}, Steps: []modelserver.Step{
		{Calls: &modelserver.Calls{List: []modelserver.Call{{ID: "call-0", Name: given.Tools + "__" + toolserver.GetCustomer, Arguments: `{"id":"4711"}`}}}},
		{Text: "looked up", Gate: task},
	}}
}

func (s *story) create(objects ...client.Object) {
	s.Helper()
	for _, o := range objects {
		if err := s.api.Create(s.Context(), o); err != nil {
			s.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

// start creates a run whose task is its name.
func (s *story) start(name string) {
	s.Helper()
	s.create(given.Run(name, namespace, given.Task(name)))
}

func (s *story) get(name string) *v1alpha1.AgentRun {
	s.Helper()
	r := &v1alpha1.AgentRun{}
	if err := s.api.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: name}, r); err != nil {
		s.Fatal(err)
	}
	return r
}

// until waits until the run stands in a phase.
func (s *story) until(name string, phase v1alpha1.RunPhase) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s is %s", name, phase), func() bool {
		r := s.get(name)
		if meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionFinished) && r.Status.Phase != phase {
			s.Fatalf("%s ended %s: %+v", name, r.Status.Phase, r.Status.Error)
		}
		return r.Status.Phase == phase
	})
}

// asked waits until the model has seen so many requests.
func (s *story) asked(n int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d requests to the model", n), func() bool { return s.model.Report().Total >= n })
}

// approve has fran approve what is pending, as a person does.
func (s *story) approve() {
	s.Helper()
	var pending []v1alpha1.ApprovalRequest
	s.eventually("a request is pending", func() bool {
		var all v1alpha1.ApprovalRequestList
		if err := s.api.List(s.Context(), &all, client.InNamespace(namespace)); err != nil {
			s.Fatal(err)
		}
		pending = slices.DeleteFunc(all.Items, func(r v1alpha1.ApprovalRequest) bool { return r.Status.Phase != v1alpha1.ApprovalPending })
		return len(pending) == 1
	})
	s.kubectl("--as", "fran", "-n", namespace, "patch", "areq", pending[0].Name, "--type", "merge", "-p", `{"spec":{"decision":{"verdict":"Approved"}}}`)
}

// kubectl is what an administrator types.
func (s *story) kubectl(args ...string) string {
	s.Helper()
	out, err := s.cluster.Kubectl(s.Context(), args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

func (s *story) eventually(what string, holds func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			s.Fatalf("never: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// explain prints what a person would look at.
func (s *story) explain() {
	for _, args := range [][]string{
		{"get", "arun,areq,adef,drev,job,pod", "-A", "-o", "wide"},
		{"-n", namespace, "describe", "arun"},
		{"-n", cluster.ManagerNamespace, "logs", "-l", "app.kubernetes.io/component=manager", "--tail=20", "--prefix"},
	} {
		out, err := s.cluster.Kubectl(context.Background(), args...)
		s.Logf("kubectl %s\n%s%v", strings.Join(args, " "), out, err)
	}
}
