package segment

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// open makes what calls are judged by. What was frozen and cannot be used ends the run: every attempt reads the same.
func (w *work) open() error {
	w.journal = maps.Clone(w.Claim.Journal)
	if w.journal == nil {
		w.journal = Journal{}
	}
	w.judgedBy(w.Claim.Policy)
	w.pulse.PolicyVersion = w.Claim.Policy.Version
	if len(w.Claim.Snapshot.Agent.Tools) == 0 {
		return nil
	}
	var err error
	if w.gate, err = gate.New(w.Claim.Snapshot); err != nil {
		return &EndError{Code: v1alpha1.ReasonIncompatibleSession, Message: contract.Clip(err.Error(), contract.MaxMessage)}
	}
	return nil
}

func (w *work) judgedBy(p contract.Policy) {
	w.rules, w.policyVersion = policy.Compile(p.Set), p.Version
}

// heed takes up a policy that is newer than the one calls are judged by.
func (w *work) heed(ctx context.Context) error {
	if w.gate == nil || w.felt().PolicyVersion == w.policyVersion {
		return nil
	}
	return w.persist(ctx, func() error {
		p, err := w.Session.Policy(ctx)
		if errors.Is(err, contract.ErrSchema) {
			return &EndError{Code: v1alpha1.ReasonIncompatibleSession, Message: contract.Clip(err.Error(), contract.MaxMessage)}
		}
		if err == nil {
			w.judgedBy(p)
			w.mu.Lock()
			w.pulse.PolicyVersion = p.Version
			w.mu.Unlock()
		}
		return err
	})
}

// invoke makes a call. A call that was not begun after all, because the run was cancelled or the policy changed, leaves
// everything to the next look. Nothing but the end of the pod's grace cuts it before its own timeout.
func (w *work) invoke(ctx context.Context, p gate.Permit) error {
	act, release := w.bounded(ctx, cuts{})
	err := w.Tools.Invoke(act, p, recorder{w, p, w.journal[CallKey{p.Turn(), p.Index()}].Begun})
	cut := context.Cause(act)
	release()
	switch {
	case errors.Is(err, ErrCancelled):
		w.feel(Pulse{Cancelled: true})
		return nil
	case errors.Is(err, ErrPolicyChanged):
		return w.anew(ctx)
	case err == nil, ctx.Err() != nil:
		return err
	case cut != nil && !errors.Is(err, ErrFenced): // the pod is going, and the call may be made again
		return nil
	default:
		return err
	}
}

// anew reads the policy although no pulse has told of a change: the store has refused an intent for it.
func (w *work) anew(ctx context.Context) error {
	w.mu.Lock()
	w.pulse.PolicyVersion = -1
	w.mu.Unlock()
	return w.heed(ctx)
}

// settle writes the result of a call that is not made.
func (w *work) settle(ctx context.Context, s Settlement) error {
	err := w.persist(ctx, func() error {
		p, err := w.Session.Settle(ctx, s)
		if err == nil {
			w.feel(p)
		}
		return err
	})
	if err != nil {
		return err
	}
	c := w.journal[s.CallKey]
	if !c.Begun {
		c = Call{CallKey: s.CallKey, Tool: s.Tool, Effect: s.Effect, Digest: s.Digest}
	}
	c.Generation, c.Result = w.Claim.Generation, &s.Result
	w.journal[s.CallKey] = c
	w.appended++
	w.tell(Event{Name: told[s.Result.Kind], Turn: &s.Turn, Index: &s.Index, Tool: c.Tool, Code: s.Result.Code})
	return nil
}

// told are the events that tell of results.
var told = map[ResultKind]string{
	ResultAnswered: "CallSettled", ResultFailed: "CallSettled", ResultRefused: "CallRefused", ResultIndeterminate: "CallIndeterminate",
}

// recorder is the journal for one call. Its methods are called one after the other.
type recorder struct {
	*work
	permit  gate.Permit
	resumed bool
}

// Wanted says whether what the last writes have learned stands against the call.
func (r recorder) Wanted() error {
	switch p := r.felt(); {
	case p.Cancelled:
		return ErrCancelled
	case p.PolicyVersion != r.permit.PolicyVersion():
		return ErrPolicyChanged
	default:
		return nil
	}
}

// Resumed says that an earlier process has written an intent already.
func (r recorder) Resumed() bool { return r.resumed }

// Begin writes the intent.
func (r recorder) Begin(ctx context.Context) error {
	p := r.permit
	i := Intent{
		CallKey: CallKey{p.Turn(), p.Index()}, Tool: p.Tool().Server + "/" + p.Tool().Tool, Effect: p.Tool().Effect, Idempotency: p.Tool().Idempotency,
		Digest: p.Digest(), Key: p.Key(), Rule: p.Rule(), Approvals: p.Approvals(), By: p.By(), PolicyVersion: p.PolicyVersion(),
	}
	if err := r.persist(ctx, func() error {
		pulse, err := r.Session.Begin(ctx, i)
		if err == nil {
			r.feel(pulse)
		}
		return err
	}); err != nil {
		return fmt.Errorf("beginning call %d of turn %d: %w", i.Index, i.Turn, err)
	}
	r.journal[i.CallKey] = Call{
		CallKey: i.CallKey, Tool: i.Tool, Effect: i.Effect, Idempotency: i.Idempotency, Digest: i.Digest, Generation: r.Claim.Generation, Begun: true,
	}
	r.tell(Event{Name: "CallStarted", Turn: &i.Turn, Index: &i.Index, Tool: i.Tool})
	return nil
}

// Settle writes the result.
func (r recorder) Settle(ctx context.Context, result CallResult) error {
	p := r.permit
	return r.settle(ctx, Settlement{
		CallKey: CallKey{p.Turn(), p.Index()}, Tool: p.Tool().Server + "/" + p.Tool().Tool, Effect: p.Tool().Effect, Digest: p.Digest(), Result: result,
	})
}
