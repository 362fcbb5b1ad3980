package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// Doubt is the question to people what came of a call that was let through once. Whoever approves such calls is asked; note says
// what is known. The call is described as far as it still can be: that it may have been sent is not to be denied for that.
func (g *Gate) Doubt(p Proposal, c Circumstances, note string) contract.Ask {
	t := g.tools[p.Tool]
	args, _ := parse(p)
	d := c.Rules.Decide(g.question(t, args))
	if d.Action != v1alpha1.PolicyRequireApproval {
		d = policy.Decision{Approval: policy.DefaultApproval()}
	}
	ask := contract.Ask{
		Type: v1alpha1.ApprovalIndeterminate, Turn: p.Turn, Index: p.Index, Tool: t.id(), Effect: t.Effect, Digest: args.digest, Policy: d.Rule,
		Pool: d.Approval.Pool, Seats: 1, ExpiresSeconds: d.Approval.ExpiresSeconds,
	}
	switch {
	case t.Show == v1alpha1.ShowDigest:
	case len(args.canonical) > contract.MaxShownArguments:
		note += fmt.Sprintf(" Its arguments are not shown: they have %d bytes.", len(args.canonical))
	default:
		ask.Arguments = string(args.canonical)
	}
	ask.Note = contract.Clip(strings.TrimSpace(note), contract.MaxMessage)
	return ask
}

func (g *Gate) question(t tool, args arguments) policy.Call {
	return policy.Call{Tool: t.id(), Effect: t.Effect, Arguments: args.decoded, Definition: g.definition, Principal: g.principal}
}

// ProbePermit lets one question through: whether a call took effect. The zero one lets nothing through, and none lets a call
// through.
type ProbePermit struct{ question *probe }

type probe struct {
	turn, index int
	tool        v1alpha1.CompiledTool
	arguments   []byte
	key         string
	reads       *policy.Probe
}

// Valid reports whether the permit lets a question through.
func (p ProbePermit) Valid() bool { return p.question != nil }

// Turn and Index name the call that is asked about.
func (p ProbePermit) Turn() int { return p.question.turn }

// Index is the place of the call in its turn.
func (p ProbePermit) Index() int { return p.question.index }

// Tool is the tool to ask. It reads.
func (p ProbePermit) Tool() v1alpha1.CompiledTool { return p.question.tool }

// Arguments are the arguments of the question in canonical JSON.
func (p ProbePermit) Arguments() []byte { return append([]byte(nil), p.question.arguments...) }

// Key is the Idempotency-Key of the question. It is another than that of the call: a server could take one for the other.
func (p ProbePermit) Key() string { return p.question.key }

// Reads tells from the answer whether the call took effect. The problem goes on after nothing and holds nothing of the answer.
func (p ProbePermit) Reads(answer string) (happened bool, problem string) {
	return p.question.reads.Happened(answer)
}

// Probe judges the question whether a call took effect. Without a permit it tells why; of a tool that has no probe it tells
// nothing. The platform has said what is asked, and nobody was granted it; the policy counts as for every call.
func (g *Gate) Probe(p Proposal, c Circumstances) (_ ProbePermit, why string) {
	t := g.tools[p.Tool]
	if t.Probe.Tool == "" {
		return ProbePermit{}, ""
	}
	reads, err := t.probe()
	if err != nil {
		return ProbePermit{}, "its expressions cannot be used"
	}
	args, err := parse(p)
	if err != nil {
		return ProbePermit{}, "the arguments of the call cannot be read"
	}
	key := key(g.run, p.Turn, p.Index)
	asked, problem := reads.Arguments(args.decoded, key)
	if problem != "" {
		return ProbePermit{}, problem
	}
	canonical, err := canonical(asked)
	if err != nil {
		return ProbePermit{}, "what its expression makes is no JSON object"
	}
	q := tool{CompiledTool: t.question()}
	if d := c.Rules.Decide(g.question(q, canonical)); d.Action != v1alpha1.PolicyAllow {
		return ProbePermit{}, "the policy does not let it be asked"
	}
	sum := sha256.Sum256([]byte("probe " + key))
	return ProbePermit{&probe{
		turn: p.Turn, index: p.Index, tool: q.CompiledTool, arguments: canonical.canonical, key: hex.EncodeToString(sum[:16]), reads: reads,
	}}, ""
}

// question is the probe of t as a tool.
func (t tool) question() v1alpha1.CompiledTool {
	return v1alpha1.CompiledTool{
		Name: t.Name, Server: t.Server, Tool: t.Probe.Tool, Digest: t.Probe.Digest, Effect: v1alpha1.EffectRead, Idempotency: v1alpha1.IdempotencyNone,
		Show: t.Show, TimeoutSeconds: t.Probe.TimeoutSeconds, MaxResultBytes: t.Probe.MaxResultBytes, HTTP: t.Probe.HTTP,
	}
}

// canonical are arguments that an expression has made.
func canonical(made map[string]any) (arguments, error) {
	body, err := json.Marshal(made)
	if err != nil {
		return arguments{}, err
	}
	return parse(Proposal{Arguments: string(body)})
}
