package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/approval/decide"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
)

const (
	namespace = "team"
	runUID    = types.UID("0b5c1f5e-0000-4000-8000-000000000001")
)

var (
	noon      = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	one       = noon.Add(time.Hour)
	errKilled = errors.New("killed")
)

// world is an API server, a ledger and a guard, and a manager between them whose every write can be hit.
type world struct {
	*testing.T
	*Reconciler
	// api is the API server as everybody but the manager sees it.
	api client.WithWatch
	now time.Time

	// question is how the ledger stands, but for what was delivered.
	question  decide.Question
	delivered []contract.Delivery
	// refuses is the ledger's answer to a delivery, if it takes none.
	refuses error
	// guarded, why and unknown are the guard's answer, asked how often it was.
	guarded bool
	why     string
	since   time.Time
	unknown error
	asked   int

	// hit is the number of the write that fails, counted from 1, and lost says that it happens and only its answer does not come.
	writes, hit int
	lost        bool
	// beforePatch happens once the manager has decided and before its status is written.
	beforePatch func()
	// blind is a cache that does not have the runs yet, stale one that does not have the other requests.
	blind, stale bool

	said  []string
	woken []types.NamespacedName
}

func theRun(change ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	return given.Run("triage", namespace, append([]func(*v1alpha1.AgentRun){func(r *v1alpha1.AgentRun) { r.UID = runUID }}, change...)...)
}

// asks is a request of the run that expires at one.
func asks(name string, change ...func(*v1alpha1.ApprovalRequest)) *v1alpha1.ApprovalRequest {
	return given.Request(name, namespace, append([]func(*v1alpha1.ApprovalRequest){
		given.Asking(3, 1, "payments/refund", `{"iban":"secret"}`), given.OfRun(theRun()), given.Expiring(one),
		func(r *v1alpha1.ApprovalRequest) {
			r.UID, r.Generation, r.CreationTimestamp = types.UID("uid-of-"+name), 1, metav1.NewTime(noon.Add(-time.Minute))
			r.Labels = map[string]string{v1alpha1.LabelRunUID: string(runUID)}
		},
	}, change...)...)
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, now: noon, question: decide.Question{Known: true}, guarded: true}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ApprovalRequest{}).
		WithIndex(&v1alpha1.ApprovalRequest{}, byOpen, indexOpen).WithObjects(objects...).Build()
	w.Reconciler = &Reconciler{
		Client: interceptor.NewClient(w.api, interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if w.beforePatch != nil {
					w.beforePatch()
				}
				return w.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, ok := o.(*v1alpha1.AgentRun); ok && w.blind {
					key.Name = "not-there-yet"
				}
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if w.stale {
					return nil
				}
				return c.List(ctx, l, opts...)
			},
		}),
		Live: w.api, Ledger: w, Guard: w, Events: w,
		Wake: func(run types.NamespacedName) { w.woken = append(w.woken, run) },
	}
	return w
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

func (w *world) Question(_ context.Context, run types.UID, turn, index int, request types.UID) (decide.Question, error) {
	if run != runUID || turn != 3 || index != 1 {
		w.Errorf("the ledger is asked about call %d/%d of run %s", turn, index, run)
	}
	q := w.question
	q.Now = w.now
	for i := range w.delivered {
		if w.delivered[i].Request == request {
			q.Delivered = &w.delivered[i]
		}
	}
	return q, nil
}

func (w *world) Deliver(_ context.Context, run types.UID, d contract.Delivery) error {
	return w.write(func() error {
		if run != runUID {
			w.Errorf("delivered to run %s", run)
		}
		for _, earlier := range w.delivered {
			if earlier.Request == d.Request {
				w.Errorf("delivered again: %+v", d)
			}
		}
		if w.refuses != nil {
			return w.refuses
		}
		w.delivered = append(w.delivered, d)
		return nil
	})
}

func (w *world) Guarded(_ context.Context, ns string) (bool, string, error) {
	if ns != namespace {
		w.Errorf("the guard is asked about namespace %s", ns)
	}
	w.asked++
	return w.guarded && w.unknown == nil, w.why, w.unknown
}

func (w *world) Installed(context.Context) (string, error) { return w.why, w.unknown }

func (w *world) Since(context.Context) (time.Time, error) { return w.since, nil }

func (w *world) Concerns(client.Object) bool { return true }

// Eventf keeps an event, and sees to it that the status says it already and that it tells no arguments.
func (w *world) Eventf(regarding, related runtime.Object, kind, reason, _, note string, args ...any) {
	note = fmt.Sprintf(note, args...)
	on := regarding.(client.Object).GetName()
	w.said = append(w.said, fmt.Sprintf("%s: %s %s %s", on, kind, reason, note))
	if related != nil {
		on = related.(client.Object).GetName()
	}
	says := false
	for _, c := range w.request(on).Status.Conditions {
		says = says || c.Reason == reason && c.Message == note
	}
	if !says {
		w.Errorf("the event %s %q comes before its status", reason, note)
	}
	if len(note) > 1024 || strings.Contains(note, "secret") {
		w.Errorf("the note of an event is %q", note)
	}
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) request(name string) *v1alpha1.ApprovalRequest {
	w.Helper()
	var r v1alpha1.ApprovalRequest
	w.ok(w.api.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &r))
	return &r
}

// decide is what a person does with kubectl patch, and the stamp with it.
func (w *world) decide(name string, verdict v1alpha1.Verdict, by, reason string) {
	w.Helper()
	r := w.request(name)
	r.Spec.Decision = v1alpha1.Decision{Verdict: verdict, By: by, Reason: reason}
	r.Generation++
	w.ok(w.api.Update(w.Context(), r))
}

// look is one look at a request, with nothing hit.
func (w *world) look(name string) ctrl.Result {
	w.Helper()
	got, err := w.Reconcile(w.Context(), w.request(name))
	w.ok(err)
	return got
}

func (w *world) wantSaid(want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.said, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("events (-want +got):\n%s", diff)
	}
}

func (w *world) wantDelivered(want ...contract.Delivery) {
	w.Helper()
	if diff := cmp.Diff(want, w.delivered, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("deliveries (-want +got):\n%s", diff)
	}
}

// want checks what the status says in a few words.
func (w *world) want(name string, phase v1alpha1.ApprovalPhase, decided metav1.ConditionStatus, reason string) {
	w.Helper()
	r := w.request(name)
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDecided)
	if c == nil || r.Status.Phase != phase || c.Status != decided || c.Reason != reason {
		w.Fatalf("got %+v, want %s %s %s", r.Status, phase, decided, reason)
	}
	if r.Status.ObservedGeneration != r.Generation || c.ObservedGeneration != r.Generation {
		w.Errorf("generation %d is observed as %d and %d", r.Generation, r.Status.ObservedGeneration, c.ObservedGeneration)
	}
	if r.Status.DecidedAt.IsZero() != (phase == v1alpha1.ApprovalPending) {
		w.Errorf("decided at %s in phase %s", r.Status.DecidedAt, phase)
	}
}

// delivery is what is delivered of request a.
func delivery(phase v1alpha1.ApprovalPhase, by, reason string) contract.Delivery {
	r := asks("a")
	return contract.Delivery{
		Request: r.UID, Turn: 3, Index: 1, Digest: r.Spec.Call.Digest, Seat: r.Spec.Seat, Seats: r.Spec.Seats, Phase: phase, By: by, Reason: reason,
	}
}
