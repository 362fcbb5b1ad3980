package compile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
)

const url = "https://llm.example/v1"

func theDefinition(change ...func(*v1alpha1.AgentDefinition)) *v1alpha1.AgentDefinition {
	return given.Definition("team", append([]func(*v1alpha1.AgentDefinition){func(d *v1alpha1.AgentDefinition) {
		d.UID, d.Generation = "definition", 3
	}}, change...)...)
}

// TestAgent compares what is compiled. Name and digest have tests of their own.
func TestAgent(t *testing.T) {
	t.Parallel()
	endpoint := func(change ...func(*v1alpha1.ModelEndpoint)) *v1alpha1.ModelEndpoint {
		return given.Endpoint("team", url, change...)
	}
	defaults := v1alpha1.CompiledAgent{
		Model:         v1alpha1.CompiledModel{Name: given.Model, Endpoint: endpoint().Spec},
		Instructions:  "You sort support tickets.",
		OnToolFailure: v1alpha1.ToolFailureTellModel,
		Limits:        v1alpha1.Limits{Segments: 20, Turns: 40, ToolCalls: 40, ActiveSeconds: 1800},
		Segment:       v1alpha1.SegmentTimers{SoftSeconds: 90, HardSeconds: 120},
		Retry:         v1alpha1.Retry{MaxAttempts: 5, BaseSeconds: 1, CapSeconds: 60, MaxRetryAfterSeconds: 60},
	}
	defaults.Model.Endpoint.Timeouts = v1alpha1.ModelTimeouts{FirstTokenSeconds: 120, IdleSeconds: 60, TotalSeconds: 600}
	problem := func(reason, message string) *Problem { return &Problem{reason, message} }

	tests := map[string]struct {
		def      *v1alpha1.AgentDefinition
		endpoint *v1alpha1.ModelEndpoint
		want     func(*v1alpha1.CompiledAgent)
		problem  *Problem
	}{
		"what is not said is filled in": {def: theDefinition(), endpoint: endpoint(), want: func(*v1alpha1.CompiledAgent) {}},
		"what is said stays": {
			def: theDefinition(func(d *v1alpha1.AgentDefinition) {
				d.Spec.Description = "is not compiled"
				d.Spec.RevisionHistoryLimit = 3
				d.Spec.Sampling.MaxOutputTokens = 9
				d.Spec.OnToolFailure, d.Spec.OnIndeterminate = v1alpha1.ToolFailureFailRun, v1alpha1.IndeterminateAsk
				d.Spec.Limits = v1alpha1.Limits{Segments: 1, Turns: 2, ToolCalls: 4, ActiveSeconds: 3}
				d.Spec.Segment = v1alpha1.SegmentTimers{SoftSeconds: 4, HardSeconds: 5}
				d.Spec.Retry = v1alpha1.Retry{MaxAttempts: 6, BaseSeconds: 7, CapSeconds: 8, MaxRetryAfterSeconds: 9}
			}),
			endpoint: endpoint(func(e *v1alpha1.ModelEndpoint) {
				e.Spec.Timeouts = v1alpha1.ModelTimeouts{FirstTokenSeconds: 1, IdleSeconds: 2, TotalSeconds: 3}
			}),
			want: func(a *v1alpha1.CompiledAgent) {
				a.Sampling.MaxOutputTokens = 9
				a.OnToolFailure, a.OnIndeterminate = v1alpha1.ToolFailureFailRun, v1alpha1.IndeterminateAsk
				a.Limits = v1alpha1.Limits{Segments: 1, Turns: 2, ToolCalls: 4, ActiveSeconds: 3}
				a.Segment = v1alpha1.SegmentTimers{SoftSeconds: 4, HardSeconds: 5}
				a.Retry = v1alpha1.Retry{MaxAttempts: 6, BaseSeconds: 7, CapSeconds: 8, MaxRetryAfterSeconds: 9}
				a.Model.Endpoint.Timeouts = v1alpha1.ModelTimeouts{FirstTokenSeconds: 1, IdleSeconds: 2, TotalSeconds: 3}
			},
		},
		"each field has its own default": {
			def: theDefinition(given.Limited(v1alpha1.Limits{Turns: 7}), given.Tries(2)), endpoint: endpoint(),
			want: func(a *v1alpha1.CompiledAgent) { a.Limits.Turns, a.Retry.MaxAttempts = 7, 2 },
		},
		"an unknown price is none": {
			def: theDefinition(), endpoint: endpoint(func(e *v1alpha1.ModelEndpoint) { e.Spec.Pricing = v1alpha1.Pricing{} }),
			want: func(a *v1alpha1.CompiledAgent) { a.Model.Endpoint.Pricing = v1alpha1.Pricing{} },
		},
		"there is no endpoint": {
			def:     theDefinition(),
			problem: problem(v1alpha1.ReasonModelEndpointNotFound, `spec.modelRef.name: there is no ModelEndpoint "gpt-main" in this namespace`),
		},
		"a price is no number": {
			def: theDefinition(), endpoint: endpoint(func(e *v1alpha1.ModelEndpoint) { e.Spec.Pricing.OutputPerMTok = "free" }),
			problem: problem(v1alpha1.ReasonInvalid, `ModelEndpoint "gpt-main": spec.pricing: pricing.outputPerMTok: not a price: "free"`),
		},
		"an address range is none": {
			def: theDefinition(), endpoint: endpoint(func(e *v1alpha1.ModelEndpoint) { e.Spec.Egress.Allow = []string{"10.0.0.0/8", "10.0.0.1"} }),
			problem: problem(v1alpha1.ReasonInvalid, `ModelEndpoint "gpt-main": spec.egress.allow: netip.ParsePrefix("10.0.0.1"): no '/'`),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := tc.def.DeepCopy()
			got, problem := Agent(tc.def, tc.endpoint, nil)
			if diff := cmp.Diff(tc.problem, problem); diff != "" {
				t.Fatalf("problem (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(given, tc.def); diff != "" {
				t.Errorf("the definition was changed:\n%s", diff)
			}
			if tc.problem != nil {
				return
			}
			agent, yes := *defaults.DeepCopy(), true
			tc.want(&agent)
			want := &v1alpha1.DefinitionRevision{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "team", Name: Name(given.Name, got.Spec.Digest),
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "ekiden.dev/v1alpha1", Kind: "AgentDefinition", Name: "triage", UID: "definition", Controller: &yes, BlockOwnerDeletion: &yes}},
				},
				Spec: v1alpha1.DefinitionRevisionSpec{
					DefinitionRef: v1alpha1.DefinitionReference{Kind: v1alpha1.AgentDefinitionKind, Name: "triage"}, Generation: 3, Digest: got.Spec.Digest, Agent: agent,
				},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Agent() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDigest: it is of the compiled content, so it changes with that and with nothing else, and not from one version of
// the manager to the next without a reason.
func TestDigest(t *testing.T) {
	t.Parallel()
	digest := func(d *v1alpha1.AgentDefinition, change ...func(*v1alpha1.ModelEndpoint)) string {
		r, p := Agent(d, given.Endpoint("team", url, change...), nil)
		if p != nil {
			t.Fatal(p)
		}
		return r.Spec.Digest
	}
	plain := digest(theDefinition())
	for name, same := range map[string]string{
		"as it is":                digest(theDefinition()),
		"another description":     digest(theDefinition(func(d *v1alpha1.AgentDefinition) { d.Spec.Description = "x" })),
		"another history":         digest(theDefinition(func(d *v1alpha1.AgentDefinition) { d.Spec.RevisionHistoryLimit = 1 })),
		"another generation":      digest(theDefinition(func(d *v1alpha1.AgentDefinition) { d.Generation = 9 })),
		"another name":            digest(theDefinition(func(d *v1alpha1.AgentDefinition) { d.Name = "other" })),
		"a default that is said":  digest(theDefinition(given.Limited(v1alpha1.Limits{Turns: Turns}))),
		"a label on the endpoint": digest(theDefinition(), func(e *v1alpha1.ModelEndpoint) { e.Labels = map[string]string{"a": "b"} }),
	} {
		if same != plain {
			t.Errorf("%s: another digest", name)
		}
	}
	for name, other := range map[string]string{
		"other instructions": digest(theDefinition(func(d *v1alpha1.AgentDefinition) { d.Spec.Instructions = "x" })),
		"other limits":       digest(theDefinition(given.Limited(v1alpha1.Limits{Turns: 1}))),
		"another model":      digest(theDefinition(), func(e *v1alpha1.ModelEndpoint) { e.Spec.Model = "x" }),
		"another endpoint":   digest(theDefinition(), func(e *v1alpha1.ModelEndpoint) { e.Name = "x" }),
	} {
		if other == plain {
			t.Errorf("%s: the same digest", name)
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef"
	tests := map[string]struct{ given, want string }{
		"the name and eight digits":   {"triage", "triage-01234567"},
		"dots may stay":               {"a.b", "a.b-01234567"},
		"a long name is cut":          {strings.Repeat("x", 253), strings.Repeat("x", 240) + "-01234567"},
		"not behind a dot or a dash":  {strings.Repeat("x", 237) + ".-.yyyyyyyyyyyyy", strings.Repeat("x", 237) + "-01234567"},
		"a name of 240 letters stays": {strings.Repeat("x", 240), strings.Repeat("x", 240) + "-01234567"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Name(tc.given, digest)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Name() (-want +got):\n%s", diff)
			}
			if errs := validation.IsDNS1123Subdomain(got); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}
