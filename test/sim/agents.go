package sim

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

const (
	runUID       = types.UID("4b7e0c1a-0000-4000-8000-000000000002")
	namespaceUID = types.UID("4b7e0c1a-0000-4000-8000-000000000001")
)

// tools are one for each way in which a call may be found after its process is lost.
var tools = []v1alpha1.CompiledTool{
	{Name: "read", Effect: v1alpha1.EffectRead, Idempotency: v1alpha1.IdempotencyNone},
	{Name: "send", Effect: v1alpha1.EffectSend, Idempotency: v1alpha1.IdempotencyNone},
	{Name: "write", Effect: v1alpha1.EffectWrite, Idempotency: v1alpha1.IdempotencyKey},
	{Name: "post", Effect: v1alpha1.EffectWrite, Idempotency: v1alpha1.IdempotencyNone, Probe: v1alpha1.CompiledProbe{
		Tool: "find", Arguments: `{'key': key}`, Happened: `answer.found`, TimeoutSeconds: 20, MaxResultBytes: 1024,
	}},
}

// agent is a snapshot and what every process makes of it.
type agent struct {
	snapshot contract.Snapshot
	gate     *gate.Gate
}

// agents are by what they do about a call of which nobody knows, and by the narrowness of their limits. They are made once: nothing
// writes to them.
var agents = allAgents()

func allAgents() (all []agent) {
	for _, rule := range []v1alpha1.OnIndeterminate{v1alpha1.IndeterminateTellModel, v1alpha1.IndeterminateAsk, v1alpha1.IndeterminateFailRun} {
		all = append(all,
			agentOf(v1alpha1.Limits{Segments: 8, Turns: 10, ToolCalls: 10, ActiveSeconds: 1800}, 3, v1alpha1.ToolFailureTellModel, rule),
			agentOf(v1alpha1.Limits{Segments: 3, Turns: 4, ToolCalls: 4, ActiveSeconds: 900}, 2, v1alpha1.ToolFailureTellModel, rule),
			agentOf(v1alpha1.Limits{Segments: 2, Turns: 3, ToolCalls: 2, ActiveSeconds: 120}, 2, v1alpha1.ToolFailureFailRun, rule),
			agentOf(v1alpha1.Limits{Segments: 20, Turns: 6, ToolCalls: 6, ActiveSeconds: 3600}, 5, v1alpha1.ToolFailureTellModel, rule),
		)
	}
	return all
}

func agentOf(l v1alpha1.Limits, tries int32, onFailure v1alpha1.OnToolFailure, rule v1alpha1.OnIndeterminate) agent {
	s := contract.Snapshot{
		Schema: contract.SnapshotSchema, Revision: "desk-1", Definition: "desk", Task: "Do it.",
		Run: contract.Identity{Namespace: "team", NamespaceUID: namespaceUID, Name: "run", UID: runUID, RootUID: runUID},
		Agent: v1alpha1.CompiledAgent{
			Limits: l, OnToolFailure: onFailure, OnIndeterminate: rule,
			Segment: v1alpha1.SegmentTimers{SoftSeconds: 90, HardSeconds: 120},
			Retry:   v1alpha1.Retry{MaxAttempts: tries, BaseSeconds: 1, CapSeconds: 30, MaxRetryAfterSeconds: 120},
		},
		Principal: v1alpha1.Principal{User: "jane"},
	}
	for _, t := range tools {
		c := contract.ToolContract{Name: t.Name, Schema: json.RawMessage(`{"type":"object"}`)}
		_, digest, err := c.Encode()
		if err != nil {
			panic(err) // the schema above is canonical
		}
		t.Server, t.Tool, t.Digest = "crm", t.Name, digest
		if t.Probe.Tool != "" {
			t.Probe.Digest = digest
		}
		t.Show, t.TimeoutSeconds, t.MaxResultBytes = v1alpha1.ShowArguments, 40, 1024
		s.Agent.Tools, s.Tools, s.Grant = append(s.Agent.Tools, t), append(s.Tools, c), append(s.Grant, t.Name)
	}
	g, err := gate.New(s)
	if err != nil {
		panic(err)
	}
	return agent{s, g}
}

// script is how many calls the model proposes in each turn; an answer without calls follows the last.
type script []int

var scripts = []script{{1}, {2}, {1, 1}, {3, 2}, {}, {2, 1, 1}, {1, 1, 1, 1, 1}, {4, 1}}

// proposal is a call of the given kind, told from all others by its number.
func proposal(tool int, number int) segment.ProposedCall {
	return segment.ProposedCall{Tool: tools[tool].Name, Arguments: `{"n":` + itoa(number) + `}`}
}
