package agentrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
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
	"github.com/ekiden-dev/ekiden/controllers/agentrun/job"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/ledger/ledgertest"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
)

const (
	namespace = "team"
	system    = "ekiden-system"
	uid       = types.UID("0b5c1f5e-0000-4000-8000-000000000001")
	teamUID   = types.UID("0b5c1f5e-0000-4000-8000-000000000002")
)

var (
	noon   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	scheme = func() *runtime.Scheme {
		s := runtime.NewScheme()
		if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
			panic(err) // both are compiled in
		}
		return s
	}()
	errKilled = errors.New("killed")
)

func init() { ctrl.SetLogger(logr.Discard()) }

// world is an API server, a ledger, and a manager between them whose every write can be hit.
type world struct {
	*testing.T
	*Reconciler
	// api is the API server as everybody but the manager sees it.
	api    client.WithWatch
	ledger *ledgertest.Ledger
	now    time.Time

	// hit is the number of the write that fails, counted from 1, and lost says that it happens and only its answer
	// does not come. dead is set from then on until the manager is started again.
	writes, hit int
	lost, dead  bool

	// created are the Jobs that the manager created, admitted what it asked the ledger to freeze, said its events,
	// and statuses what it wrote into the status.
	created  []string
	admitted []ledger.Admission
	said     []string
	statuses []v1alpha1.AgentRunStatus

	// settings are those of the pods, told the events of objects.
	settings v1alpha1.PodSettings
	told     map[types.UID][]corev1.Event
	// refuse says why the API server refuses to create an object, or nil.
	refuse func(client.Object) error
	// fate says how an attempt ends that is at work.
	fate func(k lifecycle.AttemptKey) fate
	// atList happens before the manager lists anything.
	atList func(client.ObjectList)
	// stale are lists that the manager's cache does not fill.
	stale func(client.ObjectList) bool
}

// fate is how an attempt ends: with an outcome or without, and with an exit code.
type fate struct {
	outcome *contract.Outcome
	exit    int32
	message string
	// silent is a process that neither ends nor beats.
	silent bool
}

// theRun is the run of these tests.
func theRun(change ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	return given.Run("run", namespace, append([]func(*v1alpha1.AgentRun){func(r *v1alpha1.AgentRun) {
		r.UID, r.Generation, r.CreationTimestamp = uid, 1, metav1.Now()
	}}, change...)...)
}

// compiled is a definition, what the definition controller makes of it, and the endpoint it refers to.
func compiled(change ...func(*v1alpha1.AgentDefinition)) []client.Object {
	def := given.Definition(namespace, change...)
	def.UID, def.Generation = "definition", 1
	endpoint := given.Endpoint(namespace, "http://127.0.0.1/v1")
	revision, problem := compile.Agent(def, endpoint, nil)
	if problem != nil {
		panic(problem.Message)
	}
	def.Status = v1alpha1.AgentDefinitionStatus{
		ObservedGeneration: 1, CurrentRevision: revision.Name,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompiled, ObservedGeneration: 1}},
	}
	return []client.Object{def, revision, endpoint}
}

// newWorld holds the objects, and the namespaces.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{T: t, now: noon, fate: func(lifecycle.AttemptKey) fate { return completed("42") }}
	w.ledger = ledgertest.New(func() time.Time { return w.now })
	w.api = fake.NewClientBuilder().WithScheme(scheme).
		// The default tracker keeps managed fields, which costs more than all the rest.
		WithObjectTracker(clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())).
		WithStatusSubresource(&v1alpha1.AgentRun{}, &v1alpha1.AgentDefinition{}).
		WithObjects(
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: teamUID}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system, UID: "system"}},
		).
		WithObjects(objects...).Build()
	w.Reconciler = &Reconciler{
		Sound: func(context.Context, int64) error { return nil },
		Project: func(ctx context.Context, ns *corev1.Namespace) error {
			return w.ledger.Project(ctx, ns.UID, contract.PolicySet{})
		},
		Client: interceptor.NewClient(w.api, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return w.write(func() error {
					if w.refuse != nil {
						if err := w.refuse(o); err != nil {
							return err
						}
					}
					o.SetUID(types.UID(fmt.Sprintf("uid-of-%s", o.GetName())))
					err := c.Create(ctx, o, opts...)
					if _, ok := o.(*batchv1.Job); ok && err == nil {
						w.created = append(w.created, o.GetName())
					}
					return err
				})
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return w.write(func() error { return c.Delete(ctx, o, opts...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return w.write(func() error { return c.Patch(ctx, o, p, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return w.write(func() error {
					err := c.SubResource(sub).Patch(ctx, o, p, opts...)
					if err == nil {
						w.statuses = append(w.statuses, w.run().Status) //nolint:contextcheck // the world has the context of its test
					}
					return err
				})
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if w.atList != nil {
					w.atList(l)
				}
				if w.stale != nil && w.stale(l) {
					return nil
				}
				return c.List(ctx, l, opts...)
			},
		}),
		Pods: func(context.Context, string) (v1alpha1.PodSettings, error) {
			return pod.Merge(pod.BuiltIn(), w.settings), nil
		},
		Told: func(_ context.Context, _ string, about types.UID) ([]corev1.Event, error) { return w.told[about], nil },
		Live: w.api, Ledger: struck{w.ledger, w}, Events: w,
		Namespace: system, SegmentImage: "ekiden/segment:test", SegmentDSN: "postgres://pg.example:5432/ekiden",
	}
	return w
}

// write carries a write of the manager out, unless it is the one to be hit.
func (w *world) write(do func() error) error {
	if w.dead {
		w.Error("the manager goes on writing after a write has failed")
	}
	if w.writes++; w.writes != w.hit {
		return do()
	}
	w.dead = true
	if w.lost {
		_ = do() // nobody hears of it
	}
	return errKilled
}

// Eventf keeps an event, and sees to it that the status says it already.
func (w *world) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	note = fmt.Sprintf(note, args...)
	w.said = append(w.said, fmt.Sprintf("%s %s %s", kind, reason, note))
	c := meta.FindStatusCondition(w.run().Status.Conditions, v1alpha1.ConditionSucceeded)
	if c == nil || c.Reason != reason || c.Message != note {
		w.Errorf("the event %s %q comes before its status: %+v", reason, note, c)
	}
	if len(note) > 1024 {
		w.Errorf("the API server refuses an event whose note has %d bytes", len(note))
	}
}

// struck is a ledger whose writes can be hit.
type struck struct {
	*ledgertest.Ledger
	w *world
}

func (s struck) Admit(ctx context.Context, a ledger.Admission) error {
	return s.w.write(func() error {
		s.w.admitted = append(s.w.admitted, a)
		return s.Ledger.Admit(ctx, a)
	})
}

func (s struck) BeginAttempt(ctx context.Context, run types.UID, k ledger.AttemptKey) error {
	return s.w.write(func() error { return s.Ledger.BeginAttempt(ctx, run, k) })
}

func (s struck) StoreJob(ctx context.Context, run types.UID, k ledger.AttemptKey, j types.UID) error {
	return s.w.write(func() error { return s.Ledger.StoreJob(ctx, run, k, j) })
}

func (s struck) EndAttempt(ctx context.Context, run types.UID, k ledger.AttemptKey, e ledger.AttemptEnd) error {
	return s.w.write(func() error { return s.Ledger.EndAttempt(ctx, run, k, e) })
}

func (s struck) Cancel(ctx context.Context, run types.UID) error {
	return s.w.write(func() error { return s.Ledger.Cancel(ctx, run) })
}

func (s struck) Finish(ctx context.Context, run types.UID, e ledger.End) (end ledger.End, err error) {
	err = s.w.write(func() error {
		end, err = s.Ledger.Finish(ctx, run, e)
		return err
	})
	return end, err
}

func (s struck) Provision(ctx context.Context, t ledger.Tenant) error {
	return s.w.write(func() error { return s.Ledger.Provision(ctx, t) })
}

// run is the run, or nil once it is gone.
func (w *world) run() *v1alpha1.AgentRun {
	w.Helper()
	var runs v1alpha1.AgentRunList
	if err := w.api.List(w.Context(), &runs); err != nil {
		w.Fatal(err)
	}
	if len(runs.Items) == 0 {
		return nil
	}
	return &runs.Items[0]
}

func (w *world) jobs() []batchv1.Job {
	w.Helper()
	var l batchv1.JobList
	if err := w.api.List(w.Context(), &l); err != nil {
		w.Fatal(err)
	}
	return l.Items
}

func (w *world) pods() []corev1.Pod {
	w.Helper()
	var l corev1.PodList
	if err := w.api.List(w.Context(), &l); err != nil {
		w.Fatal(err)
	}
	return l.Items
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// reconcile looks at the run once, with nothing hit.
func (w *world) reconcile() ctrl.Result {
	w.Helper()
	got, err := w.Reconcile(w.Context(), w.run())
	w.ok(err)
	return got
}

// settle looks at the run and lets the cluster and the time go on, until nothing more happens. A manager that was killed
// is started again. meddle is what people do between two looks; it may be nil.
func (w *world) settle(meddle func(w *world)) {
	w.Helper()
	for range 200 {
		run := w.run()
		if run == nil {
			return
		}
		w.dead = false
		wanted := w.wanted()
		got, err := w.Reconcile(w.Context(), run)
		if errors.Is(err, errKilled) {
			continue
		}
		w.ok(err)
		if meddle != nil {
			meddle(w)
		}
		if w.wanted() != wanted {
			continue
		}
		if w.turn() {
			continue
		}
		if got.RequeueAfter == 0 {
			return
		}
		w.now = w.now.Add(got.RequeueAfter)
	}
	w.Fatalf("still going on: %+v", w.run().Status)
}

// wait lets the time go on, and nothing else, until the manager has nothing more to wait for.
func (w *world) wait() {
	w.Helper()
	for range 30 {
		got := w.reconcile()
		if got.RequeueAfter == 0 {
			return
		}
		w.now = w.now.Add(got.RequeueAfter)
	}
	w.Fatalf("still waiting: %+v", w.run().Status)
}

// wanted tells whether people want the run.
func (w *world) wanted() bool {
	r := w.run()
	return r != nil && r.DeletionTimestamp.IsZero() && r.Spec.DesiredState != v1alpha1.DesiredCancelled
}

// turn lets the Job controller, the kubelet and the segments each go one step. It reports whether there was one to go.
func (w *world) turn() bool {
	w.Helper()
	jobs, pods := w.jobs(), w.pods()
	moved := false
	for i := range jobs {
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == jobs[i].Name+"-pod" }) {
			w.schedule(&jobs[i])
			moved = true
		}
	}
	for i := range pods {
		alone := !slices.ContainsFunc(jobs, func(j batchv1.Job) bool { return j.Name+"-pod" == pods[i].Name })
		moved = w.step(&pods[i], alone) || moved
	}
	return moved
}

func (w *world) schedule(j *batchv1.Job) {
	w.Helper()
	w.ok(w.api.Create(w.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.Namespace, Name: j.Name + "-pod", Labels: j.Spec.Template.Labels, Annotations: j.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: j.Spec.Template.Spec,
	}))
}

// step lets a pod go one step. One whose Job is gone stops.
func (w *world) step(p *corev1.Pod, alone bool) bool {
	w.Helper()
	k, _ := job.Key(p.Labels)
	state := corev1.ContainerState{}
	if len(p.Status.ContainerStatuses) > 0 {
		state = p.Status.ContainerStatuses[0].State
	}
	switch {
	case alone:
		w.ok(w.api.Delete(w.Context(), p))
	case state.Terminated != nil:
		return false
	case state.Running != nil && w.fate(k).silent:
		return false
	case state.Running != nil:
		w.end(p, w.fate(k))
	case !w.ledger.Hold(uid, k, p.UID): // nothing to do
		w.end(p, fate{})
	default:
		w.become(p, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	}
	return true
}

func (w *world) end(p *corev1.Pod, f fate) {
	w.Helper()
	k, _ := job.Key(p.Labels)
	if f.outcome != nil {
		w.ledger.Use(uid, ledger.Usage{Turns: int32(k.Segment) + 1, Input: 90, CacheRead: 10, Output: 5, Cost: 42}, 1500*time.Millisecond)
		w.ledger.Yield(uid, k.Segment, *f.outcome)
	}
	phase := corev1.PodSucceeded
	if f.exit != 0 {
		phase = corev1.PodFailed
	}
	w.become(p, phase, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: f.exit, Message: f.message}})
}

func (w *world) become(p *corev1.Pod, phase corev1.PodPhase, s corev1.ContainerState) {
	w.Helper()
	p.Status.Phase = phase
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: contract.SegmentContainer, State: s}}
	w.ok(w.api.Status().Update(w.Context(), p))
}

// atWork reports whether a segment works.
func (w *world) atWork() bool {
	return slices.ContainsFunc(w.pods(), func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
}

// cancel is what kubectl ekiden cancel does.
func (w *world) cancel() {
	w.Helper()
	r := w.run()
	r.Spec.DesiredState = v1alpha1.DesiredCancelled
	w.ok(w.api.Update(w.Context(), r))
}

func (w *world) remove() {
	w.Helper()
	w.ok(client.IgnoreNotFound(w.api.Delete(w.Context(), w.run())))
}

// want checks what the status says in a few words: phase, reason and message.
func (w *world) want(phase v1alpha1.RunPhase, reason, message string) {
	w.Helper()
	s := w.run().Status
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionSucceeded)
	if c == nil {
		w.Fatalf("the status says nothing: %+v", s)
	}
	if s.Phase != phase || c.Reason != reason || !strings.Contains(c.Message, message) {
		w.Errorf("got %s %s %q, want %s %s %q", s.Phase, c.Reason, c.Message, phase, reason, message)
	}
}

func completed(result string) fate {
	return fate{outcome: &contract.Outcome{Yield: contract.YieldCompleted, Result: result}}
}

func checkpoint() fate {
	return fate{outcome: &contract.Outcome{Yield: contract.YieldCheckpoint}}
}
