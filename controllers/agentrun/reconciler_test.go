package agentrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/job"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/ledger/ledgertest"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/controllers/requeue"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
)

// TestWhatARunIsFrozenWith is about runs that are admitted at the first look.
func TestWhatARunIsFrozenWith(t *testing.T) {
	t.Parallel()
	limits := v1alpha1.Limits{Segments: 20, Turns: 40, ToolCalls: 40, ActiveSeconds: 1800}
	input := func(in v1alpha1.RunInput) func(*v1alpha1.AgentRun) {
		return func(r *v1alpha1.AgentRun) { r.Spec.Input = in }
	}
	policy := func(namespace string, l v1alpha1.Limits) client.Object {
		return &v1alpha1.AgentPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.DefaultPolicyName}, Spec: v1alpha1.AgentPolicySpec{Limits: l}}
	}
	tests := map[string]struct {
		given      func(*v1alpha1.AgentRun)
		objects    []client.Object
		wantTask   string
		wantLimits v1alpha1.Limits
	}{
		"a text as it is":                          {given: given.Task("Say <b> & \"é\".\n"), wantTask: "Say <b> & \"é\".\n", wantLimits: limits},
		"a text without what Postgres cannot hold": {given: given.Task("a\x00b"), wantTask: "a\uFFFDb", wantLimits: limits},
		"a JSON value in its canonical form, every digit of it": {
			given:    input(v1alpha1.RunInput{JSON: &apiextensionsv1.JSON{Raw: []byte(`{ "b": "<2> & 3", "a": [1, 9007199254740993, 1.50] }`)}}),
			wantTask: `{"a":[1,9007199254740993,1.50],"b":"<2> & 3"}`, wantLimits: limits,
		},
		"a key of a ConfigMap": {
			given:    input(v1alpha1.RunInput{From: &v1alpha1.RunInputSource{ConfigMap: v1alpha1.KeyReference{Name: "tasks", Key: "one"}}}),
			objects:  []client.Object{configMap(map[string]string{"one": strings.Repeat("x", contract.MaxInput)})},
			wantTask: strings.Repeat("x", contract.MaxInput), wantLimits: limits,
		},
		"limits that the run narrows, and does not widen": {
			given: given.Narrowed(v1alpha1.Limits{Segments: 2, Turns: 1000}), wantTask: "Sort ticket 4711.",
			wantLimits: v1alpha1.Limits{Segments: 2, Turns: 40, ToolCalls: 40, ActiveSeconds: 1800},
		},
		"limits that the policy of the namespace clips, and that of the manager's": {
			given: given.Narrowed(v1alpha1.Limits{Segments: 2}), wantTask: "Sort ticket 4711.",
			objects:    []client.Object{policy(namespace, v1alpha1.Limits{Segments: 9, Turns: 9}), policy(system, v1alpha1.Limits{Turns: 10, ActiveSeconds: 60})},
			wantLimits: v1alpha1.Limits{Segments: 2, Turns: 9, ToolCalls: 40, ActiveSeconds: 60},
		},
		"limits that a policy of another name or namespace does not touch": {
			given: given.Task("x"), wantTask: "x", wantLimits: limits,
			objects: []client.Object{
				policy("other", v1alpha1.Limits{Turns: 1}),
				&v1alpha1.AgentPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "strict"}, Spec: v1alpha1.AgentPolicySpec{Limits: v1alpha1.Limits{Turns: 1}}},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := compiled()
			run := theRun(tc.given, given.Key("k"), func(r *v1alpha1.AgentRun) { r.Spec.Principal = v1alpha1.Principal{User: "jane"} })
			w := newWorld(t, append(append(objects, run), tc.objects...)...)
			w.reconcile()
			revision := objects[1].(*v1alpha1.DefinitionRevision)
			agent := revision.Spec.Agent
			agent.Limits = tc.wantLimits
			want := []ledger.Admission{{IdempotencyKey: "k", Snapshot: contract.Snapshot{
				Run:      contract.Identity{Namespace: namespace, NamespaceUID: teamUID, Name: "run", UID: uid, RootUID: uid},
				Revision: revision.Name, Definition: given.Agent, Agent: agent, Principal: v1alpha1.Principal{User: "jane"}, Task: tc.wantTask,
			}}}
			if diff := cmp.Diff(want, w.admitted); diff != "" {
				t.Errorf("admission (-want +got):\n%s", diff)
			}
			w.want(v1alpha1.RunRunning, v1alpha1.ReasonStarting, "segment 0 waits for its pod")
			if got := w.run().Status.Limits; got != tc.wantLimits {
				t.Errorf("the status shows the limits %+v", got)
			}
		})
	}
}

// TestRunsThatAreNotAdmitted is about what they wait for, and how they end.
func TestRunsThatAreNotAdmitted(t *testing.T) {
	t.Parallel()
	with := func(change func(*v1alpha1.AgentDefinition, *v1alpha1.DefinitionRevision)) []client.Object {
		o := compiled()
		change(o[0].(*v1alpha1.AgentDefinition), o[1].(*v1alpha1.DefinitionRevision))
		return o
	}
	offering := func(change func(*v1alpha1.ModelEndpointSpec)) []client.Object {
		o := compiled()
		change(&o[2].(*v1alpha1.ModelEndpoint).Spec)
		return o
	}
	revision := compiled()[1].GetName()
	input := func(in v1alpha1.RunInput) func(*v1alpha1.AgentRun) {
		return func(r *v1alpha1.AgentRun) { r.Spec.Input = in }
	}
	from := input(v1alpha1.RunInput{From: &v1alpha1.RunInputSource{ConfigMap: v1alpha1.KeyReference{Name: "tasks", Key: "one"}}})
	pinned := func(revision string) func(*v1alpha1.AgentRun) {
		return func(r *v1alpha1.AgentRun) { r.Spec.DefinitionRef.Revision = revision }
	}
	old := func(r *v1alpha1.AgentRun) {
		since := metav1.NewTime(time.Now().Add(-lifecycle.ReadyWithin - time.Second))
		r.CreationTimestamp = since
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonDefinitionNotReady, LastTransitionTime: since}}
	}
	const notReady, invalid = v1alpha1.ReasonDefinitionNotReady, v1alpha1.ReasonInputInvalid
	tests := map[string]struct {
		given       []func(*v1alpha1.AgentRun)
		objects     []client.Object
		going       bool
		wantPhase   v1alpha1.RunPhase
		wantReason  string
		wantMessage string
	}{
		"a definition that is not there": {
			wantPhase: v1alpha1.RunQueued, wantReason: notReady, wantMessage: `there is no AgentDefinition "triage" in this namespace`,
		},
		"a definition that is new": {
			objects: with(func(d *v1alpha1.AgentDefinition, _ *v1alpha1.DefinitionRevision) {
				d.Status = v1alpha1.AgentDefinitionStatus{}
			}),
			wantPhase: v1alpha1.RunQueued, wantReason: notReady, wantMessage: `AgentDefinition "triage" has not been compiled yet`,
		},
		"a definition that has never compiled": {
			objects: with(func(d *v1alpha1.AgentDefinition, _ *v1alpha1.DefinitionRevision) {
				d.Status.CurrentRevision = ""
				d.Status.Conditions[0].Status, d.Status.Conditions[0].Reason, d.Status.Conditions[0].Message = metav1.ConditionFalse, "Invalid", "no"
			}),
			wantPhase: v1alpha1.RunQueued, wantReason: notReady, wantMessage: `AgentDefinition "triage" does not compile: Invalid: no`,
		},
		"a revision that is not there": {
			given: []func(*v1alpha1.AgentRun){pinned("triage-gone")}, objects: compiled(),
			wantPhase: v1alpha1.RunQueued, wantReason: notReady, wantMessage: `there is no DefinitionRevision "triage-gone"`,
		},
		"a revision of another definition": {
			given: []func(*v1alpha1.AgentRun){pinned("other-1")},
			objects: append(compiled(), &v1alpha1.DefinitionRevision{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other-1"},
				Spec:       v1alpha1.DefinitionRevisionSpec{DefinitionRef: v1alpha1.DefinitionReference{Kind: v1alpha1.AgentDefinitionKind, Name: "other"}},
			}),
			wantPhase: v1alpha1.RunFailed, wantReason: invalid, wantMessage: `"other-1" is a revision of AgentDefinition "other", not of "triage"`,
		},
		"an endpoint that was taken back": {
			given: []func(*v1alpha1.AgentRun){pinned(revision)}, objects: compiled()[:2],
			wantPhase: v1alpha1.RunQueued, wantReason: notReady, wantMessage: `needs ModelEndpoint "gpt-main", which is not in this namespace: apply it`,
		},
		"an endpoint that answers elsewhere now": {
			given: []func(*v1alpha1.AgentRun){pinned(revision)}, objects: offering(func(s *v1alpha1.ModelEndpointSpec) { s.URL = "http://other/v1" }),
			wantPhase: v1alpha1.RunQueued, wantReason: notReady, wantMessage: `spec.url of ModelEndpoint "gpt-main" is not what revision "` + revision + `" was compiled with: use a revision`,
		},
		"an endpoint whose key is another now": {
			objects:   offering(func(s *v1alpha1.ModelEndpointSpec) { s.Credentials.SecretRef.Name = "other" }),
			wantPhase: v1alpha1.RunQueued, wantReason: notReady, wantMessage: `spec.credentials of ModelEndpoint "gpt-main" is not`,
		},
		"an endpoint that was narrowed": {
			objects:   offering(func(s *v1alpha1.ModelEndpointSpec) { s.Egress.Allow = nil }),
			wantPhase: v1alpha1.RunQueued, wantReason: notReady, wantMessage: `spec.egress of ModelEndpoint "gpt-main" is not`,
		},
		"an endpoint that never came back": {
			given: []func(*v1alpha1.AgentRun){old}, objects: compiled()[:2],
			wantPhase: v1alpha1.RunFailed, wantReason: notReady, wantMessage: `gave up after 120 seconds: revision "` + revision + `" needs ModelEndpoint`,
		},
		"a definition that came late because nobody looked": {
			given: []func(*v1alpha1.AgentRun){func(r *v1alpha1.AgentRun) {
				r.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
			}},
			wantPhase: v1alpha1.RunQueued, wantReason: notReady, wantMessage: `there is no AgentDefinition "triage"`,
		},
		"a run that the ledger has forgotten": {
			given: []func(*v1alpha1.AgentRun){func(r *v1alpha1.AgentRun) { r.Status.StartedAt = metav1.Now() }}, objects: compiled(),
			wantPhase: v1alpha1.RunFailed, wantReason: v1alpha1.ReasonLedgerRolledBack, wantMessage: `Postgres no longer knows it`,
		},
		"a run whose Job is there and that the ledger has forgotten": {
			objects:   append(compiled(), jobOf(theRun())),
			wantPhase: v1alpha1.RunFailed, wantReason: v1alpha1.ReasonLedgerRolledBack, wantMessage: `Postgres no longer knows it`,
		},
		"an object that carries the UID of another run": {
			given: []func(*v1alpha1.AgentRun){func(r *v1alpha1.AgentRun) {
				r.Annotations = map[string]string{v1alpha1.AnnotationRunUID: "another"}
			}}, objects: compiled(),
			wantPhase: v1alpha1.RunFailed, wantReason: v1alpha1.ReasonRestored, wantMessage: `without the annotation ekiden.dev/run-uid`,
		},
		"an object whose status is that of another run": {
			given: []func(*v1alpha1.AgentRun){func(r *v1alpha1.AgentRun) {
				r.Status.Root = v1alpha1.RunReference{Name: r.Name, UID: "another"}
			}}, objects: compiled(),
			wantPhase: v1alpha1.RunFailed, wantReason: v1alpha1.ReasonRestored, wantMessage: `restored from a backup of run another`,
		},
		"a definition that never came": {
			given:     []func(*v1alpha1.AgentRun){old},
			wantPhase: v1alpha1.RunFailed, wantReason: notReady, wantMessage: `gave up after 120 seconds: spec.definitionRef: there is no AgentDefinition "triage"`,
		},
		"a ConfigMap that is not there": {
			given: []func(*v1alpha1.AgentRun){from}, objects: compiled(),
			wantPhase: v1alpha1.RunQueued, wantReason: v1alpha1.ReasonInputNotReady, wantMessage: `there is no ConfigMap "tasks"`,
		},
		"a ConfigMap without the key": {
			given: []func(*v1alpha1.AgentRun){from}, objects: append(compiled(), configMap(map[string]string{"two": "x"})),
			wantPhase: v1alpha1.RunQueued, wantReason: v1alpha1.ReasonInputNotReady, wantMessage: `ConfigMap "tasks" has no key "one"`,
		},
		"a ConfigMap whose key never came": {
			given: []func(*v1alpha1.AgentRun){from, old}, objects: compiled(),
			wantPhase: v1alpha1.RunFailed, wantReason: v1alpha1.ReasonInputNotReady, wantMessage: `gave up after 120 seconds`,
		},
		"a key that is empty": {
			given: []func(*v1alpha1.AgentRun){from}, objects: append(compiled(), configMap(map[string]string{"one": ""})),
			wantPhase: v1alpha1.RunFailed, wantReason: invalid, wantMessage: `key "one" of ConfigMap "tasks" is empty`,
		},
		"a key that is too large": {
			given: []func(*v1alpha1.AgentRun){from}, objects: append(compiled(), configMap(map[string]string{"one": strings.Repeat("x", contract.MaxInput+1)})),
			wantPhase: v1alpha1.RunFailed, wantReason: invalid, wantMessage: "spec.input.from has 1048577 bytes, 1048576 are allowed",
		},
		"a text that is too large": {
			given: []func(*v1alpha1.AgentRun){given.Task(strings.Repeat("é", contract.MaxInlineInput/2) + "!")}, objects: compiled(),
			wantPhase: v1alpha1.RunFailed, wantReason: invalid, wantMessage: "spec.input.text has 32769 bytes, 32768 are allowed",
		},
		"a JSON value that is too large": {
			given:   []func(*v1alpha1.AgentRun){input(v1alpha1.RunInput{JSON: &apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("x", contract.MaxInlineInput) + `"`)}})},
			objects: compiled(), wantPhase: v1alpha1.RunFailed, wantReason: invalid, wantMessage: "spec.input.json has 32770 bytes",
		},
		"no input at all": {
			given: []func(*v1alpha1.AgentRun){input(v1alpha1.RunInput{})}, objects: compiled(),
			wantPhase: v1alpha1.RunFailed, wantReason: invalid, wantMessage: "spec.input is empty",
		},
		"a run that is cancelled in the queue": {
			given:     []func(*v1alpha1.AgentRun){given.Cancelled()},
			wantPhase: v1alpha1.RunCancelled, wantReason: v1alpha1.ReasonCancelled, wantMessage: "cancelled before it was admitted",
		},
		"a run in a namespace that goes": {
			objects: compiled(), going: true,
			wantPhase: v1alpha1.RunCancelled, wantReason: v1alpha1.ReasonCancelled, wantMessage: "cancelled before it was admitted",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(tc.objects, theRun(tc.given...))...)
			if tc.going {
				w.terminate()
			}
			got := w.reconcile()
			w.want(tc.wantPhase, tc.wantReason, tc.wantMessage)
			if waits := tc.wantPhase == v1alpha1.RunQueued; waits != (got.RequeueAfter > 0) {
				t.Errorf("looks again after %s", got.RequeueAfter)
			}
			wantAccepted := metav1.ConditionFalse
			if tc.wantPhase == v1alpha1.RunQueued {
				wantAccepted = metav1.ConditionUnknown
			}
			if c := meta.FindStatusCondition(w.run().Status.Conditions, v1alpha1.ConditionAccepted); c.Status != wantAccepted || c.Reason != tc.wantReason {
				t.Errorf("accepted: %+v", c)
			}
			before := w.writes
			w.reconcile()
			if len(w.admitted) > 0 || len(w.created) > 0 || w.writes != before {
				t.Errorf("admitted %v, created %v, %d writes at the second look", w.admitted, w.created, w.writes-before)
			}
			if want := map[bool]int{false: 1, true: 0}[tc.going]; len(w.said) != want { // in a namespace that goes nothing can be said
				t.Errorf("events %q", w.said)
			}
		})
	}
}

// TestTheLastGoodRevisionIsUsed and the run says so.
func TestTheLastGoodRevisionIsUsed(t *testing.T) {
	t.Parallel()
	objects := compiled()
	def := objects[0].(*v1alpha1.AgentDefinition)
	def.Generation, def.Status.ObservedGeneration = 2, 2
	def.Status.Conditions[0].Status, def.Status.Conditions[0].Message = metav1.ConditionFalse, "a bad edit"
	w := newWorld(t, append(objects, theRun())...)
	w.settle(nil)
	w.want(v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, "")
	want := `the newest edit of AgentDefinition "triage" does not compile (a bad edit); its last good revision is used`
	if c := meta.FindStatusCondition(w.run().Status.Conditions, v1alpha1.ConditionAccepted); c.Message != want {
		t.Errorf("accepted: %q", c.Message)
	}
}

// TestAQueuedRunThatIsDeletedIsLetGo: it may hold the finalizer already if the manager died between it and the admission.
func TestAQueuedRunThatIsDeletedIsLetGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theRun(func(r *v1alpha1.AgentRun) { r.Finalizers = []string{v1alpha1.Finalizer} }))
	w.remove()
	w.reconcile()
	if w.run() != nil {
		t.Errorf("it is still there: %+v", w.run())
	}
}

// TestAManagerWithAStaleCacheStartsNothingTwice lets the cache show neither Jobs nor pods.
func TestAManagerWithAStaleCacheStartsNothingTwice(t *testing.T) {
	t.Parallel()
	for name, stale := range map[string]func(client.ObjectList) bool{
		"no Jobs": func(l client.ObjectList) bool { _, ok := l.(*batchv1.JobList); return ok },
		"no pods": func(l client.ObjectList) bool { _, ok := l.(*corev1.PodList); return ok },
		"neither": func(client.ObjectList) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(compiled(), theRun())...)
			w.stale = stale
			first := w.run()
			for range 3 {
				w.reconcile()
			}
			w.turn()
			w.turn()
			w.reconcile()
			if got := w.ledger.Every(uid); len(w.created) != 1 || len(got) != 1 || !got[0].EndedAt.IsZero() {
				t.Fatalf("Jobs %v, attempts %+v", w.created, got)
			}
			// A look at the run as it was before the first one.
			before := w.run().ResourceVersion
			if again, err := w.Reconcile(t.Context(), first); err != nil || again.RequeueAfter != requeue.Soon || w.run().ResourceVersion != before {
				t.Errorf("got %v, %v; want nothing written and another look soon", again, err)
			}
			w.stale = nil
			w.settle(nil)
			w.want(v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, "")
			if len(w.created) != 1 {
				t.Errorf("Jobs %v", w.created)
			}
		})
	}
}

// TestAnOutcomeIsThereOnceItsPodIsSeenToHaveEnded lets the segment end at the last instant before the cluster is read.
func TestAnOutcomeIsThereOnceItsPodIsSeenToHaveEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.reconcile()
	w.turn()
	w.turn()
	w.atList = func(l client.ObjectList) {
		if _, ok := l.(*batchv1.JobList); ok && w.atWork() {
			w.turn()
		}
	}
	w.reconcile()
	w.want(v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, "")
	if got := w.ledger.Every(uid); got[0].Class != lifecycle.Yielded {
		t.Errorf("attempts %+v", got)
	}
}

func TestAnObjectOfSomebodyElse(t *testing.T) {
	t.Parallel()
	run := theRun()
	key := lifecycle.AttemptKey{}
	ours := job.Build(run, key, contract.Terms{}, "image", pod.BuiltIn())
	tests := map[string]struct {
		given     func(*batchv1.Job)
		wantTaken bool
	}{
		"a Job without an owner":           {given: func(j *batchv1.Job) { j.OwnerReferences = nil }, wantTaken: true},
		"a Job of another run":             {given: func(j *batchv1.Job) { j.OwnerReferences[0].UID = "other" }, wantTaken: true},
		"a Job of another attempt":         {given: func(j *batchv1.Job) { j.Labels[v1alpha1.LabelAttempt] = "7" }, wantTaken: true},
		"a Job without labels":             {given: func(j *batchv1.Job) { j.Labels = nil }, wantTaken: true},
		"our own Job, of a manager killed": {given: func(*batchv1.Job) {}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := ours.DeepCopy()
			j.UID = "theirs"
			tc.given(j)
			w := newWorld(t, append(compiled(), run.DeepCopy(), j)...)
			if !tc.wantTaken { // the row of an attempt is there before its Job is
				snapshot := ledgertest.Snapshot(teamUID)
				snapshot.Run.UID = uid
				w.ok(errors.Join(w.ledger.Admit(t.Context(), ledger.Admission{Snapshot: snapshot}), w.ledger.BeginAttempt(t.Context(), uid, key)))
			}
			w.reconcile()
			if !tc.wantTaken {
				w.want(v1alpha1.RunRunning, v1alpha1.ReasonStarting, "")
				if got := w.ledger.Every(uid); len(got) != 1 || got[0].Job != "theirs" {
					t.Errorf("attempts %+v", got)
				}
				return
			}
			w.want(v1alpha1.RunFailed, v1alpha1.ReasonNameTaken, "a Job named "+j.Name+" exists and belongs to somebody else")
			w.reconcile()
			if len(w.jobs()) != 1 {
				t.Errorf("%d Jobs", len(w.jobs()))
			}
		})
	}
}

func TestTheSecretOfAnotherLogin(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{
		"another login":  "postgres://ekiden_other:s3cret@pg.example:5432/ekiden",
		"no password":    fmt.Sprintf("postgres://%s:@pg.example:5432/ekiden", ledger.LoginOf(teamUID)),
		"a strange one":  fmt.Sprintf("postgres://%s:s3cret%%20x@pg.example:5432/ekiden", ledger.LoginOf(teamUID)),
		"no login":       "postgres://pg.example:5432/ekiden",
		"no DSN":         "s3cret ://",
		"nothing at all": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(compiled(), theRun(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: contract.PostgresSecret}, Data: map[string][]byte{contract.PostgresKey: []byte(dsn)},
			})...)
			w.reconcile()
			w.want(v1alpha1.RunQueued, v1alpha1.ReasonNameTaken, "key dsn of Secret ekiden-postgres is not the DSN that this namespace's login should have: delete the Secret")
			if message := w.run().Status.Conditions[0].Message; strings.Contains(message, "s3cret") {
				t.Errorf("the status tells the password: %s", message)
			}
			if len(w.admitted) > 0 || len(w.created) > 0 {
				t.Errorf("admitted %v, created %v", w.admitted, w.created)
			}
			w.ok(w.api.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: contract.PostgresSecret}}))
			w.reconcile()
			w.want(v1alpha1.RunRunning, v1alpha1.ReasonStarting, "")
		})
	}
}

// TestTheLoginTakesThePasswordOfTheSecret although the ledger was restored from an older backup.
func TestTheLoginTakesThePasswordOfTheSecret(t *testing.T) {
	t.Parallel()
	dsn := fmt.Sprintf("postgres://%s:kept@pg.example:5432/ekiden", ledger.LoginOf(teamUID))
	w := newWorld(t, append(compiled(), theRun(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: contract.PostgresSecret}, Data: map[string][]byte{contract.PostgresKey: []byte(dsn)},
	})...)
	w.reconcile()
	if got := w.ledger.Password(teamUID); got != "kept" {
		t.Errorf("the login has the password %q", got)
	}
}

// TestADeletedSecretRotatesTheLogin makes another login, and takes the old one from nobody.
func TestADeletedSecretRotatesTheLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.reconcile()
	for _, slot := range []ledger.Slot{"", "a", "b", "a"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: teamUID}}
		if unfit, err := w.Provision(t.Context(), ns); err != nil || unfit != "" {
			t.Fatal(unfit, err)
		}
		var secret corev1.Secret
		w.ok(w.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: contract.PostgresSecret}, &secret))
		all, err := w.ledger.Tenants(t.Context())
		w.ok(err)
		if dsn := string(secret.Data[contract.PostgresKey]); !strings.Contains(dsn, "//"+slot.LoginOf(teamUID)+":") || all[0].Slot != slot || all[0].Retiring != (slot != "") {
			t.Errorf("slot %q: %s, %+v", slot, dsn, all)
		}
		w.ok(w.api.Delete(t.Context(), &secret))
	}
}

func TestAnAddressThatIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.SegmentDSN = "host=pg password=s3cret"
	if _, err := w.Reconcile(t.Context(), w.run()); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got error %v", err)
	}
}

// TestAnObjectThatIsRefused is shown with the API server's words, taken once it is allowed, and given up after its time.
func TestAnObjectThatIsRefused(t *testing.T) {
	t.Parallel()
	group := schema.GroupResource{Resource: "things"}
	quota := apierrors.NewForbidden(group, "x", errors.New("exceeded quota: team"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "x", nil)
	going := apierrors.NewForbidden(group, "x", errors.New("it is being terminated"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	busy := apierrors.NewTooManyRequestsError("later")
	isJob := func(o client.Object) bool { _, ok := o.(*batchv1.Job); return ok }
	isSecret := func(o client.Object) bool { _, ok := o.(*corev1.Secret); return ok }
	const starting, not = v1alpha1.ReasonStarting, v1alpha1.ReasonPodNotStarted
	for name, tc := range map[string]struct {
		what       func(client.Object) bool
		no         error
		wantPhase  v1alpha1.RunPhase
		wantReason string
		want       string
		wantEnd    string
	}{
		"a Job beyond a quota":    {isJob, quota, v1alpha1.RunRunning, starting, "segment 0 waits for its pod: job run-", `did not start within 300 seconds: job run-`},
		"a Job that is invalid":   {isJob, invalid, v1alpha1.RunRunning, starting, `Thing "x" is invalid`, `Thing "x" is invalid`},
		"a Secret beyond a quota": {isSecret, quota, v1alpha1.RunQueued, not, "secret team/ekiden-postgres: things \"x\" is forbidden: exceeded quota: team", "gave up after 120 seconds: secret"},
		"a Job in a namespace that goes, as far as the cache knows": {what: isJob, no: going},
		"a Job of an API server that is busy":                       {what: isJob, no: busy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := func() *world {
				w := newWorld(t, append(compiled(), theRun())...)
				w.refuse = func(o client.Object) error {
					if tc.what(o) {
						return tc.no
					}
					return nil
				}
				return w
			}
			w := begin()
			if tc.want == "" {
				if _, err := w.Reconcile(t.Context(), w.run()); !errors.Is(err, tc.no) {
					t.Errorf("got error %v", err)
				}
				return
			}
			w.reconcile()
			w.want(tc.wantPhase, tc.wantReason, tc.want)
			statuses := len(w.statuses)
			if again := w.reconcile(); again.RequeueAfter != 5*time.Second || len(w.statuses) != statuses {
				t.Errorf("looks again after %s, and wrote %d statuses", again.RequeueAfter, len(w.statuses)-statuses)
			}
			w.refuse = nil
			w.settle(nil)
			w.want(v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, "")

			w = begin()
			w.reconcile()
			w.now = w.now.Add(lifecycle.StartWithin)
			w.age(lifecycle.ReadyWithin)
			w.settle(nil)
			w.want(v1alpha1.RunFailed, v1alpha1.ReasonPodNotStarted, tc.wantEnd)
			for _, a := range w.ledger.Every(uid) {
				if a.Class != lifecycle.Stopped {
					t.Errorf("an attempt is left as %+v", a)
				}
			}
		})
	}
}

// TestAPodThatIsNotOurs carries our labels and has ended.
func TestAPodThatIsNotOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.reconcile()
	w.turn()
	p := w.pods()[0]
	w.ok(w.api.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "copy", Labels: p.Labels, Annotations: p.Annotations}}))
	for _, p := range w.pods() {
		if p.Name == "copy" {
			w.become(&p, corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}})
		}
	}
	w.reconcile()
	if got := w.ledger.Every(uid); len(got) != 1 || !got[0].EndedAt.IsZero() {
		t.Errorf("attempts %+v", got)
	}
}

// TestNoAttemptIsLeftOpen however its run ends.
func TestNoAttemptIsLeftOpen(t *testing.T) {
	t.Parallel()
	atWork := func(w *world) {
		w.reconcile()
		w.turn()
		w.turn()
	}
	for name, tc := range map[string]struct {
		given func(*world)
		want  lifecycle.AttemptClass
	}{
		"its outcome was there before its container had ended": {
			given: func(w *world) {
				atWork(w)
				w.ledger.Yield(uid, 0, contract.Outcome{Yield: contract.YieldCompleted, Result: "42"})
			},
			want: lifecycle.Yielded,
		},
		"its run was cancelled and it did not stop": {
			given: func(w *world) {
				atWork(w)
				w.cancel()
				w.reconcile()
				w.now = w.now.Add(lifecycle.StopWithin)
			},
			want: lifecycle.Stopped,
		},
		"its pod never started": {
			given: func(w *world) {
				w.reconcile()
				w.now = w.now.Add(lifecycle.StartWithin)
			},
			want: lifecycle.Stopped,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(compiled(), theRun())...)
			w.fate = func(lifecycle.AttemptKey) fate { return fate{silent: true} }
			tc.given(w)
			w.reconcile()
			if got := w.ledger.Every(uid); len(got) != 1 || got[0].Class != tc.want || got[0].EndedAt.IsZero() {
				t.Errorf("attempts %+v", got)
			}
			if w.run().Status.FinishedAt.IsZero() || tc.want == lifecycle.Stopped && len(w.jobs()) != 0 {
				t.Errorf("%+v, with %d Jobs", w.run().Status, len(w.jobs()))
			}
		})
	}
}

func TestAPodThatNeverStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.reconcile()
	w.schedule(&w.jobs()[0])
	w.become(&w.pods()[0], corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}})
	p := w.pods()[0]
	p.Status.ContainerStatuses[0].Image = "segment:1"
	w.ok(w.api.Status().Update(t.Context(), &p))
	w.wait()
	w.want(v1alpha1.RunFailed, v1alpha1.ReasonPodNotStarted, "the pod of segment 0 did not start within 300 seconds: image segment:1 cannot be pulled, see the events of pod "+p.Name)
	if w.now.Sub(noon) != lifecycle.StartWithin || len(w.jobs()) != 0 {
		t.Errorf("it took %s; %d Jobs are left", w.now.Sub(noon), len(w.jobs()))
	}
}

// TestCancel is about a run that is told to stop after its Job was created.
func TestCancel(t *testing.T) {
	t.Parallel()
	silent := func(lifecycle.AttemptKey) fate { return fate{silent: true} }
	tests := map[string]struct {
		given       func(*world)
		wantMessage string
	}{
		"by spec.desiredState":        {given: (*world).cancel, wantMessage: "cancelled by spec.desiredState"},
		"by its deletion":             {given: (*world).remove, wantMessage: "cancelled by its deletion"},
		"by the end of its namespace": {given: (*world).terminate, wantMessage: "cancelled by its deletion"},
	}
	for name, tc := range tests {
		for _, state := range []string{"before its pod is made", "before its pod starts", "at work"} {
			t.Run(name+", "+state, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, append(compiled(), theRun())...)
				w.fate = silent
				w.reconcile()
				if state != "before its pod is made" {
					w.turn()
				}
				if state == "at work" {
					w.turn()
				}
				tc.given(w)
				w.settle(nil)
				last := w.statuses[len(w.statuses)-1]
				c := meta.FindStatusCondition(last.Conditions, v1alpha1.ConditionSucceeded)
				if last.Phase != v1alpha1.RunCancelled || c.Reason != v1alpha1.ReasonCancelled || c.Message != tc.wantMessage {
					t.Errorf("got %s %+v", last.Phase, c)
				}
				if !meta.IsStatusConditionTrue(last.Conditions, v1alpha1.ConditionCancelRequested) {
					t.Errorf("conditions %+v", last.Conditions)
				}
				if len(w.jobs()) != 0 || w.atWork() || len(w.created) != 1 {
					t.Errorf("%d Jobs and %d pods are left, created %v", len(w.jobs()), len(w.pods()), w.created)
				}
				if deleted := name == "by its deletion"; deleted != (w.run() == nil) {
					t.Errorf("the run: %+v", w.run())
				}
				if rec, err := w.ledger.Look(t.Context(), uid); err != nil || rec.CancelledAt.IsZero() || rec.End == nil {
					t.Errorf("the ledger: %+v, %v", rec, err)
				}
			})
		}
	}
}

// TestACancelFindsAJobThatWasNotWrittenDown: the manager was killed between the Job and its UID.
func TestACancelFindsAJobThatWasNotWrittenDown(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]bool{"ours": false, "somebody else's": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(compiled(), theRun())...)
			if foreign {
				j := job.Build(theRun(), lifecycle.AttemptKey{}, contract.Terms{}, "image", pod.BuiltIn())
				j.UID, j.OwnerReferences = "theirs", nil
				w.ok(w.api.Create(t.Context(), j))
			}
			w.hit, w.lost = 7, true // finalizer, Secret, login, admission, login, attempt, Job
			if _, err := w.Reconcile(t.Context(), w.run()); !errors.Is(err, errKilled) || len(w.jobs()) != 1 || w.ledger.Every(uid)[0].Job != "" {
				t.Fatalf("not killed between the Job and its UID: %v, %d Jobs, attempts %+v", err, len(w.jobs()), w.ledger.Every(uid))
			}
			w.cancel()
			w.settle(nil)
			w.want(v1alpha1.RunCancelled, v1alpha1.ReasonCancelled, "")
			if left := len(w.jobs()); left != map[bool]int{false: 0, true: 1}[foreign] {
				t.Errorf("%d Jobs are left", left)
			}
		})
	}
}

// TestAnEndInTheStatusClosesTheLedger whatever the ledger has seen.
func TestAnEndInTheStatusClosesTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.reconcile()
	r := w.run()
	at := metav1.NewTime(noon.Add(time.Minute))
	r.Status.Phase, r.Status.FinishedAt = v1alpha1.RunFailed, at
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPoisonSegment, Message: "as restored"})
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPoisonSegment})
	w.ok(w.api.Status().Update(t.Context(), r))
	said := len(w.said)
	w.reconcile()
	rec, err := w.ledger.Look(t.Context(), uid)
	w.ok(err)
	want := &ledger.End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonPoisonSegment, Message: "as restored", At: noon}
	if diff := cmp.Diff(want, rec.End); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(r.Status, w.run().Status); diff != "" || len(w.said) != said || len(w.jobs()) != 0 {
		t.Errorf("the status changed, or something was said, or its Job is left: %s %v %d", diff, w.said[said:], len(w.jobs()))
	}
}

// TestStatusOfAWholeRun shows every field once.
func TestStatusOfAWholeRun(t *testing.T) {
	t.Parallel()
	objects := compiled()
	w := newWorld(t, append(objects, theRun(given.Narrowed(v1alpha1.Limits{Turns: 9})))...)
	w.settle(nil)
	s := w.run().Status
	rec, err := w.ledger.Look(t.Context(), uid)
	w.ok(err)
	condition := func(kind, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: 1}
	}
	want := v1alpha1.AgentRunStatus{
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionAccepted, v1alpha1.ReasonAdmitted, ""),
			condition(v1alpha1.ConditionSucceeded, v1alpha1.ReasonCompleted, "the agent gave its answer"),
			condition(v1alpha1.ConditionFinished, v1alpha1.ReasonCompleted, ""),
		},
		ObservedGeneration: 1, Phase: v1alpha1.RunSucceeded, Revision: objects[1].GetName(), SnapshotDigest: rec.SnapshotDigest,
		Root: v1alpha1.RunReference{Name: "run", UID: uid}, Limits: v1alpha1.Limits{Segments: 20, Turns: 9, ToolCalls: 40, ActiveSeconds: 1800},
		Segment: new(int32), StartedAt: metav1.NewTime(noon), FinishedAt: metav1.NewTime(noon), ActiveSeconds: number(1),
		Usage:  v1alpha1.RunUsage{Turns: 1, InputTokens: 100, CachedInputTokens: 10, OutputTokens: 5, Cost: "0.000042"},
		Memory: v1alpha1.RunMemory{Attempt: new(int32)},
		Result: v1alpha1.RunResult{Text: "42", Completeness: v1alpha1.Whole, Bytes: 2, Digest: contract.Digest([]byte("42"))},
	}
	if diff := cmp.Diff(want, s, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	wantSaid := []string{
		"Normal Starting segment 0 waits for its pod", "Normal Running segment 0 is at work", "Normal Completed the agent gave its answer",
	}
	if diff := cmp.Diff(wantSaid, w.said); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestAnEndStandsWhateverIsChanged: a status of an old generation would keep tools waiting that compare the two.
func TestAnEndStandsWhateverIsChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.settle(nil)
	r := w.run()
	ended := r.Status
	r.Spec.TTLSecondsAfterFinished, r.Generation = 3600, 2
	w.ok(w.api.Update(t.Context(), r))
	w.reconcile()
	s := w.run().Status
	for i, c := range s.Conditions {
		if c.ObservedGeneration != 2 {
			t.Errorf("%s speaks of generation %d", c.Type, c.ObservedGeneration)
		}
		s.Conditions[i].ObservedGeneration = 1
	}
	if s.ObservedGeneration != 2 {
		t.Errorf("the status speaks of generation %d", s.ObservedGeneration)
	}
	s.ObservedGeneration = 1
	if diff := cmp.Diff(ended, s); diff != "" {
		t.Errorf("the end has changed (-was +is):\n%s", diff)
	}
}

// TestTheStatusStaysUnder8KiB whatever a segment says, in the form in which the API server stores it.
func TestTheStatusStaysUnder8KiB(t *testing.T) {
	t.Parallel()
	const most = 8 << 10
	long := strings.Repeat("n", 253)
	shapes := map[string]contract.Outcome{
		"a partial result": {Yield: contract.YieldCeiling, Code: v1alpha1.ReasonLimitReached},
		"a result":         {Yield: contract.YieldCompleted},
		"a failure":        {Yield: contract.YieldFailed, Code: strings.Repeat("C", 64)},
	}
	for shape, out := range shapes {
		for _, letter := range []string{"x", "<", "\"", "\\", "\n", "\x01", "\x00", "\xff", "é", "\u2028", "𝄞", "&é"} {
			t.Run(fmt.Sprintf("%s of %q", shape, letter), func(t *testing.T) {
				t.Parallel()
				objects := compiled(func(d *v1alpha1.AgentDefinition) { d.Name = long })
				def := objects[0].(*v1alpha1.AgentDefinition)
				def.Status.Conditions[0].Status, def.Status.Conditions[0].Message = metav1.ConditionFalse, strings.Repeat(letter, 32768)
				w := newWorld(t, append(objects, theRun(func(r *v1alpha1.AgentRun) {
					r.Name, r.Spec.DefinitionRef.Name, r.Generation = long, long, 1<<62
				}))...)
				out := out // each letter has its own
				w.fate = func(lifecycle.AttemptKey) fate {
					if w.ledger.Every(uid)[0].EndedAt.IsZero() { // a crash first, with a story of its own
						return fate{exit: contract.ExitFault, message: asJSON(t, contract.Fault{Code: contract.FaultDeferred, Message: strings.Repeat(letter, 4096)})}
					}
					out.Message, out.Result = strings.Repeat(letter, 4096), strings.Repeat(letter, 4*contract.MaxInlineResult)
					return fate{outcome: &out}
				}
				w.settle(nil)
				for _, s := range w.statuses {
					if size := len(asJSON(t, s)); size > most {
						t.Errorf("%s: %d bytes", s.Phase, size)
					}
				}
				s := w.run().Status
				if !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionFinished) {
					t.Fatalf("it has not ended: %+v", s)
				}
				text := s.Result.Text
				if shape == "a failure" {
					if text != "" || s.Error.Message == "" || len(s.Error.Message) > contract.MaxMessage {
						t.Errorf("result %q, error %+v", text, s.Error)
					}
					return
				}
				if !utf8.ValidString(text) || !strings.HasPrefix(contract.Clean(out.Result), text) || len(text) > contract.MaxInlineResult || s.Result.Completeness != v1alpha1.Truncated {
					t.Errorf("%d bytes, %s: %.40q", len(text), s.Result.Completeness, text)
				}
				// What is stored is used: at least half of it, and all of a text without escapes.
				if size := len(asJSON(t, s)); size < most/2 && letter != "\xff" || letter == "x" && len(text) != contract.MaxInlineResult {
					t.Errorf("the status has %d bytes, the text %d", size, len(text))
				}
			})
		}
	}
}

// TestAResultOfEscapesIsShownWholeWhileThereIsRoom: source code has many letters that JSON escapes.
func TestAResultOfEscapesIsShownWholeWhileThereIsRoom(t *testing.T) {
	t.Parallel()
	code := strings.Repeat("if a < b && c != \"d\" {\n", 170)
	w := newWorld(t, append(compiled(), theRun())...)
	w.fate = func(lifecycle.AttemptKey) fate { return completed(code) }
	w.settle(nil)
	if got := w.run().Status.Result; got.Text != code || got.Completeness != v1alpha1.Whole {
		t.Errorf("%d of %d bytes, %s", len(got.Text), len(code), got.Completeness)
	}
}

func TestRemovedRunsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	run := w.run()
	w.reconcile()
	w.turn()
	w.turn()
	w.turn()
	stale := w.run()
	stale.Finalizers = nil
	w.ok(w.api.Update(t.Context(), stale))
	w.remove()
	// The cache still has it. The ledger is closed all the same, and nothing is started.
	if _, err := w.Reconcile(t.Context(), run); err != nil {
		t.Error(err)
	}
	if rec, err := w.ledger.Look(t.Context(), uid); err != nil || rec.End == nil || len(w.created) != 1 {
		t.Errorf("the ledger: %+v, %v; Jobs %v", rec, err, w.created)
	}
}

func TestErrorsAreToldWithWhatWasBeingDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.ok(w.api.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	_, err := w.Reconcile(t.Context(), w.run())
	if !apierrors.IsNotFound(err) || !strings.HasPrefix(err.Error(), "observing: namespace team: ") {
		t.Errorf("got error %v", err)
	}
}

func TestDecisionsThatUndoEachOtherAreABug(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.Ledger = forgetful{struck{w.ledger, w}}
	if _, err := w.Reconcile(t.Context(), w.run()); err == nil || !strings.Contains(err.Error(), "no decision held after 10 rounds") {
		t.Errorf("got error %v", err)
	}
}

// forgetful is a ledger that admits everything and knows nothing.
type forgetful struct{ struck }

func (forgetful) Admit(context.Context, ledger.Admission) error { return nil }

func TestWhoIsWoken(t *testing.T) {
	t.Parallel()
	pod := func(a map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: a}}
	}
	if got := runOfPod(t.Context(), pod(nil)); got != nil {
		t.Errorf("a stranger's pod wakes %v", got)
	}
	want := []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "r"}}}
	if diff := cmp.Diff(want, runOfPod(t.Context(), pod(map[string]string{job.AnnotationRun: "r"}))); diff != "" {
		t.Errorf("a pod wakes (-want +got):\n%s", diff)
	}
	alive, dying := theRun(), theRun(func(r *v1alpha1.AgentRun) { r.DeletionTimestamp = &metav1.Time{Time: noon} })
	for _, tc := range []struct {
		old, new *v1alpha1.AgentRun
		want     bool
	}{{alive, dying, true}, {alive, alive, false}, {dying, dying, false}} {
		if got := (deletion{}).Update(event.UpdateEvent{ObjectOld: tc.old, ObjectNew: tc.new}); got != tc.want {
			t.Errorf("deletion: got %v, want %v", got, tc.want)
		}
	}
	over := theRun(func(r *v1alpha1.AgentRun) {
		r.Status.Phase, r.Status.FinishedAt = v1alpha1.RunFailed, metav1.NewTime(noon)
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue}}
	})
	for _, tc := range []struct {
		old, new *v1alpha1.AgentRun
		want     bool
	}{{over, alive, true}, {alive, over, false}, {over, over, false}, {alive, alive, false}} {
		if got := (reopening{}).Update(event.UpdateEvent{ObjectOld: tc.old, ObjectNew: tc.new}); got != tc.want {
			t.Errorf("reopening: got %v, want %v", got, tc.want)
		}
	}
}

func TestWhoWaitsForADefinition(t *testing.T) {
	t.Parallel()
	objects := append(compiled(), theRun(), given.Run("elsewhere", "other"))
	r := Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.AgentRun{}, byQueuedDefinition, func(o client.Object) []string {
			return []string{o.(*v1alpha1.AgentRun).Spec.DefinitionRef.Name}
		}).Build()}
	want := []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "run"}}}
	for _, o := range objects[:2] { // the definition and its revision
		if diff := cmp.Diff(want, r.queued(t.Context(), o)); diff != "" {
			t.Errorf("%T wakes (-want +got):\n%s", o, diff)
		}
	}
}

// TestWhatOfAnEndpointMayChange under a revision that was compiled before.
func TestWhatOfAnEndpointMayChange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given func(*v1alpha1.ModelEndpointSpec)
		want  string
	}{
		"nothing":                {given: func(*v1alpha1.ModelEndpointSpec) {}},
		"the order of ranges":    {given: func(s *v1alpha1.ModelEndpointSpec) { s.Egress.Allow = []string{"10.0.0.0/8", "127.0.0.0/8"} }},
		"what it costs and does": {given: func(s *v1alpha1.ModelEndpointSpec) { s.Pricing, s.ContextWindowTokens = v1alpha1.Pricing{}, 5 }},
		"where it is":            {given: func(s *v1alpha1.ModelEndpointSpec) { s.URL += "/" }, want: "spec.url"},
		"the header of its key":  {given: func(s *v1alpha1.ModelEndpointSpec) { s.Credentials.Header = "X-Key" }, want: "spec.credentials"},
		"whom it trusts":         {given: func(s *v1alpha1.ModelEndpointSpec) { s.TLS.CABundle.ConfigMap.Name = "ca" }, want: "spec.tls"},
		"the proxy before it":    {given: func(s *v1alpha1.ModelEndpointSpec) { s.Proxy.URL = "http://proxy:3128" }, want: "spec.proxy"},
		"one range of two":       {given: func(s *v1alpha1.ModelEndpointSpec) { s.Egress.Allow = s.Egress.Allow[:1] }, want: "spec.egress"},
	} {
		before := given.Endpoint(namespace, "http://127.0.0.1/v1").Spec
		before.Egress.Allow = []string{"127.0.0.0/8", "10.0.0.0/8"}
		now := *before.DeepCopy()
		tc.given(&now)
		if got := changed(reach{before.URL, before.Credentials, before.TLS, before.Proxy, before.Egress}, reach{now.URL, now.Credentials, now.TLS, now.Proxy, now.Egress}); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestWake(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at   time.Time
		want time.Duration
	}{
		"never":         {},
		"later":         {at: noon.Add(time.Minute), want: time.Minute},
		"at once":       {at: noon, want: 50 * time.Millisecond},
		"in the past":   {at: noon.Add(-time.Hour), want: 50 * time.Millisecond},
		"a blink later": {at: noon.Add(time.Nanosecond), want: 50 * time.Millisecond},
	} {
		if got := requeue.At(noon, tc.at).RequeueAfter; got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tasks"}, Data: data}
}

// terminate lets the namespace go, as far as it does while something is left in it.
func (w *world) terminate() {
	w.Helper()
	var ns corev1.Namespace
	w.ok(w.api.Get(w.Context(), client.ObjectKey{Name: namespace}, &ns))
	if !slices.Contains(ns.Finalizers, "test/left") {
		ns.Finalizers = append(ns.Finalizers, "test/left")
		w.ok(w.api.Update(w.Context(), &ns))
	}
	w.ok(w.api.Delete(w.Context(), &ns))
}

// age lets the run have waited in the queue for so long already.
func (w *world) age(d time.Duration) {
	w.Helper()
	r := w.run()
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Add(-d))
	}
	w.ok(w.api.Status().Update(w.Context(), r))
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// jobOf is the Job of the run's first attempt.
func jobOf(run *v1alpha1.AgentRun) *batchv1.Job {
	return job.Build(run, lifecycle.AttemptKey{}, contract.Terms{}, "ekiden/segment:test", pod.BuiltIn())
}
