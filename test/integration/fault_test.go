package integration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

func status(code int, headers ...string) modelserver.Step {
	s := modelserver.Step{Status: code, Body: `{"error":{"message":"no","type":"test"}}`, Headers: map[string]string{"Content-Type": "application/json"}}
	for i := 0; i+1 < len(headers); i += 2 {
		s.Headers[headers[i]] = headers[i+1]
	}
	return s
}

// TestModelFaults shows for each way in which a model can fail how the run ends, and how many requests that costs.
func TestModelFaults(t *testing.T) {
	t.Parallel()
	soon := func(d *v1alpha1.AgentDefinition) { d.Spec.Retry.CapSeconds, d.Spec.Retry.MaxAttempts = 1, 3 }
	tests := map[string]struct {
		steps    []modelserver.Step
		phase    v1alpha1.RunPhase
		reason   string
		requests int
	}{
		"a bad key makes one request":                        {[]modelserver.Step{status(401)}, v1alpha1.RunFailed, v1alpha1.ReasonCredentialsRefused, 1},
		"a refused request is not repeated":                  {[]modelserver.Step{status(400)}, v1alpha1.RunFailed, v1alpha1.ReasonRequestRefused, 1},
		"a rate limit is waited for":                         {[]modelserver.Step{status(429, "Retry-After", "1"), answer("x")}, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, 2},
		"a rate limit of an hour is an exhausted quota":      {[]modelserver.Step{status(429, "Retry-After", "3600")}, v1alpha1.RunFailed, v1alpha1.ReasonQuotaExhausted, 1},
		"a server that recovers":                             {[]modelserver.Step{status(500), status(503), answer("x")}, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, 3},
		"a server that does not recover":                     {[]modelserver.Step{status(500)}, v1alpha1.RunFailed, v1alpha1.ReasonModelUnavailable, 3},
		"a stream that is cut is no answer":                  {[]modelserver.Step{{Text: "half an ans", Chunks: 4, Break: &modelserver.Break{After: 2, Cut: true}}, answer("whole")}, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, 2},
		"a model that says nothing":                          {[]modelserver.Step{{Text: ""}}, v1alpha1.RunFailed, v1alpha1.ReasonEmptyAnswer, 1},
		"a model that calls a tool nobody offered":           {[]modelserver.Step{{Calls: &modelserver.Calls{List: []modelserver.Call{{ID: "c1", Name: "rm", Arguments: "{}"}}}}}, v1alpha1.RunFailed, v1alpha1.ReasonUnknownTool, 1},
		"a model that declines":                              {[]modelserver.Step{{Text: "no", Finish: "content_filter"}}, v1alpha1.RunFailed, v1alpha1.ReasonModelRefused, 1},
		"a pause beyond the segment is left to the next pod": {[]modelserver.Step{status(429, "Retry-After", "2"), answer("x")}, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := []func(*v1alpha1.AgentDefinition){soon}
			if strings.Contains(name, "next pod") {
				change = append(change, given.Slices())
			}
			s := tell(t, tc.steps...).setUp(change...)
			s.start("faulty")
			s.want(s.finished("faulty"), tc.phase, tc.reason)
			s.wantRequests(tc.requests)
		})
	}
}

func TestAModelThatNeverAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	s := tell(t, modelserver.Step{Silent: true})
	s.create(s.key(), given.Definition(s.namespace, given.Tries(2)), given.Endpoint(s.namespace, s.model.URL, func(e *v1alpha1.ModelEndpoint) {
		e.Spec.Timeouts.FirstTokenSeconds = 1
	}))
	s.start("silent")
	r := s.finished("silent")
	s.want(r, v1alpha1.RunFailed, v1alpha1.ReasonModelUnavailable)
	s.wantRequests(2)
	if !strings.Contains(r.Status.Error.Message, "FirstTokenTimeout") {
		t.Errorf("the message does not say what was seen: %s", r.Status.Error.Message)
	}
}

func TestAPrivateAddressIsNotDialled(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("x"))
	s.create(s.key(), given.Definition(s.namespace), given.Endpoint(s.namespace, s.model.URL, func(e *v1alpha1.ModelEndpoint) {
		e.Spec.Egress = v1alpha1.Egress{}
	}))
	s.start("inside")
	r := s.finished("inside")
	s.want(r, v1alpha1.RunFailed, v1alpha1.ReasonEgressRefused)
	s.wantRequests(0)
	if !strings.Contains(r.Status.Error.Message, "egress.allow") {
		t.Errorf("the message does not name the cure: %s", r.Status.Error.Message)
	}
}

func TestAMissingSecretIsNamed(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("x"))
	s.create(given.Endpoint(s.namespace, s.model.URL), given.Definition(s.namespace, given.Tries(2)))
	s.start("keyless")
	r := s.finished("keyless")
	s.want(r, v1alpha1.RunFailed, v1alpha1.ReasonSecretMissing)
	s.wantRequests(0)
	if !strings.Contains(r.Status.Error.Message, `Secret "llm" has no key "apiKey"`) {
		t.Errorf("the message does not name the Secret: %s", r.Status.Error.Message)
	}
	out, err := shared.Kubectl(t.Context(), "-n", s.namespace, "describe", "arun", "keyless")
	if err != nil || !strings.Contains(out, "SecretMissing") {
		t.Errorf("describe does not say why the run failed: %v\n%s", err, out)
	}
}

func TestABadEditLeavesTheLastGoodRevision(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("x")).setUp()
	var def v1alpha1.AgentDefinition
	ready := func(reason string) func() bool {
		return func() bool {
			if api.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: given.Agent}, &def) != nil {
				return false
			}
			c := meta.FindStatusCondition(def.Status.Conditions, v1alpha1.ConditionReady)
			return c != nil && c.Reason == reason && c.ObservedGeneration == def.Generation
		}
	}
	s.eventually("the definition compiles", ready(v1alpha1.ReasonCompiled))
	good := def.Status.CurrentRevision
	def.Spec.ModelRef.Name = "nowhere"
	if err := api.Update(t.Context(), &def); err != nil {
		t.Fatal(err)
	}
	s.eventually("the edit is refused by name", ready(v1alpha1.ReasonModelEndpointNotFound))
	if def.Status.CurrentRevision != good {
		t.Errorf("revision %q is current, not %q", def.Status.CurrentRevision, good)
	}
	s.start("still")
	r := s.finished("still")
	s.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionAccepted); !strings.Contains(c.Message, "does not compile") {
		t.Errorf("Accepted does not say that an older revision was used: %+v", c)
	}
}

func TestACancelInTheQueueStartsNothing(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("x"))
	s.start("queued")
	s.until("queued", "is queued", func(r *v1alpha1.AgentRun) bool { return r.Status.Phase == v1alpha1.RunQueued })
	s.cancel("queued")
	s.want(s.finished("queued"), v1alpha1.RunCancelled, v1alpha1.ReasonCancelled)
	if n := len(s.jobs()); n != 0 {
		t.Errorf("%d Jobs", n)
	}
}

func TestACancelStopsARunningModelCall(t *testing.T) {
	t.Parallel()
	s := tell(t, modelserver.Step{Silent: true}).setUp()
	s.start("running")
	s.requests(1)
	s.cancel("running")
	s.cancel("running") // twice is once
	r := s.finished("running")
	s.want(r, v1alpha1.RunCancelled, v1alpha1.ReasonCancelled)
	s.wantRequests(1)
	if !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionCancelRequested) {
		t.Errorf("the cancel was never acknowledged: %+v", r.Status.Conditions)
	}
	s.eventually("no pod is left", func() bool { return len(s.pods()) == 0 && len(s.jobs()) == 0 })
}

func TestACancelBetweenSegmentsAsksTheModelNothingMore(t *testing.T) {
	t.Parallel()
	s := tell(t, slow(part("x")), gated("never", part("y"))).setUp(given.Slices())
	s.start("between")
	s.until("between", "is in its second segment", func(r *v1alpha1.AgentRun) bool { return r.Status.Segment != nil && *r.Status.Segment == 1 })
	s.cancel("between")
	s.want(s.finished("between"), v1alpha1.RunCancelled, v1alpha1.ReasonCancelled)
	if got := s.model.Report().Total; got > 2 {
		t.Errorf("%d requests", got)
	}
}

func TestADeletedRunTakesEverythingWithIt(t *testing.T) {
	t.Parallel()
	s := tell(t, modelserver.Step{Silent: true}).setUp()
	r := s.start("gone")
	s.requests(1)
	if err := api.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.eventually("run, Job and pod are gone", func() bool {
		err := api.Get(t.Context(), client.ObjectKeyFromObject(r), &v1alpha1.AgentRun{})
		return err != nil && client.IgnoreNotFound(err) == nil && len(s.jobs()) == 0 && len(s.pods()) == 0
	})
	s.eventually("no process is left", func() bool { return len(processes(t, "segment", "--run="+string(r.UID))) == 0 })
	s.start("gone", given.Task("again")) // the name is free, and inherits nothing
	s.eventually("the new run works", func() bool { return s.model.Report().ByKey["again"] == 1 })
}

func (s *story) cancel(name string) {
	s.Helper()
	r := given.Run(name, s.namespace)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"desiredState":"Cancelled"}}`))
	if err := api.Patch(s.Context(), r, patch); err != nil {
		s.Fatal(err)
	}
}
