package definition

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
)

var errKilled = errors.New("killed")

// world is an API server and a manager whose every write can be hit.
type world struct {
	*testing.T
	*Reconciler
	api         client.WithWatch
	writes, hit int
	lost        bool
	said        []string
	// blind is a cache that does not have the revisions yet.
	blind bool
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.AgentDefinition{}, &v1alpha1.ToolServer{}).WithObjects(objects...).
		WithIndex(&v1alpha1.DefinitionRevision{}, byDefinition, func(o client.Object) []string {
			return []string{o.(*v1alpha1.DefinitionRevision).Spec.DefinitionRef.Name}
		}).
		WithIndex(&v1alpha1.AgentDefinition{}, byModel, func(o client.Object) []string {
			return []string{o.(*v1alpha1.AgentDefinition).Spec.ModelRef.Name}
		}).
		WithIndex(&v1alpha1.AgentDefinition{}, byServer, func(o client.Object) []string { return serverNames(o.(*v1alpha1.AgentDefinition)) }).Build()
	w.Reconciler = &Reconciler{
		Client: interceptor.NewClient(w.api, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return w.write(func() error { return c.Create(ctx, o, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return w.write(func() error { return c.Delete(ctx, o, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return w.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, ok := o.(*v1alpha1.DefinitionRevision); ok && w.blind {
					return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("definitionrevisions").GroupResource(), key.Name)
				}
				return c.Get(ctx, key, o, opts...)
			},
		}),
		Live: w.api, Events: w,
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

// Eventf keeps an event, and sees to it that the status says it already.
func (w *world) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	note = fmt.Sprintf(note, args...)
	w.said = append(w.said, fmt.Sprintf("%s %s %s", kind, reason, note))
	if c := w.def().Status.Conditions; len(c) != 1 || c[0].Reason != reason || c[0].Message != note {
		w.Errorf("the event %s %q comes before its status: %+v", reason, note, c)
	}
}

func (w *world) def() *v1alpha1.AgentDefinition {
	w.Helper()
	var d v1alpha1.AgentDefinition
	w.ok(w.api.Get(w.Context(), client.ObjectKey{Namespace: "team", Name: given.Agent}, &d))
	return &d
}

func (w *world) revisions() (names []string) {
	w.Helper()
	var l v1alpha1.DefinitionRevisionList
	w.ok(w.api.List(w.Context(), &l))
	for _, r := range l.Items {
		names = append(names, r.Name)
	}
	return names
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) reconcile() {
	w.Helper()
	_, err := w.Reconcile(w.Context(), w.def())
	w.ok(err)
}

// edit changes the definition as an author does.
func (w *world) edit(change func(*v1alpha1.AgentDefinition)) {
	w.Helper()
	d := w.def()
	change(d)
	d.Generation++
	w.ok(w.api.Update(w.Context(), d))
}

func (w *world) want(current string, status metav1.ConditionStatus, reason, message string) {
	w.Helper()
	d := w.def()
	want := v1alpha1.AgentDefinitionStatus{
		ObservedGeneration: d.Generation, CurrentRevision: current,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: d.Generation}},
	}
	if diff := cmp.Diff(want, d.Status, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		w.Errorf("status (-want +got):\n%s", diff)
	}
}

func theDefinition() *v1alpha1.AgentDefinition {
	return given.Definition("team", func(d *v1alpha1.AgentDefinition) { d.UID, d.Generation = "definition", 1 })
}

func theEndpoint() *v1alpha1.ModelEndpoint { return given.Endpoint("team", "https://llm.example/v1") }

func TestADefinitionIsCompiledOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theDefinition(), theEndpoint())
	w.reconcile()
	names := w.revisions()
	if len(names) != 1 {
		t.Fatalf("revisions %v", names)
	}
	w.want(names[0], metav1.ConditionTrue, v1alpha1.ReasonCompiled, "revision "+names[0]+" is current")
	writes := w.writes
	w.reconcile()
	if w.writes != writes {
		t.Errorf("%d writes at the second look", w.writes-writes)
	}
	if diff := cmp.Diff([]string{"Normal Compiled revision " + names[0] + " is current"}, w.said); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestABadEditLeavesTheLastGoodRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theDefinition(), theEndpoint())
	w.reconcile()
	good := w.revisions()[0]
	w.edit(func(d *v1alpha1.AgentDefinition) { d.Spec.ModelRef.Name = "typo" })
	w.reconcile()
	w.want(good, metav1.ConditionFalse, v1alpha1.ReasonModelEndpointNotFound, `spec.modelRef.name: there is no ModelEndpoint "typo" in this namespace`)
	if diff := cmp.Diff([]string{good}, w.revisions()); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	if last := w.said[len(w.said)-1]; !strings.HasPrefix(last, "Warning ModelEndpointNotFound ") {
		t.Errorf("events %q", w.said)
	}
	// An edit that takes the bad one back comes to the revision that is there.
	w.edit(func(d *v1alpha1.AgentDefinition) { d.Spec.ModelRef.Name = given.Model })
	w.reconcile()
	w.want(good, metav1.ConditionTrue, v1alpha1.ReasonCompiled, "revision "+good+" is current")
	if diff := cmp.Diff([]string{good}, w.revisions()); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

func TestADefinitionThatHasNeverCompiled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theDefinition())
	w.reconcile()
	w.want("", metav1.ConditionFalse, v1alpha1.ReasonModelEndpointNotFound, `spec.modelRef.name: there is no ModelEndpoint "gpt-main" in this namespace`)
	// Its endpoint wakes it.
	e := theEndpoint()
	w.ok(w.api.Create(t.Context(), e))
	want := []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "team", Name: given.Agent}}}
	if diff := cmp.Diff(want, w.users(byModel)(t.Context(), e)); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	w.reconcile()
	if got := w.def().Status; got.CurrentRevision == "" {
		t.Errorf("status %+v", got)
	}
}

// TestADefinitionFollowsItsToolServers: it waits for them, and what they offer anew is a new revision.
func TestADefinitionFollowsItsToolServers(t *testing.T) {
	t.Parallel()
	def := theDefinition()
	def.Spec.Tools = []v1alpha1.ToolSelection{
		{ServerRef: v1alpha1.LocalReference{Name: "crm"}, Names: []string{"get"}},
		{ServerRef: v1alpha1.LocalReference{Name: "crm"}, Names: []string{"set"}},
	}
	w := newWorld(t, def, theEndpoint())
	w.reconcile()
	w.want("", metav1.ConditionFalse, v1alpha1.ReasonToolServerNotFound, `spec.tools[0].serverRef.name: there is no ToolServer "crm" in this namespace: apply it, or correct the name`)
	server := &v1alpha1.ToolServer{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "crm", UID: "crm", Generation: 1}, Spec: v1alpha1.ToolServerSpec{Type: v1alpha1.ToolServerMCP}}
	w.ok(w.api.Create(t.Context(), server))
	want := []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "team", Name: given.Agent}}}
	if diff := cmp.Diff(want, w.users(byServer)(t.Context(), server)); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	w.reconcile()
	w.want("", metav1.ConditionFalse, v1alpha1.ReasonToolServerNotReady, `spec.tools[0].serverRef.name: ToolServer "crm" has not been looked at yet since its newest edit`)
	discover := func(digit string) {
		digest := "sha256:" + strings.Repeat(digit, 64)
		server.Status = v1alpha1.ToolServerStatus{
			ObservedGeneration: 1, DiscoveredGeneration: 1,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDiscovered, ObservedGeneration: 1}},
			Tools:      []v1alpha1.DiscoveredTool{{Name: "get", Digest: digest}, {Name: "set", Digest: digest}},
		}
		w.ok(w.api.Status().Update(t.Context(), server))
		w.reconcile()
		current := w.def().Status.CurrentRevision
		w.want(current, metav1.ConditionTrue, v1alpha1.ReasonCompiled, "revision "+current+" is current")
	}
	discover("a")
	discover("b")
	if names := w.revisions(); len(names) != 2 {
		t.Errorf("revisions %v", names)
	}
	w.ok(w.api.Delete(t.Context(), server))
	current := w.def().Status.CurrentRevision
	w.reconcile()
	w.want(current, metav1.ConditionFalse, v1alpha1.ReasonToolServerNotFound, `spec.tools[0].serverRef.name: there is no ToolServer "crm" in this namespace: apply it, or correct the name`)
}

func TestARevisionOfSomebodyElse(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.DefinitionRevision){
		"without an owner":                          func(r *v1alpha1.DefinitionRevision) { r.OwnerReferences = nil },
		"of a definition of this name that is gone": func(r *v1alpha1.DefinitionRevision) { r.OwnerReferences[0].UID = "gone" },
		"of another content":                        func(r *v1alpha1.DefinitionRevision) { r.Spec.Digest = "sha256:other" },
	} {
		for _, blind := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the cache lags %v", name, blind), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, theDefinition(), theEndpoint())
				w.reconcile()
				var r v1alpha1.DefinitionRevision
				taken := w.revisions()[0]
				w.ok(w.api.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: taken}, &r))
				change(&r)
				w.ok(w.api.Update(t.Context(), &r))
				d := w.def()
				d.Status = v1alpha1.AgentDefinitionStatus{}
				w.ok(w.api.Status().Update(t.Context(), d))
				w.blind = blind
				w.reconcile()
				w.want("", metav1.ConditionFalse, v1alpha1.ReasonNameTaken, fmt.Sprintf("a DefinitionRevision %q exists and was not made from this definition: delete it", taken))
			})
		}
	}
}

func TestACacheThatLagsMakesNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theDefinition(), theEndpoint())
	w.blind = true
	w.reconcile()
	w.reconcile()
	names := w.revisions()
	if len(names) != 1 || len(w.said) != 1 {
		t.Errorf("revisions %v, events %q", names, w.said)
	}
	w.want(names[0], metav1.ConditionTrue, v1alpha1.ReasonCompiled, "revision "+names[0]+" is current")
}

// TestPruneKeepsWhatIsUsed makes four edits with a history of one.
func TestPruneKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	def := theDefinition()
	def.Spec.RevisionHistoryLimit = 1
	foreign := aged("foreign", 999)
	foreign.Spec.DefinitionRef.Name = "other"
	w := newWorld(t, def, theEndpoint(), &foreign)
	var made []string
	for i := range 5 {
		w.edit(func(d *v1alpha1.AgentDefinition) { d.Spec.Instructions = fmt.Sprint("edit ", i) })
		w.reconcile()
		current := w.def().Status.CurrentRevision
		made = append(made, current)
		var r v1alpha1.DefinitionRevision
		w.ok(w.api.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: current}, &r))
		r.CreationTimestamp, r.UID = aged("", 100-i).CreationTimestamp, types.UID(current)
		w.ok(w.api.Update(t.Context(), &r))
		if i == 0 {
			w.ok(w.api.Create(t.Context(), given.Run("r", "team", func(r *v1alpha1.AgentRun) { r.Status.Revision = current })))
		}
	}
	want := []string{made[0], made[3], made[4], "foreign"}
	if diff := cmp.Diff(want, w.revisions(), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

// TestKilledBetweenEveryTwoWrites kills the manager at each write of two edits, before it happens and before it is known.
func TestKilledBetweenEveryTwoWrites(t *testing.T) {
	t.Parallel()
	life := func(hit int, lost bool) *world {
		def := theDefinition()
		def.Spec.RevisionHistoryLimit = 1
		w := newWorld(t, def, theEndpoint())
		w.hit, w.lost = hit, lost
		for i := range 3 {
			w.edit(func(d *v1alpha1.AgentDefinition) { d.Spec.Instructions = fmt.Sprint("edit ", i) })
			for {
				if _, err := w.Reconcile(t.Context(), w.def()); err == nil {
					break
				} else if !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
			}
		}
		return w
	}
	whole := life(0, false)
	for n := 1; n <= whole.writes; n++ {
		for _, lost := range []bool{false, true} {
			w := life(n, lost)
			if diff := cmp.Diff(whole.def().Status, w.def().Status, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				t.Errorf("write %d, carried out %v: status (-undisturbed +disturbed):\n%s", n, lost, diff)
			}
			if diff := cmp.Diff(whole.revisions(), w.revisions()); diff != "" {
				t.Errorf("write %d, carried out %v: revisions (-undisturbed +disturbed):\n%s", n, lost, diff)
			}
			if missing := len(whole.said) - len(w.said); missing < 0 || missing > 0 && !lost {
				t.Errorf("write %d, carried out %v: events\n%s", n, lost, cmp.Diff(whole.said, w.said))
			}
		}
	}
}

func TestADefinitionThatIsGoingIsLeftAlone(t *testing.T) {
	t.Parallel()
	def := theDefinition()
	def.Finalizers = []string{"test/left"}
	w := newWorld(t, def, theEndpoint())
	w.ok(w.api.Delete(t.Context(), w.def()))
	w.reconcile()
	if w.writes != 0 {
		t.Errorf("%d writes", w.writes)
	}
}
