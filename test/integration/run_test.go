package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

func answer(text string) modelserver.Step {
	return modelserver.Step{Text: text, Chunks: 3, Usage: &modelserver.Usage{Prompt: 100, Completion: 20, Cached: 40}}
}

// part is an answer that is cut at its length limit and so continued in the next turn.
func part(text string) modelserver.Step {
	s := answer(text)
	s.Finish = "length"
	return s
}

// slow is a step that outlasts a segment of given.Slices: the segment ends after it.
func slow(s modelserver.Step) modelserver.Step {
	s.Delay = modelserver.Duration(1200 * time.Millisecond)
	return s
}

func gated(name string, s modelserver.Step) modelserver.Step {
	s.Gate = name
	return s
}

func statusBytes(t *testing.T, r *v1alpha1.AgentRun) int {
	t.Helper()
	b, err := json.Marshal(r.Status)
	if err != nil {
		t.Fatal(err)
	}
	return len(b)
}

func TestATaskGetsItsAnswer(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("Ticket 4711 is about billing.")).setUp()
	s.start("triage-4711")
	r := s.finished("triage-4711")
	s.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.wantRequests(1)
	st := r.Status
	if st.Result.Text != "Ticket 4711 is about billing." || st.Result.Completeness != v1alpha1.Whole || st.Result.PartialReason != "" {
		t.Errorf("result %+v", st.Result)
	}
	// 60 input tokens, 40 from the cache at the price of input, 20 output tokens.
	want := v1alpha1.RunUsage{Turns: 1, InputTokens: 100, CachedInputTokens: 40, OutputTokens: 20, Cost: "0.00014"}
	if diff := cmp.Diff(want, st.Usage); diff != "" {
		t.Error(diff)
	}
	if st.Root.UID != r.UID || st.Revision == "" || st.SnapshotDigest == "" || st.Segment == nil || *st.Segment != 0 {
		t.Errorf("status %+v", st)
	}
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionAccepted); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition Accepted %+v", c)
	}
	if r.Spec.Principal.User != "admin" {
		t.Errorf("principal %+v: not stamped with who created the run", r.Spec.Principal)
	}
	s.told(r.Name, v1alpha1.ReasonCompleted)
}

func TestThreeSegmentsMakeOneAnswer(t *testing.T) {
	t.Parallel()
	s := tell(t, slow(part("one ")), slow(part("two ")), answer("three")).setUp(given.Slices())
	s.start("long")
	r := s.finished("long")
	s.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.wantRequests(3)
	if r.Status.Result.Text != "one two three" || *r.Status.Segment != 2 || r.Status.Usage.Turns != 3 {
		t.Errorf("status %+v", r.Status)
	}
	if n := len(s.jobs()); n != 3 {
		t.Errorf("%d Jobs, want one a segment", n)
	}
}

func TestSixtyTurnsKeepTheStatusSmall(t *testing.T) {
	t.Parallel()
	s := tell(t, part(strings.Repeat("word ", 200))).setUp(given.Limited(v1alpha1.Limits{Turns: 60}))
	s.start("sixty")
	r := s.finished("sixty") // checks the 8 KiB
	s.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonLimitReached)
	s.wantRequests(60)
	res := r.Status.Result
	if res.PartialReason != v1alpha1.ReasonLimitReached || res.Completeness != v1alpha1.Truncated || res.Bytes != 60*1000 || len(res.Text) != 4096 {
		t.Errorf("partial %s, %s, %d bytes, %d shown", res.PartialReason, res.Completeness, res.Bytes, len(res.Text))
	}
	t.Logf("status of a run of 60 turns: %d bytes", statusBytes(t, r))
}

func TestLimitsNarrowOnTheirWayDown(t *testing.T) {
	t.Parallel()
	s := tell(t, part("x"))
	s.create(&v1alpha1.AgentPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultPolicyName, Namespace: s.namespace},
		Spec:       v1alpha1.AgentPolicySpec{Limits: v1alpha1.Limits{Turns: 5, Segments: 7}},
	})
	s.setUp(given.Limited(v1alpha1.Limits{Turns: 50, Segments: 3}))
	s.start("narrow", given.Narrowed(v1alpha1.Limits{Turns: 2, Segments: 900}))
	s.start("clipped")
	want := v1alpha1.Limits{Turns: 2, Segments: 3, ToolCalls: 40, ActiveSeconds: 1800}
	if diff := cmp.Diff(want, s.finished("narrow").Status.Limits); diff != "" {
		t.Error(diff)
	}
	want.Turns = 5
	if diff := cmp.Diff(want, s.finished("clipped").Status.Limits); diff != "" {
		t.Error(diff)
	}
	s.wantRequests(2 + 5)
}

func TestACheckpointOnTheLastSegmentIsACeiling(t *testing.T) {
	t.Parallel()
	s := tell(t, slow(part("x"))).setUp(given.Slices(), given.Limited(v1alpha1.Limits{Segments: 2}))
	s.start("ceiling")
	r := s.finished("ceiling")
	s.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonLimitReached)
	s.wantRequests(2)
	if !strings.Contains(meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionSucceeded).Message, "limits.segments: 2 of 2 used") {
		t.Errorf("%+v", r.Status.Conditions)
	}
}

func TestAnEditReachesTheNextRunAndNoOther(t *testing.T) {
	t.Parallel()
	s := tell(t, gated("go", part("x")), answer("y")).setUp()
	s.start("before")
	s.requests(1)
	var def v1alpha1.AgentDefinition
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: given.Agent}, &def); err != nil {
		t.Fatal(err)
	}
	first := def.Status.CurrentRevision
	def.Spec.Instructions = "You do something else."
	if err := api.Update(t.Context(), &def); err != nil {
		t.Fatal(err)
	}
	s.eventually("the edit is compiled", func() bool {
		return api.Get(t.Context(), client.ObjectKeyFromObject(&def), &def) == nil && def.Status.CurrentRevision != first
	})
	s.model.Open("go")
	s.want(s.finished("before"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	for _, body := range s.model.Bodies() {
		if strings.Contains(string(body), "something else") {
			t.Error("an edit reached a run in flight")
		}
	}
	pinned := s.start("pinned", given.Task("pinned"), func(r *v1alpha1.AgentRun) { r.Spec.DefinitionRef.Revision = first })
	s.start("after", given.Task("after"))
	if got := s.finished("after").Status.Revision; got != def.Status.CurrentRevision {
		t.Errorf("a new run took revision %s, not %s", got, def.Status.CurrentRevision)
	}
	if got := s.finished(pinned.Name).Status.Revision; got != first {
		t.Errorf("a pinned run took revision %s, not %s", got, first)
	}
}

func TestTheSameKeyMakesOneRun(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("once")).setUp()
	first := s.start("first", given.Key("order-17"))
	s.want(s.finished("first"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.start("second", given.Key("order-17"))
	r := s.finished("second")
	s.want(r, v1alpha1.RunFailed, v1alpha1.ReasonDuplicate)
	s.wantRequests(1)
	if r.Status.DuplicateOf != (v1alpha1.RunReference{Name: "first", UID: first.UID}) {
		t.Errorf("duplicate of %+v", r.Status.DuplicateOf)
	}
}

func TestAnythingMayBeAppliedInAnyOrder(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("patience"))
	s.start("early")
	r := s.until("early", "is queued", func(r *v1alpha1.AgentRun) bool { return r.Status.Phase == v1alpha1.RunQueued })
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionSucceeded); !strings.Contains(c.Message, `there is no AgentDefinition "triage"`) {
		t.Errorf("the status does not say what is missing: %s", c.Message)
	}
	s.create(given.Definition(s.namespace))
	s.until("early", "says that the definition does not compile", func(r *v1alpha1.AgentRun) bool {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionSucceeded)
		return strings.Contains(c.Message, "ModelEndpointNotFound")
	})
	s.create(given.Endpoint(s.namespace, s.model.URL))
	s.until("early", "is admitted", func(r *v1alpha1.AgentRun) bool { return r.Status.Phase == v1alpha1.RunRunning })
	s.create(s.key())
	s.want(s.finished("early"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	s.wantRequests(1)
}

func TestInputs(t *testing.T) {
	t.Parallel()
	s := tell(t, modelserver.Step{Text: "{{task}}"}).setUp()
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "tasks", Namespace: s.namespace}, Data: map[string]string{"long": strings.Repeat("x", 100_000)}})
	s.start("json", func(r *v1alpha1.AgentRun) {
		r.Spec.Input = v1alpha1.RunInput{JSON: jsonOf(`{"b": 2, "a": [1, "x"]}`)}
	})
	s.start("from", func(r *v1alpha1.AgentRun) {
		r.Spec.Input = v1alpha1.RunInput{From: &v1alpha1.RunInputSource{ConfigMap: v1alpha1.KeyReference{Name: "tasks", Key: "long"}}}
	})
	s.start("large", func(r *v1alpha1.AgentRun) {
		r.Spec.Input = v1alpha1.RunInput{JSON: jsonOf(fmt.Sprintf(`{"a": %q}`, strings.Repeat("x", 40_000)))}
	})
	if got := s.finished("json").Status.Result.Text; got != `{"a":[1,"x"],"b":2}` {
		t.Errorf("the model was told %s", got)
	}
	if got := s.finished("from").Status.Result.Bytes; got != 100_000 {
		t.Errorf("the model was told %d bytes", got)
	}
	r := s.finished("large")
	s.want(r, v1alpha1.RunFailed, v1alpha1.ReasonInputInvalid)
	if !strings.Contains(r.Status.Error.Message, "spec.input.json has 40008 bytes, 32768 are allowed") {
		t.Errorf("%s", r.Status.Error.Message)
	}
}

func TestARunIsRemovedWhenItsTimeToLiveIsOver(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("x")).setUp()
	s.start("short", func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = 1 })
	s.eventually("the run is gone, and its Jobs with it", func() bool {
		var r v1alpha1.AgentRun
		err := api.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "short"}, &r)
		return client.IgnoreNotFound(err) == nil && err != nil && len(s.jobs()) == 0
	})
	s.wantRequests(1)
}
