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
	key := CallKey{p.Turn(), p.Index()}
	if d := w.doubts[key]; d.Probed != nil { // it is made again by what the probe said, which says nothing of what comes now
		w.doubts[key] = Doubt{Again: d.Again + 1}
	}
	act, release := w.bounded(ctx, cuts{})
	err := w.Tools.Invoke(act, p, recorder{w, p, w.journal[key].Begun})
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

// probe asks whether a call took effect. What keeps the question from being asked is no answer, but for what another attempt cures.
func (w *work) probe(ctx context.Context, p gate.ProbePermit) error {
	act, release := w.bounded(ctx, cuts{})
	r, err := w.Tools.Probe(act, p)
	cut := context.Cause(act)
	release()
	var fault *FaultError
	var found Finding
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &fault):
		return err
	case cut != nil: // the pod is going, and the next one asks
		return &FaultError{contract.Fault{Code: contract.FaultStopped, Message: "the pod was told to stop before the probe had answered"}}
	case err != nil:
		found.Text = "it was not asked"
	default:
		found = read(p, r)
	}
	key := CallKey{p.Turn(), p.Index()}
	d := w.doubts[key]
	d.Probed = &found
	w.doubts[key] = d
	turn, index := p.Turn(), p.Index()
	w.tell(Event{Name: "CallProbed", Turn: &turn, Index: &index, Tool: p.Tool().Server + "/" + p.Tool().Tool, Code: string(found.Says)})
	return nil
}

// read is what the answer of a probe tells.
func read(p gate.ProbePermit, r CallResult) Finding {
	if r.Kind != ResultAnswered {
		return Finding{Text: "it did not answer"}
	}
	happened, problem := p.Reads(r.Text)
	switch {
	case problem != "":
		return Finding{Text: problem}
	case happened:
		return Finding{Says: v1alpha1.VerdictHappened, Text: r.Text}
	default:
		return Finding{Says: v1alpha1.VerdictNotHappened, Text: r.Text}
	}
}

// settleAbandoned settles what this process has given up, in a run that ends for a reason that Next did not name.
func (w *work) settleAbandoned(ctx context.Context) error {
	for {
		act, ok := w.situation().abandoned(w.transcript).(Refuse)
		if !ok {
			return nil
		}
		if err := w.settle(ctx, act.Settlement); err != nil {
			return err
		}
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
		Approvals: i.Approvals,
	}
	r.tell(Event{Name: "CallStarted", Turn: &i.Turn, Index: &i.Index, Tool: i.Tool})
	return nil
}

// Settle writes the result. Of a call whose outcome nobody knows it keeps what is known: Next says what follows.
func (r recorder) Settle(ctx context.Context, result CallResult) error {
	p := r.permit
	if key := (CallKey{p.Turn(), p.Index()}); result.Kind == ResultIndeterminate {
		d, c := r.doubts[key], r.journal[key]
		d.Told = &result
		c.Gone = c.Gone || c.Generation == r.Claim.Generation
		r.doubts[key], r.journal[key] = d, c
		return nil
	}
	return r.settle(ctx, Settlement{
		CallKey: CallKey{p.Turn(), p.Index()}, Tool: p.Tool().Server + "/" + p.Tool().Tool, Effect: p.Tool().Effect, Digest: p.Digest(), Result: result,
	})
}
