package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/ledger/ledgertest"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
)

const system = "ekiden-system"

var (
	errKilled  = errors.New("killed")
	errRefused = errors.New("the ledger is unavailable")
)

// world is an API server and a ledger, and a manager between them whose every write can be hit.
type world struct {
	*testing.T
	*Reconciler
	api     client.WithWatch
	tenants []ledger.Tenant

	mu sync.Mutex
	// inForce are the rules in force by namespace UID, in their order, and looks how often any were projected.
	inForce map[types.UID]string
	looks   int
	// refused is the namespace into which nothing can be projected.
	refused types.UID
	// atProject and beforePatch happen before a projection and before a write of the status.
	atProject   func()
	beforePatch func()

	writes, hit int
	lost        bool
	said        []string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, inForce: map[types.UID]string{}, tenants: []ledger.Tenant{{Namespace: "team", NamespaceUID: "team-uid"}, {Namespace: "other", NamespaceUID: "other-uid"}}}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.AgentPolicy{}).WithObjects(objects...).Build()
	w.Reconciler = &Reconciler{
		Client: interceptor.NewClient(w.api, interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if w.beforePatch != nil {
					w.beforePatch()
				}
				return w.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
		}),
		Ledger: w, Events: w, Namespace: system,
	}
	return w
}

func (w *world) write(do func() error) error {
	if w.writes++; w.writes != w.hit {
		return do()
	}
	if w.lost {
		_ = do() // nobody hears of it
	}
	return errKilled
}

func (w *world) Tenants(context.Context) ([]ledger.Tenant, error) { return w.tenants, nil }

func (w *world) Project(_ context.Context, namespace types.UID, set contract.PolicySet) error {
	if w.atProject != nil {
		w.atProject()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if namespace == w.refused {
		return errRefused
	}
	if _, err := set.Encode(); err != nil || set.Schema != contract.PolicySchema {
		w.Errorf("schema %d: %v", set.Schema, err)
	}
	return w.write(func() error {
		w.looks++
		w.inForce[namespace] = rules(set)
		return nil
	})
}

// rules tells a set in a few words: each source with its rules.
func rules(set contract.PolicySet) string {
	var all []string
	for _, s := range set.Sources {
		floor := ""
		if s.Floor {
			floor = "floor "
		}
		for _, r := range s.Rules {
			all = append(all, fmt.Sprintf("%s%s/%s/%s", floor, s.Namespace, s.Name, r.Name))
		}
	}
	return strings.Join(all, ", ")
}

// Eventf keeps an event, and sees to it that the status says it already.
func (w *world) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	note = fmt.Sprintf(note, args...)
	w.said = append(w.said, fmt.Sprintf("%s %s %s", kind, reason, note))
	if c := w.policy(regarding.(client.Object).GetNamespace()).Status.Conditions; len(c) != 1 || c[0].Reason != reason || c[0].Message != note {
		w.Errorf("the event %s %q comes before its status: %+v", reason, note, c)
	}
}

func (w *world) policy(namespace string) *v1alpha1.AgentPolicy {
	w.Helper()
	var p v1alpha1.AgentPolicy
	w.ok(w.api.Get(w.Context(), nameIn(namespace), &p))
	return &p
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) look(namespace string) {
	w.Helper()
	_, err := w.Reconcile(w.Context(), nameIn(namespace))
	w.ok(err)
}

// edit gives the policy of the namespace team one rule and no other.
func (w *world) edit(rule func(*v1alpha1.AgentPolicy)) {
	w.Helper()
	p := w.policy("team")
	p.Spec.Rules = nil
	rule(p)
	p.Generation++
	w.ok(w.api.Update(w.Context(), p))
}

func (w *world) wantInForce(team, other string) {
	w.Helper()
	if diff := cmp.Diff(map[types.UID]string{"team-uid": team, "other-uid": other}, w.inForce, cmpopts.EquateEmpty(), cmpopts.IgnoreMapEntries(func(_ types.UID, v string) bool { return v == "" })); diff != "" {
		w.Errorf("in force (-want +got):\n%s", diff)
	}
}

func (w *world) want(namespace string, generation int64) {
	w.Helper()
	want := v1alpha1.AgentPolicyStatus{ObservedGeneration: generation, Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonInForce, Message: inForce, ObservedGeneration: generation,
	}}}
	if diff := cmp.Diff(want, w.policy(namespace).Status, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		w.Errorf("status (-want +got):\n%s", diff)
	}
}

func nameIn(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: v1alpha1.DefaultPolicyName}
}

func policyIn(namespace string, change ...func(*v1alpha1.AgentPolicy)) *v1alpha1.AgentPolicy {
	return given.Policy(namespace, append(change, func(p *v1alpha1.AgentPolicy) { p.UID, p.Generation = types.UID("policy-of-"+namespace), 1 })...)
}

func TestGather(t *testing.T) {
	t.Parallel()
	floor, own := policyIn(system, given.Denies("no-mail", "mail/*")), policyIn("team", given.Allows("crm", "crm/*"), given.Asks("money", "finance", 2, "payments/*"))
	unnamed := policyIn("team", given.Allows("x", "*"))
	unnamed.Name = "another"
	for name, tc := range map[string]struct {
		given     []client.Object
		namespace string
		want      string
	}{
		"no policy at all":                         {nil, "team", ""},
		"the namespace has its own":                {[]client.Object{own}, "team", "team/default/crm, team/default/money"},
		"only the manager's namespace has one":     {[]client.Object{floor}, "team", "floor ekiden-system/default/no-mail"},
		"the floor comes first":                    {[]client.Object{own, floor}, "team", "floor ekiden-system/default/no-mail, team/default/crm, team/default/money"},
		"the manager's namespace has it once":      {[]client.Object{own, floor}, system, "floor ekiden-system/default/no-mail"},
		"a policy of another name is not in force": {[]client.Object{unnamed}, "team", ""},
	} {
		got, err := Gather(t.Context(), newWorld(t, tc.given...).api, tc.namespace, system)
		if err != nil || rules(got) != tc.want || got.Schema != contract.PolicySchema {
			t.Errorf("%s: got %q %v, want %q", name, rules(got), err, tc.want)
		}
		for _, s := range got.Sources {
			if s.UID != types.UID("policy-of-"+s.Namespace) || s.Generation != 1 {
				t.Errorf("%s: source %s is of generation %d of %q", name, s.Namespace, s.Generation, s.UID)
			}
		}
	}
}

func TestAPolicyIsInForceBeforeItSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn("team", given.Allows("crm", "crm/*")))
	w.beforePatch = func() { w.wantInForce("team/default/crm", "") }
	w.look("team")
	w.want("team", 1)
	w.beforePatch = func() { w.wantInForce("team/default/no-crm", "") }
	w.edit(given.Denies("no-crm", "crm/*"))
	w.look("team")
	w.want("team", 2)
	writes := w.writes
	w.look("team")
	if w.writes != writes+1 { // the projection, which costs the ledger a look
		t.Errorf("%d writes at another look", w.writes-writes)
	}
	if diff := cmp.Diff([]string{"Normal InForce " + inForce, "Normal InForce " + inForce}, w.said); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTheFloorReachesEveryNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn(system, given.Denies("no-mail", "mail/*")), policyIn("team", given.Allows("crm", "crm/*")))
	w.look(system)
	w.wantInForce("floor ekiden-system/default/no-mail, team/default/crm", "floor ekiden-system/default/no-mail")
	w.want(system, 1)
	w.tenants = append(w.tenants, ledger.Tenant{Namespace: system, NamespaceUID: "system-uid"})
	w.look(system)
	if got := w.inForce["system-uid"]; got != "floor ekiden-system/default/no-mail" {
		t.Errorf("in its own namespace is in force %q", got)
	}
	w.want(system, 1)
}

func TestAPolicyThatIsDeletedIsInForceNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn(system, given.Denies("no-mail", "mail/*")), policyIn("team", given.Allows("crm", "crm/*")))
	w.look(system)
	w.ok(w.api.Delete(t.Context(), w.policy("team")))
	w.look("team")
	w.wantInForce("floor ekiden-system/default/no-mail", "floor ekiden-system/default/no-mail")
	w.ok(w.api.Delete(t.Context(), w.policy(system)))
	w.look(system)
	w.wantInForce("", "")
}

func TestWhereNoRunWasAdmittedThereIsNothingToProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn("new", given.Allows("crm", "crm/*")))
	w.look("new")
	w.want("new", 1)
	w.ok(w.Reconciler.Project(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new", UID: "new-uid"}}))
	if got := w.inForce["new-uid"]; got != "new/default/crm" {
		t.Errorf("at the first admission comes into force %q", got)
	}
}

func TestOneNamespaceThatFailsKeepsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn(system, given.Denies("no-mail", "mail/*")))
	w.refused = "team-uid"
	if _, err := w.Reconcile(t.Context(), nameIn(system)); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "namespace team") {
		t.Errorf("got %v", err)
	}
	w.wantInForce("", "floor ekiden-system/default/no-mail")
	if s := w.policy(system).Status; s.ObservedGeneration != 0 || len(s.Conditions) != 0 || len(w.said) != 0 {
		t.Errorf("the policy says that it is in force: %+v %q", s, w.said)
	}
	w.refused = ""
	w.look(system)
	w.want(system, 1)
}

func TestAnyWriteMayFailOrLoseItsAnswer(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for hit := 1; ; hit++ {
			w := newWorld(t, policyIn(system, given.Denies("no-mail", "mail/*")))
			w.hit, w.lost = hit, lost
			_, err := w.Reconcile(t.Context(), nameIn(system))
			if w.writes < hit { // there is no such write
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatalf("write %d lost %t: %v", hit, lost, err)
			}
			w.look(system)
			w.wantInForce("floor ekiden-system/default/no-mail", "floor ekiden-system/default/no-mail")
			w.want(system, 1)
		}
	}
}

func TestAnEditDuringTheProjectionIsNotClaimed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn("team", given.Allows("crm", "crm/*")))
	w.beforePatch = func() {
		w.beforePatch = nil
		w.edit(given.Denies("no-crm", "crm/*"))
	}
	got, err := w.Reconcile(t.Context(), nameIn("team"))
	if err != nil || got.RequeueAfter == 0 {
		t.Errorf("got %+v %v", got, err)
	}
	if s := w.policy("team").Status; s.ObservedGeneration != 0 {
		t.Errorf("claims generation %d", s.ObservedGeneration)
	}
	w.look("team")
	w.want("team", 2)
	w.wantInForce("team/default/no-crm", "")
}

// TestAnOldSetIsNotProjectedOverANewOne: an admission gathers and is kept waiting by its tenant, and meanwhile the policy changes.
// Nobody else is kept waiting with it.
func TestAnOldSetIsNotProjectedOverANewOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn("team", given.Allows("crm", "crm/*")))
	paused, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.atProject = func() {
		first := false
		once.Do(func() { first = true })
		if first {
			close(paused)
			<-resume
		}
	}
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "team-uid"}}
	admitted := make(chan error)
	go func() { admitted <- w.Reconciler.Project(t.Context(), team) }()
	<-paused
	w.edit(given.Denies("no-crm", "crm/*"))
	got, err := w.Reconcile(t.Context(), nameIn("team"))
	if err != nil || got.RequeueAfter != soon {
		t.Errorf("the change is in force while an older set may still be projected over it: %+v, %v", got, err)
	}
	if s := w.policy("team").Status; s.ObservedGeneration != 0 || len(w.inForce) != 0 {
		t.Errorf("claims generation %d, in force is %v", s.ObservedGeneration, w.inForce)
	}
	if err := w.Reconciler.Project(t.Context(), team); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "namespace team") {
		t.Errorf("another admission: %v", err)
	}
	w.ok(w.Reconciler.Project(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other-uid"}}))
	close(resume)
	w.ok(<-admitted)
	w.look("team")
	w.wantInForce("team/default/no-crm", "")
	w.want("team", 2)
}

func TestOneNamespaceThatIsBusyKeepsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn(system, given.Denies("no-mail", "mail/*")))
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	w.turns.Store(types.UID("team-uid"), turn)
	if got, err := w.Reconcile(t.Context(), nameIn(system)); err != nil || got.RequeueAfter != soon {
		t.Errorf("got %+v, %v", got, err)
	}
	w.wantInForce("", "floor ekiden-system/default/no-mail")
	w.refused = "other-uid" // what is worse is not hidden
	if _, err := w.Reconcile(t.Context(), nameIn(system)); !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
	if len(w.said) != 0 {
		t.Errorf("the policy says that it is in force: %q", w.said)
	}
	<-turn
	w.refused = ""
	w.look(system)
	w.want(system, 1)
}

// TestACacheThatLagsProjectsNothing: another manager has projected a later generation than this one sees.
func TestACacheThatLagsProjectsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn("team", given.Allows("crm", "crm/*")))
	kept := ledgertest.New(time.Now)
	w.Ledger = projecting{w, kept}
	newer := contract.PolicySet{Sources: []contract.PolicySource{{Namespace: "team", Name: "default", UID: "policy-of-team", Generation: 2}}}
	w.ok(kept.Project(t.Context(), "team-uid", newer))
	if _, err := w.Reconcile(t.Context(), nameIn("team")); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("got %v", err)
	}
	if s := w.policy("team").Status; s.ObservedGeneration != 0 || len(kept.Policies("team-uid")) != 1 {
		t.Errorf("claims generation %d", s.ObservedGeneration)
	}
	w.edit(given.Denies("no-crm", "crm/*"))
	w.look("team")
	w.want("team", 2)
	if all := kept.Policies("team-uid"); rules(all[len(all)-1]) != "team/default/no-crm" {
		t.Errorf("in force is %+v", all)
	}
}

// projecting projects into a ledger that keeps the laws.
type projecting struct {
	*world
	kept *ledgertest.Ledger
}

func (p projecting) Project(ctx context.Context, namespace types.UID, set contract.PolicySet) error {
	return p.kept.Project(ctx, namespace, set)
}

func TestARuleThatCannotBeEvaluatedIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn("team", given.Allows("crm", "crm/*"), given.Allows("broken", "mail/*"), given.Where("args.amount <=")))
	w.look("team")
	s := w.policy("team").Status
	if len(s.Conditions) != 1 || s.ObservedGeneration != 1 || s.Conditions[0].Status != metav1.ConditionTrue {
		t.Fatalf("got %+v", s)
	}
	if message := s.Conditions[0].Message; !strings.HasPrefix(message, inForce+". Rule broken of policy team/default requires an approval: ") {
		t.Errorf("got %q", message)
	}
	if !strings.HasPrefix(w.said[0], "Warning InForce ") {
		t.Errorf("events %q", w.said)
	}
}

func TestAPolicyOfAnotherNameIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.Reconcile(t.Context(), types.NamespacedName{Namespace: "team", Name: "another"}); err != nil || w.looks != 0 {
		t.Errorf("%d looks, %v", w.looks, err)
	}
}

func TestAtTheStartEverythingIsProjected(t *testing.T) {
	t.Parallel()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	w := newWorld(t)
	w.inForce["team-uid"] = "team/default/deleted-while-nobody-looked"
	w.ok(w.atStart(t.Context(), queue))
	first, _ := queue.Get()
	if _, err := w.Reconcile(t.Context(), first.NamespacedName); err != nil {
		t.Fatal(err)
	}
	w.wantInForce("", "")
}
