package sim

import (
	"context"
	"errors"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// invoke is work.invoke around tool.Invoker.Invoke: a call that was not begun after all leaves everything to the next look.
func (p *process) invoke(permit gate.Permit) error {
	k := segment.CallKey{Turn: permit.Turn(), Index: permit.Index()}
	if d := p.doubts[k]; d.Probed != nil {
		p.doubts[k] = segment.Doubt{Again: d.Again + 1}
	}
	p.sending = &k
	err := p.order(permit)
	p.sending = nil
	switch {
	case errors.Is(err, segment.ErrCancelled):
		p.feel(segment.Pulse{Cancelled: true})
		return nil
	case errors.Is(err, segment.ErrPolicyChanged):
		p.pulse.PolicyVersion = -1
		return p.heed()
	case err == nil, p.cause != nil:
		return err
	case errors.Is(err, errCut):
		return nil
	default:
		return err
	}
}

// errCut says that the pod is going, and that the call may be made again.
var errCut = errors.New("the call was cut")

func repeatable(t v1alpha1.CompiledTool) bool {
	return t.Effect == v1alpha1.EffectRead || t.Idempotency == v1alpha1.IdempotencyKey
}

// order is tool.Invoker's invoke: intent, call, settle.
func (p *process) order(permit gate.Permit) error {
	t, k := permit.Tool(), segment.CallKey{Turn: permit.Turn(), Index: permit.Index()}
	doubt := p.journal[k].Begun && t.Effect != v1alpha1.EffectRead
	if p.w.d.once(30) { // the server cannot be prepared for the call
		if p.cause != nil {
			return p.cause
		}
		return p.recorded(p.settlement(permit, unanswered(t, doubt)))
	}
	if p.w.bugs.SettleFirst {
		if err := p.settle(p.settlement(permit, segment.CallResult{Kind: segment.ResultAnswered, Text: "done"}), true); err != nil {
			return err
		}
	}
	if !p.w.bugs.NoIntent {
		if err := p.begin(permit, k); err != nil {
			return err
		}
	}
	result, err := p.send(permit, doubt)
	if err != nil || p.w.bugs.SettleFirst {
		return err
	}
	return p.recorded(p.settlement(permit, result))
}

// recorded is recorder.Settle: what nobody knows is kept and not written.
func (p *process) recorded(s segment.Settlement) error {
	if s.Result.Kind != segment.ResultIndeterminate {
		return p.settle(s, true)
	}
	d, c := p.doubts[s.CallKey], p.journal[s.CallKey]
	d.Told = &s.Result
	c.Gone = c.Gone || c.Generation == p.claim.Generation
	p.doubts[s.CallKey], p.journal[s.CallKey] = d, c
	return nil
}

func (p *process) settlement(permit gate.Permit, r segment.CallResult) segment.Settlement {
	t := permit.Tool()
	return segment.Settlement{
		CallKey: segment.CallKey{Turn: permit.Turn(), Index: permit.Index()}, Tool: t.Server + "/" + t.Tool, Effect: t.Effect, Digest: permit.Digest(), Result: r,
	}
}

// unanswered is what call.unanswered says of a call without an answer.
func unanswered(t v1alpha1.CompiledTool, doubt bool) segment.CallResult {
	switch {
	case !doubt:
		return segment.CallResult{Kind: segment.ResultFailed, Code: "Unreachable", Text: "not carried out"}
	case t.Effect == v1alpha1.EffectRead:
		return segment.CallResult{Kind: segment.ResultFailed, Code: "NoAnswer", Text: "no result"}
	default:
		return segment.CallResult{Kind: segment.ResultIndeterminate, Text: "nobody knows"}
	}
}

// begin is recorder.Begin.
func (p *process) begin(permit gate.Permit, k segment.CallKey) error {
	t := permit.Tool()
	i := segment.Intent{
		CallKey: k, Tool: t.Server + "/" + t.Tool, Effect: t.Effect, Idempotency: t.Idempotency, Digest: permit.Digest(), Key: permit.Key(),
		Rule: permit.Rule(), Approvals: permit.Approvals(), By: permit.By(), PolicyVersion: permit.PolicyVersion(),
	}
	err := p.persist("intent "+keyName(k), false, func() error {
		q, err := p.session.Begin(context.Background(), i)
		if p.w.laws.begun(p, i, err) == nil {
			p.feel(q)
		}
		return err
	})
	if err != nil {
		return err
	}
	p.journal[k] = segment.Call{
		CallKey: k, Tool: i.Tool, Effect: i.Effect, Idempotency: i.Idempotency, Digest: i.Digest, Generation: p.claim.Generation, Begun: true,
		Approvals: i.Approvals,
	}
	return nil
}

// send is call.make with its tries: again while nothing was done, or where that is harmless, and not once the call is withdrawn.
func (p *process) send(permit gate.Permit, doubt bool) (segment.CallResult, error) {
	t, key := permit.Tool(), permit.Key()
	deadline := p.w.now.Add(time.Duration(t.TimeoutSeconds) * time.Second)
	for tried := 1; ; tried++ {
		p.pause("sends " + keyName(segment.CallKey{Turn: permit.Turn(), Index: permit.Index()}) + " to " + t.Name)
		answer := p.w.execute(p, permit)
		if answer.fatal {
			p.dies()
		}
		cut := p.pass(earlier(answer.at, deadline), false, false, "waits for "+t.Name)
		if cut != nil && repeatable(t) {
			if p.cause != nil {
				return segment.CallResult{}, p.cause
			}
			return segment.CallResult{}, errCut
		}
		came := cut == nil && !answer.at.After(deadline)
		switch {
		case came && answer.kind == toolAnswers:
			p.w.laws.heard(p, permit)
			return segment.CallResult{Kind: segment.ResultAnswered, Text: "done", Bytes: 4}, nil
		case came && answer.kind == toolFails:
			p.w.laws.heard(p, permit)
			return segment.CallResult{Kind: segment.ResultFailed, Code: v1alpha1.ReasonToolFailed, Text: "no", Bytes: 2}, nil
		case !came || answer.kind != toolRefuses:
			doubt = true
		}
		pause := budget.Pause(p.claim.Snapshot.Agent.Retry, tried, key)
		harmless := came && answer.kind == toolRefuses || repeatable(t) || p.w.bugs.SendTwice
		if !harmless || cut != nil || tried >= int(p.claim.Snapshot.Agent.Retry.MaxAttempts) || p.withdrawn(permit) || !p.w.now.Add(pause).Before(deadline) {
			return unanswered(t, doubt), nil //nolint:nilerr // a cut is told in the result
		}
		if p.pass(p.w.now.Add(pause), false, false, "will send again") != nil || p.withdrawn(permit) {
			return unanswered(t, doubt), nil //nolint:nilerr // as above
		}
	}
}

// withdrawn is recorder.Wanted.
func (p *process) withdrawn(permit gate.Permit) bool {
	return p.pulse.Cancelled || p.pulse.PolicyVersion != permit.PolicyVersion()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
