// Package gate judges the calls that a model proposes. It is pure, and it is the front half of the one pipeline through which
// every call goes:
//
//	allowlist ─► grant ─► schema ─► limits ─► policy ─► approval ─► (runtime/tool: credentials ─► journal ─► call ─► bound ─► settle)
//
// A call that passes gets a Permit. Nobody else can make one, and nothing but a Permit makes runtime/tool send anything.
// What does not pass is told to the model in sentences: what stood against it, that nothing was called, what it may do.
package gate

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/policy"
	"github.com/ekiden-dev/ekiden/runtime/schema"
)

// Gate judges the calls of one run. It is for concurrent use.
type Gate struct {
	run        types.UID
	principal  v1alpha1.Principal
	definition string
	tools      map[string]tool
}

// tool is one tool of the agent, by the name that the model knows.
type tool struct {
	v1alpha1.CompiledTool
	contract contract.ToolContract
	// schema is compiled when the first call asks for it: of a hundred tools a segment calls few, and a large schema takes a
	// hundred times its size.
	schema func() (*schema.Schema, error)
	// probe is compiled when it is first needed.
	probe   func() (*policy.Probe, error)
	granted bool
}

// id is the tool as server/tool.
func (t tool) id() string { return t.Server + "/" + t.Tool }

// New takes up the contracts of a run's tools. An error is a defect of the snapshot: every attempt would meet it again.
func New(s contract.Snapshot) (*Gate, error) {
	if len(s.Tools) != len(s.Agent.Tools) {
		return nil, fmt.Errorf("the snapshot has %d tools and the contracts of %d", len(s.Agent.Tools), len(s.Tools))
	}
	g := &Gate{run: s.Run.UID, principal: s.Principal, definition: s.Definition, tools: make(map[string]tool, len(s.Tools))}
	for i, compiled := range s.Agent.Tools {
		t, err := pinned(compiled, s.Tools[i])
		if err != nil {
			return nil, err
		}
		if _, twice := g.tools[t.Name]; twice {
			return nil, fmt.Errorf("two tools are named %s", t.Name)
		}
		t.granted = slices.Contains(s.Grant, t.Name)
		g.tools[t.Name] = t
	}
	return g, nil
}

// Offers reports whether the agent has a tool of that name. A call of any other is Unknown.
func (g *Gate) Offers(name string) bool {
	_, known := g.tools[name]
	return known
}

// pinned is a tool with the contract that its digest pins, and no other.
func pinned(compiled v1alpha1.CompiledTool, c contract.ToolContract) (tool, error) {
	t := tool{CompiledTool: compiled, contract: c}
	_, digest, err := c.Encode()
	switch {
	case err != nil:
		return t, fmt.Errorf("the contract of tool %s: %w", compiled.Name, err)
	case c.Name != compiled.Tool:
		return t, fmt.Errorf("the contract of tool %s is that of %q and must be that of %q", compiled.Name, contract.Clip(c.Name, 128), compiled.Tool)
	case digest != compiled.Digest:
		return t, fmt.Errorf("the contract of tool %s has the digest %s and must have %s", compiled.Name, digest, compiled.Digest)
	}
	t.schema = sync.OnceValues(func() (*schema.Schema, error) { return schema.Compile(c.Schema) })
	t.probe = sync.OnceValues(func() (*policy.Probe, error) {
		return policy.CompileProbe(compiled.Probe.Arguments, compiled.Probe.Happened)
	})
	return t, nil
}

// Proposal is a call as the model proposed it.
type Proposal struct {
	// Turn and Index name the call.
	Turn, Index int
	// Tool is the name that the model said, Arguments the text it gave, perhaps not valid JSON.
	Tool, Arguments string
	// Cut says that the answer was cut at its bound, so that the arguments may be only their beginning.
	Cut bool
}

// Circumstances are what a judgement depends on besides the call.
type Circumstances struct {
	// Left is how many calls the limits still allow.
	Left int
	// Rules are the policies in force, PolicyVersion their version.
	Rules         *policy.Rules
	PolicyVersion int64
	// Inbox is what people have decided.
	Inbox []contract.Delivery
	// Again is the newest word of a person that a call which may have been sent is to be made again, if there is one. The intent uses it up.
	Again *contract.Delivery
	// Doubtful are the tools, as server/tool, of which a call was made whose outcome nobody knows. Until somebody looks, the next
	// call may do the same thing again: each that is no Read needs an approval.
	Doubtful map[string]bool
}

// Verdict is what becomes of a proposal.
//
//sumtype:decl
type Verdict interface{ isVerdict() }

// Unknown means that the agent has no tool of that name. It ends the run before anything of the turn is called.
type Unknown struct{ Tool string }

// Refused means that the call is not made, and why: Code in a word, Text as the model is told. Tool, Effect and Digest
// are as far as they are known.
type Refused struct {
	Tool       string
	Effect     v1alpha1.Effect
	Digest     string
	Code, Text string
}

// Unusable means that the contract of the tool cannot be used. Every attempt reads the same: it ends the run.
type Unusable struct{ Message string }

// Exhausted means that the limits allow no further call.
type Exhausted struct{}

// Wanted means that people have to decide first. Open are the seats that nobody has decided on.
type Wanted struct {
	Ask  contract.Ask
	Open []int32
}

// Granted means that the call may be made.
type Granted struct{ Permit Permit }

func (Unknown) isVerdict()   {}
func (Unusable) isVerdict()  {}
func (Refused) isVerdict()   {}
func (Exhausted) isVerdict() {}
func (Wanted) isVerdict()    {}
func (Granted) isVerdict()   {}

// Codes of refusals. The model and the journal see them.
const (
	// RefusedArguments means that the arguments are no JSON object, were cut, or break the tool's schema.
	RefusedArguments = "InvalidArguments"
	// RefusedTooLarge means that the arguments are too large to be put before an approver.
	RefusedTooLarge = "ArgumentsTooLarge"
	// RefusedGrant means that whoever the run acts for may not use the tool.
	RefusedGrant = "NotGranted"
	// RefusedPolicy means that a policy denies the call.
	RefusedPolicy = "PolicyDenied"
	// RefusedDenied means that a person denied the call.
	RefusedDenied = "Denied"
	// RefusedExpired means that nobody decided in time.
	RefusedExpired = "Expired"
)

// Permit lets one call through. The zero Permit lets nothing through.
type Permit struct{ call *call }

type call struct {
	turn, index   int
	tool          v1alpha1.CompiledTool
	contract      contract.ToolContract
	arguments     []byte
	digest, key   string
	policyVersion int64
	rule          string
	approvals     []types.UID
	by            []string
}

// Valid reports whether the permit lets a call through.
func (p Permit) Valid() bool { return p.call != nil }

// Turn and Index name the call.
func (p Permit) Turn() int { return p.call.turn }

// Index is the place of the call in its turn.
func (p Permit) Index() int { return p.call.index }

// Tool is the tool to call.
func (p Permit) Tool() v1alpha1.CompiledTool { return p.call.tool }

// Contract is what the tool was when the run started.
func (p Permit) Contract() contract.ToolContract { return p.call.contract }

// Arguments are the arguments in canonical JSON.
func (p Permit) Arguments() []byte { return append([]byte(nil), p.call.arguments...) }

// Digest is the digest of the arguments.
func (p Permit) Digest() string { return p.call.digest }

// Key is the Idempotency-Key of the call: the same each time the call is made.
func (p Permit) Key() string { return p.call.key }

// PolicyVersion is the version of the policy by which the call was judged, Rule the rule that let it through, if one did.
func (p Permit) PolicyVersion() int64 { return p.call.policyVersion }

// Rule is the rule that let the call through, as namespace/policy/rule, or empty.
func (p Permit) Rule() string { return p.call.rule }

// Approvals are the requests by which the call was approved. Empty if it needed none.
func (p Permit) Approvals() []types.UID { return append([]types.UID(nil), p.call.approvals...) }

// By are the people who approved.
func (p Permit) By() []string { return append([]string(nil), p.call.by...) }
