package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	namespace = "team"
	teamUID   = types.UID("uid-of-team")
	serverUID = types.UID("uid-of-crm")
)

var (
	scheme = func() *runtime.Scheme {
		s := runtime.NewScheme()
		if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
			panic(err) // both are compiled in
		}
		return s
	}()
	errKilled = errors.New("killed")
)

// shelf is where contracts are kept, by generation.
type shelf map[int64][]contract.ToolContract

// world is an API server, a ledger, and a manager between them whose every write can be hit.
type world struct {
	*testing.T
	*Reconciler
	// api is the API server as everybody but the manager sees it.
	api   client.WithWatch
	shelf shelf

	// hit is the number of the write that fails, counted from 1, and lost says that it happens and only its answer
	// does not come.
	writes, hit int
	lost        bool

	// created are the Jobs that the manager created, statuses what it wrote into the status, said its events.
	created  []string
	statuses []v1alpha1.ToolServerStatus
	said     []string
	// provisioned counts the calls of Provision, unfit is what it answers.
	provisioned int
	unfit       error

	// offers are the contracts that the server answers with; none lets discoveries fail with words.
	offers []contract.ToolContract
	words  string
	// settings are those of the pods, told the events of objects.
	settings v1alpha1.PodSettings
	told     map[types.UID][]corev1.Event
	// refuse says why the API server refuses to create an object, or nil.
	refuse func(client.Object) error
	// stale is a cache that does not have the Jobs yet.
	stale bool
}

// crm is the server of these tests.
func crm(change ...func(*v1alpha1.ToolServer)) *v1alpha1.ToolServer {
	s := &v1alpha1.ToolServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "crm", UID: serverUID, Generation: 1},
		Spec:       v1alpha1.ToolServerSpec{Type: v1alpha1.ToolServerMCP, MCP: v1alpha1.MCPServer{URL: "http://crm.example/mcp"}},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func tool(name string) contract.ToolContract {
	return contract.ToolContract{Name: name, Description: "Does " + name + ".", Schema: []byte(`{"type":"object"}`)}
}

func newWorld(t *testing.T, server *v1alpha1.ToolServer, objects ...client.Object) *world {
	t.Helper()
	w := &world{T: t, shelf: shelf{}, offers: []contract.ToolContract{tool("a"), tool("b")}}
	w.api = fake.NewClientBuilder().WithScheme(scheme).
		// The default tracker keeps managed fields, which costs more than all the rest.
		WithObjectTracker(clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())).
		WithStatusSubresource(&v1alpha1.ToolServer{}).
		WithObjects(server, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: teamUID}}).
		WithObjects(objects...).Build()
	w.Reconciler = &Reconciler{Client: w.hittable(), Live: w.api, Ledger: w, Events: w, Provision: w.provision, Image: "ekiden/segment:test"}
	w.Pods = func(context.Context, string) (v1alpha1.PodSettings, error) {
		return pod.Merge(pod.BuiltIn(), w.settings), nil
	}
	w.Told = func(_ context.Context, _ string, about types.UID) ([]corev1.Event, error) { return w.told[about], nil }
	return w
}

func (w *world) hittable() client.Client {
	return interceptor.NewClient(w.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.write(func() error {
				if w.refuse != nil {
					if err := w.refuse(o); err != nil {
						return err
					}
				}
				o.SetUID(types.UID(fmt.Sprintf("uid-of-%s-%d", o.GetName(), len(w.created))))
				o.SetCreationTimestamp(metav1.Now())
				err := c.Create(ctx, o, opts...)
				if err == nil {
					w.created = append(w.created, o.GetName())
				}
				return err
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.write(func() error {
				err := c.SubResource(sub).Patch(ctx, o, p, opts...)
				if err == nil {
					w.statuses = append(w.statuses, w.server().Status) //nolint:contextcheck // the world has the context of its test
				}
				return err
			})
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*batchv1.JobList); ok && w.stale {
				return nil
			}
			return c.List(ctx, l, opts...)
		},
	})
}

// write carries a write of the manager out, unless it is the one to be hit.
func (w *world) write(do func() error) error {
	if w.writes++; w.writes != w.hit {
		return do()
	}
	if w.lost {
		_ = do() // nobody hears of it
	}
	return errKilled
}

// Eventf keeps an event, and sees to it that the status says it already.
func (w *world) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	note = fmt.Sprintf(note, args...)
	w.said = append(w.said, fmt.Sprintf("%s %s %s", kind, reason, note))
	if c := w.ready(); c.Reason != reason || c.Message != note {
		w.Errorf("the event %s %q comes before its status: %+v", reason, note, c)
	}
	if len(note) > 1024 {
		w.Errorf("the API server refuses an event whose note has %d bytes", len(note))
	}
}

func (w *world) Contracts(_ context.Context, ns, server types.UID, generation int64) ([]contract.ToolContract, error) {
	w.know(ns, server)
	return w.shelf[generation], nil
}

func (w *world) KeepContracts(_ context.Context, ns, server types.UID, generation int64, tools []contract.ToolContract) error {
	w.know(ns, server)
	return w.write(func() error {
		w.shelf[generation] = tools
		return nil
	})
}

func (w *world) know(ns, server types.UID) {
	if ns != teamUID || server != serverUID {
		w.Errorf("the ledger is asked about server %s of namespace %s", server, ns)
	}
}

func (w *world) provision(_ context.Context, ns *corev1.Namespace) error {
	if ns.UID != teamUID {
		w.Errorf("namespace %s is provisioned", ns.UID)
	}
	return w.write(func() error {
		w.provisioned++
		return w.unfit
	})
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) server() *v1alpha1.ToolServer {
	w.Helper()
	var s v1alpha1.ToolServer
	w.ok(w.api.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "crm"}, &s))
	return &s
}

func (w *world) ready() metav1.Condition {
	w.Helper()
	if c := meta.FindStatusCondition(w.server().Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func (w *world) jobs() []batchv1.Job {
	w.Helper()
	var l batchv1.JobList
	w.ok(w.api.List(w.Context(), &l))
	return l.Items
}

// edit changes the server as its owner does.
func (w *world) edit(change func(*v1alpha1.ToolServer)) {
	w.Helper()
	s := w.server()
	change(s)
	s.Generation++
	w.ok(w.api.Update(w.Context(), s))
}

// reconcile looks at the server once, with nothing hit.
func (w *world) reconcile() ctrl.Result {
	w.Helper()
	got, err := w.Reconcile(w.Context(), w.server())
	w.ok(err)
	return got
}

// settle looks at the server and lets the cluster go on, until nothing more happens. A manager that was killed is started again.
func (w *world) settle() {
	w.Helper()
	for range 50 {
		if _, err := w.Reconcile(w.Context(), w.server()); errors.Is(err, errKilled) {
			continue
		} else if err != nil {
			w.Fatal(err)
		}
		if !w.turn() {
			return
		}
	}
	w.Fatalf("still going on: %+v", w.server().Status)
}

// turn lets the Job controller and the pods go one step. It reports whether there was one to go.
func (w *world) turn() bool {
	w.Helper()
	for _, j := range w.jobs() {
		if len(j.Status.Conditions) > 0 || j.Labels["app.kubernetes.io/managed-by"] != "ekiden" {
			continue
		}
		w.discover(&j)
		return true
	}
	return false
}

// discover is what the pod of a Job does, and what its Job then shows.
func (w *world) discover(j *batchv1.Job) {
	w.Helper()
	var asked contract.Discovery
	w.ok(json.Unmarshal([]byte(j.Spec.Template.Spec.Containers[0].Env[0].Value), &asked))
	end := corev1.ContainerStateTerminated{Message: w.words}
	kind := batchv1.JobComplete
	if w.words != "" {
		end.ExitCode, kind = 75, batchv1.JobFailed
	} else {
		w.know(asked.NamespaceUID, asked.Server.UID)
		w.shelf[asked.Generation] = w.offers
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprint("pod-of-", j.UID), Labels: j.Spec.Template.Labels, Annotations: j.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
	}
	w.ok(w.api.Create(w.Context(), pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "discovery", State: corev1.ContainerState{Terminated: &end}}}
	w.ok(w.api.Status().Update(w.Context(), pod))
	j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
	w.ok(w.api.Status().Update(w.Context(), j))
}

// expire is what the time to live of a Job does.
func (w *world) expire() {
	w.Helper()
	for _, j := range w.jobs() {
		w.ok(w.api.Delete(w.Context(), &j))
	}
}

// names are those of the tools that the status shows.
func names(s v1alpha1.ToolServerStatus) string {
	var out []string
	for _, t := range s.Tools {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

// reasons are those of the statuses that were written, without repetitions.
func (w *world) reasons() string {
	var out []string
	for _, s := range w.statuses {
		out = append(out, s.Conditions[0].Reason)
	}
	return strings.Join(slices.Compact(out), " ")
}
