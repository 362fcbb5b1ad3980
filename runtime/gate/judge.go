package gate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// maxText is the most bytes of what the model is told about a refusal.
const maxText = 1 << 10

// Judge says what becomes of a proposal. It is total, and the same proposal in the same circumstances is judged the same way.
func (g *Gate) Judge(p Proposal, c Circumstances) Verdict {
	t, known := g.tools[p.Tool]
	if !known {
		return Unknown{Tool: contract.Clip(p.Tool, 128)}
	}
	if !t.granted {
		return t.refused("", RefusedGrant, fmt.Sprintf(
			"You may not use the tool %s in this run: it is not granted to whoever the run acts for. Nothing was called. Go on without it, or say what you could not do.", t.Name))
	}
	fits, err := t.schema()
	if err != nil {
		return Unusable{Message: fmt.Sprintf("the schema of tool %s: %v", t.Name, err)}
	}
	args, err := parse(p)
	if err == nil {
		err = fits.Validate(args.decoded)
	}
	if err != nil {
		return t.refused(args.digest, RefusedArguments, fmt.Sprintf(
			"The arguments of the call of %s cannot be used: %s. Nothing was called. Correct them and propose the call again.", t.Name, contract.Clip(err.Error(), 768)))
	}
	if c.Left <= 0 {
		return Exhausted{}
	}
	return g.decide(question{t: t, args: args, p: p, c: c})
}

// question is a call of which only policies and people have still to be asked.
type question struct {
	t    tool
	args arguments
	p    Proposal
	c    Circumstances
}

func (q question) refused(code, text string) Refused { return q.t.refused(q.args.digest, code, text) }

// decide asks policies and people.
func (g *Gate) decide(q question) Verdict {
	d := q.c.Rules.Decide(g.question(q.t, q.args))
	doubtful := q.t.Effect != v1alpha1.EffectRead && q.c.Doubtful[q.t.id()]
	if d.Action == v1alpha1.PolicyAllow && (doubtful || q.t.Approval == v1alpha1.ToolApprovalRequired) {
		d = policy.Decision{Action: v1alpha1.PolicyRequireApproval, Approval: policy.DefaultApproval()}
	}
	answer := contract.Answered(q.c.Inbox, q.p.Turn, q.p.Index, q.args.digest, d.Approval.Seats)
	switch {
	case d.Action == v1alpha1.PolicyDeny:
		return q.refused(RefusedPolicy, fmt.Sprintf(
			"A policy denies this call of %s (rule %s). Nothing was called. Do not propose it again as it is: go on without it, or say what you could not do.", q.t.Name, name(d.Rule)))
	case answer.Phase == v1alpha1.ApprovalDenied: // a decision is final, even if a newer policy would not have asked
		by, advice := denial(answer)
		return q.refused(RefusedDenied, fmt.Sprintf(
			"The call of %s was denied by %s. Nothing was called. Do not propose it again as it is: %sgo on without it, or say what you could not do.", q.t.Name, by, advice))
	case d.Action == v1alpha1.PolicyAllow:
		return g.granted(q, d, contract.Answer{})
	case answer.Phase == v1alpha1.ApprovalApproved:
		return g.granted(q, d, answer)
	case answer.Phase == v1alpha1.ApprovalExpired:
		return q.refused(RefusedExpired, fmt.Sprintf(
			"The call of %s needs an approval, and nobody decided in time. Nothing was called. Go on without it, or say what you could not do.", q.t.Name))
	default:
		return q.wanted(d, answer, doubtful)
	}
}

// wanted asks people, if the call can be put before them.
func (q question) wanted(d policy.Decision, answer contract.Answer, doubtful bool) Verdict {
	note := d.Problem
	if doubtful {
		note = strings.TrimSpace("Nobody knows what an earlier call of this tool in this run has done: look first whether this one was done already. " + note)
	}
	ask := contract.Ask{
		Turn: q.p.Turn, Index: q.p.Index, Tool: q.t.id(), Effect: q.t.Effect, Digest: q.args.digest, Policy: d.Rule, Note: contract.Clip(note, contract.MaxMessage),
		Pool: d.Approval.Pool, Seats: answer.Seats, ExpiresSeconds: d.Approval.ExpiresSeconds,
	}
	if q.t.Show != v1alpha1.ShowDigest {
		if n := len(q.args.canonical); n > contract.MaxShownArguments {
			return q.refused(RefusedTooLarge, fmt.Sprintf(
				"The call of %s needs an approval, and its arguments have %d bytes: people can be shown at most %d. Nothing was called. Propose it with shorter arguments, or in several smaller calls.",
				q.t.Name, n, contract.MaxShownArguments))
		}
		ask.Arguments = string(q.args.canonical)
	}
	return Wanted{Ask: ask, Open: answer.Open}
}

func (g *Gate) granted(q question, d policy.Decision, answer contract.Answer) Granted {
	if again := q.c.Again; again != nil { // it is used up by the intent that it has come about by
		answer.Requests, answer.By = append(answer.Requests, again.Request), append(answer.By, again.By)
	}
	return Granted{Permit{&call{
		turn: q.p.Turn, index: q.p.Index, tool: q.t.CompiledTool, contract: q.t.contract,
		arguments: q.args.canonical, digest: q.args.digest, key: key(g.run, q.p.Turn, q.p.Index),
		policyVersion: q.c.PolicyVersion, rule: name(d.Rule), approvals: answer.Requests, by: answer.By,
	}}}
}

func (t tool) refused(digest, code, text string) Refused {
	return Refused{Tool: t.id(), Effect: t.Effect, Digest: digest, Code: code, Text: contract.Clip(text, maxText)}
}

// arguments are what a model gave as arguments, read.
type arguments struct {
	canonical []byte
	digest    string
	decoded   map[string]any
}

// parse reads the arguments of a proposal. Nothing is repaired: whoever guesses what was meant makes a call that nobody proposed.
// The error goes on after a colon; the digest is there if the arguments are JSON.
func parse(p Proposal) (arguments, error) {
	var a arguments
	if p.Cut {
		return a, errors.New("your answer was cut at its length limit, so they may be only their beginning; keep them shorter")
	}
	body, err := contract.Canonical([]byte(p.Arguments))
	if err != nil {
		return a, fmt.Errorf("they are %w", err)
	}
	a.canonical, a.digest = body, contract.Digest(body)
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&a.decoded); err != nil || a.decoded == nil {
		return a, errors.New("they must be a JSON object")
	}
	return a, nil
}

// key is the Idempotency-Key of a call: of its run, its lane, which is empty for the calls of an agent, its turn and its index. It
// must never change, not even with a release: a call could be made twice.
func key(run types.UID, turn, index int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d", run, "", turn, index))
	return hex.EncodeToString(sum[:16])
}

func name(r v1alpha1.ApprovalPolicyReference) string {
	if r.Rule == "" {
		return ""
	}
	return r.Namespace + "/" + r.Name + "/" + r.Rule
}

// denial is who denied and why, in one line, and what to do about the why.
func denial(a contract.Answer) (by, advice string) {
	line := func(s string, limit int) string {
		return strings.TrimRight(contract.Clip(strings.Join(strings.Fields(s), " "), limit), ". ")
	}
	by, why := line(strings.Join(a.By, ", "), 128), line(a.Reason, 512)
	if by == "" {
		by = "somebody"
	}
	if why == "" {
		return by + ", who gave no reason", ""
	}
	return by + ": " + why, "heed the reason, "
}
