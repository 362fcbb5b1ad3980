package sweep

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/ledger/ledgertest"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
)

var (
	noon      = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	errBroken = errors.New("broken")
)

// world is an API server that may refuse to read, and a ledger with one run and one login, both of the namespace team.
type world struct {
	*testing.T
	*Sweeper
	ledger *ledgertest.Ledger
	now    time.Time
	broken func(key client.ObjectKey) bool
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, now: noon, broken: func(client.ObjectKey) bool { return false }}
	w.ledger = ledgertest.New(func() time.Time { return w.now })
	w.Sweeper = &Sweeper{Ledger: w.ledger, Live: interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.broken(key) {
				return errBroken
			}
			return c.Get(ctx, key, o, opts...)
		},
	})}
	w.admit("run", "uid")
	if err := w.ledger.Provision(t.Context(), ledger.Tenant{Namespace: "team", NamespaceUID: "team-uid", Password: "p"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) admit(name string, uid types.UID) {
	w.Helper()
	w.admitAs(name, uid, uid)
}

// admitUnder admits a run that another one has delegated.
func (w *world) admitUnder(uid, root types.UID) {
	w.Helper()
	w.admitAs(string(uid), uid, root)
}

func (w *world) admitAs(name string, uid, root types.UID) {
	w.Helper()
	if err := w.ledger.Admit(w.Context(), ledger.Admission{Snapshot: contract.Snapshot{
		Run: contract.Identity{Namespace: "team", NamespaceUID: "team-uid", Name: name, UID: uid, RootUID: root},
	}}); err != nil {
		w.Fatal(err)
	}
}

// left is what a sweep leaves behind.
type left struct {
	Cancelled bool
	End       *ledger.End
	Tenants   []ledger.Tenant
}

func (w *world) left() left {
	w.Helper()
	rec, err1 := w.ledger.Look(w.Context(), "uid")
	tenants, err2 := w.ledger.Tenants(w.Context())
	if err := errors.Join(err1, err2); err != nil {
		w.Fatal(err)
	}
	return left{Cancelled: !rec.CancelledAt.IsZero(), End: rec.End, Tenants: tenants}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	var (
		team = []ledger.Tenant{{Namespace: "team", NamespaceUID: "team-uid"}}
		none = []ledger.Tenant{}
		gone = &ledger.End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "its object was deleted", At: noon}
	)
	namespace := func(uid types.UID) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", UID: uid}}
	}
	run := func(uid types.UID, change ...func(*v1alpha1.AgentRun)) client.Object {
		r := given.Run("run", "team", change...)
		r.UID = uid
		return r
	}
	ended := func(r *v1alpha1.AgentRun) { r.Status.FinishedAt = metav1.NewTime(noon) }
	before := noon.Add(time.Second)
	tests := map[string]struct {
		given  []client.Object
		before time.Time
		want   left
	}{
		"what has an object is left to its reconciler":                  {given: []client.Object{namespace("team-uid"), run("uid")}, before: before, want: left{Tenants: team}},
		"even if the object says that it has ended":                     {given: []client.Object{namespace("team-uid"), run("uid", ended)}, before: before, want: left{Tenants: team}},
		"a run whose object is gone ends":                               {given: []client.Object{namespace("team-uid")}, before: before, want: left{Cancelled: true, End: gone, Tenants: team}},
		"a run whose name another run has now ends":                     {given: []client.Object{namespace("team-uid"), run("new")}, before: before, want: left{Cancelled: true, End: gone, Tenants: team}},
		"a run that has just been admitted may not be visible yet":      {given: []client.Object{namespace("team-uid")}, before: noon, want: left{Tenants: team}},
		"a login whose namespace is gone is dropped":                    {before: before, want: left{Cancelled: true, End: gone, Tenants: none}},
		"a login whose namespace's name another one has now is dropped": {given: []client.Object{namespace("new")}, before: before, want: left{Cancelled: true, End: gone, Tenants: none}},
		"a namespace that goes ends its runs, however young": {
			before: noon,
			want:   left{End: &ledger.End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "the namespace is gone", At: noon}, Tenants: none},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.given...)
			for range 2 { // a second sweep changes nothing
				if err := w.Sweep(t.Context(), tc.before); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, w.left()); diff != "" {
					t.Errorf("left (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestWhatCannotBeReadIsNotDead: an error is no answer.
func TestWhatCannotBeReadIsNotDead(t *testing.T) {
	t.Parallel()
	for what, key := range map[string]client.ObjectKey{"run team/run": {Namespace: "team", Name: "run"}, "namespace team": {Name: "team"}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "team-uid"}}}
			if key.Namespace == "" { // a run that is in the list is not asked for
				r := given.Run("run", "team")
				r.UID = "uid"
				objects = append(objects, r)
			}
			w := newWorld(t, objects...)
			w.broken = func(k client.ObjectKey) bool { return k == key }
			if err := w.Sweep(t.Context(), noon.Add(time.Second)); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), what+": ") {
				t.Errorf("got error %v", err)
			}
			if diff := cmp.Diff(left{Tenants: []ledger.Tenant{{Namespace: "team", NamespaceUID: "team-uid"}}}, w.left()); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// deaf is a ledger that does not answer one method.
type deaf struct {
	*ledgertest.Ledger
	method string
}

func (d deaf) Unfinished(ctx context.Context, before time.Time, limit int) ([]contract.Identity, error) {
	if d.method == "Unfinished" {
		return nil, ledger.ErrUnavailable
	}
	return d.Ledger.Unfinished(ctx, before, limit)
}

func (d deaf) Cancel(ctx context.Context, run types.UID) error {
	if d.method == "Cancel" {
		return ledger.ErrUnavailable
	}
	return d.Ledger.Cancel(ctx, run)
}

func (d deaf) Finish(ctx context.Context, run types.UID, e ledger.End) (ledger.End, error) {
	if d.method == "Finish" {
		return ledger.End{}, ledger.ErrUnavailable
	}
	return d.Ledger.Finish(ctx, run, e)
}

func (d deaf) Tenants(ctx context.Context) ([]ledger.Tenant, error) {
	if d.method == "Tenants" {
		return nil, ledger.ErrUnavailable
	}
	return d.Ledger.Tenants(ctx)
}

func (d deaf) Unprovision(ctx context.Context, namespace types.UID) error {
	if d.method == "Unprovision" {
		return ledger.ErrUnavailable
	}
	return d.Ledger.Unprovision(ctx, namespace)
}

// TestASweepThatBreaksOffIsTakenUpByTheNext wherever it breaks off.
func TestASweepThatBreaksOffIsTakenUpByTheNext(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Unfinished", "Cancel", "Finish", "Tenants", "Unprovision"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Ledger = deaf{w.ledger, method}
			if err := w.Sweep(t.Context(), noon.Add(time.Second)); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("got error %v", err)
			}
			w.Ledger = w.ledger
			if err := w.Sweep(t.Context(), noon.Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if got := w.left(); got.End == nil || len(got.Tenants) != 0 {
				t.Errorf("left %+v", got)
			}
		})
	}
}

// TestStart sweeps at once, what is old enough, and ends with its context.
func TestStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "team-uid"}})
	ctx, cancel := context.WithCancel(t.Context())
	w.Ledger = watched{deaf{w.ledger, ""}, cancel}
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if got := w.left(); got.End == nil || !w.NeedLeaderElection() {
		t.Errorf("left %+v", got)
	}
}

// watched ends the sweeping when the first sweep comes to the logins.
type watched struct {
	deaf
	stop context.CancelFunc
}

func (l watched) Tenants(ctx context.Context) ([]ledger.Tenant, error) {
	l.stop()
	return l.deaf.Tenants(ctx)
}
