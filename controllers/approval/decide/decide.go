package decide

import (
	"fmt"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// recheck is how often the guard is asked again about a decision that it does not cover. What it depends on is watched only
// in part: whether the API server heeds the policies shows in nothing but its answers.
const recheck = 10 * time.Second

// Decide is the state machine of a request: the first case that holds wins, and one always does.
//
//	             ┌─ decided in time, guarded, by somebody new ─► Approved, Denied ─► delivered
//	             │                     or of what came of a call: Happened, NotHappened, Retry
//	Pending ─────┼─ expiresAt ─────────────────────────────────► Expired ──────────► delivered
//	  ▲   │      ├─ run over, call settled ────────────────────► Withdrawn
//	  └───┘      └─ approved by who has another seat, or
//	 not guarded    decided while it was not guarded ───────────► Withdrawn; the run asks again
func Decide(o Observed) Decision {
	switch {
	case o.recorded() != "":
		return o.afterwards(o.recorded())
	case o.Delivered != nil: // the status was lost, and the run may already have acted by it
		return o.follow()
	case o.moot() != "":
		return o.end(v1alpha1.ApprovalWithdrawn, v1alpha1.ReasonWithdrawn, "withdrawn: "+o.moot())
	case o.late():
		return o.expire()
	case !o.decided() && !o.older():
		return o.wait("")
	case o.Guard == Unasked:
		return Decision{AskGuard: true}
	case o.Guard != Holds:
		return o.wait(o.Why)
	case o.unguarded() != "": // only now, so that what is asked again is asked under the guard
		return o.askAgain()
	default:
		return o.honour()
	}
}

// afterwards decides about a request whose status says how it ended.
func (o Observed) afterwards(phase v1alpha1.ApprovalPhase) Decision {
	d := Decision{Poke: o.runs()}
	if phase != v1alpha1.ApprovalWithdrawn && o.Delivered == nil && o.Known {
		d.Deliver = o.delivery(phase)
	}
	return d
}

// follow repeats in the status what the run was told.
func (o Observed) follow() Decision {
	phase, message := o.Delivered.Phase, o.nobody()
	if phase != v1alpha1.ApprovalExpired {
		message = said(o.Delivered.By, phase, o.Request.Spec.Call.Tool, o.Delivered.Reason)
	}
	return Decision{Report: Report{Phase: phase, Reason: string(phase), Message: clip(message)}, Poke: o.runs()}
}

func (o Observed) expire() Decision {
	if !o.decided() {
		return o.end(v1alpha1.ApprovalExpired, v1alpha1.ReasonExpired, o.nobody())
	}
	who := o.Request.Spec.Decision.By
	if who == "" {
		who = "somebody"
	}
	return o.end(v1alpha1.ApprovalExpired, v1alpha1.ReasonTooLate, fmt.Sprintf(
		"the decision of %s on %s was seen after the request had expired at %s and is worth nothing: if the agent proposes the call again, a new request comes",
		who, o.Request.Spec.Call.Tool, o.deadline()))
}

// wait leaves the request open. doubt is why a decision on it is not honoured.
func (o Observed) wait(doubt string) Decision {
	s := o.Request.Spec
	message := fmt.Sprintf("pool %s decides on %s by %s", s.Pool, s.Call.Tool, o.deadline())
	if s.Seats > 1 {
		message += fmt.Sprintf(", seat %d of %d", s.Seat, s.Seats)
	}
	d := Decision{Report: Report{Phase: v1alpha1.ApprovalPending, Reason: v1alpha1.ReasonAwaitingDecision, Message: clip(message)}, Wake: s.ExpiresAt.Time}
	if doubt != "" {
		d.Wake = earlier(d.Wake, o.Now.Add(recheck))
	}
	if doubt != "" && o.decided() {
		d.Report.Guard, d.Report.Why = Broken, clip(doubt)
	}
	return d
}

// askAgain ends a request whose decision, given or to come, cannot be told from one that the guard would have refused.
func (o Observed) askAgain() Decision {
	d := o.end(v1alpha1.ApprovalWithdrawn, v1alpha1.ReasonNotGuarded, o.unguarded()+": a new request asks again")
	d.Report.Guard = Holds
	return d
}

// SamePerson reports that the decider has approved another seat of the call already. The ledger may know so although the request
// for that seat is gone.
func (o Observed) SamePerson() Report {
	s := o.Request.Spec
	return o.end(v1alpha1.ApprovalWithdrawn, v1alpha1.ReasonSamePerson, fmt.Sprintf(
		"%s has already approved another seat of %s: a new request asks somebody else of pool %s", s.Decision.By, s.Call.Tool, s.Pool)).Report
}

// honour takes the decision up.
func (o Observed) honour() Decision {
	s := o.Request.Spec
	var d Decision
	switch {
	case o.again():
		d = Decision{Report: o.SamePerson(), Poke: o.runs()}
	case answers(s.Type, s.Decision.Verdict):
		phase := v1alpha1.ApprovalPhase(s.Decision.Verdict)
		d = o.end(phase, string(phase), said(s.Decision.By, phase, s.Call.Tool, s.Decision.Reason))
	default: // of a later version, or to another question: nothing follows from it
		d = o.wait("")
	}
	d.Report.Guard = Holds
	return d
}

// answers reports whether a verdict is one on such a question. Phases and reasons are named like their verdicts.
func answers(t v1alpha1.ApprovalType, v v1alpha1.Verdict) bool {
	switch v {
	case v1alpha1.VerdictApproved, v1alpha1.VerdictDenied:
		return t != v1alpha1.ApprovalIndeterminate
	case v1alpha1.VerdictHappened, v1alpha1.VerdictNotHappened, v1alpha1.VerdictRetry:
		return t == v1alpha1.ApprovalIndeterminate
	default:
		return false
	}
}

// end ends the request: first in the status, then in the run's inbox.
func (o Observed) end(phase v1alpha1.ApprovalPhase, reason, message string) Decision {
	d := o.afterwards(phase)
	d.Report = Report{Phase: phase, Reason: reason, Message: clip(message)}
	return d
}

func (o Observed) delivery(phase v1alpha1.ApprovalPhase) *contract.Delivery {
	r := o.Request
	d := &contract.Delivery{
		Request: r.UID, Turn: number(r.Spec.Call.Turn), Index: number(r.Spec.Call.Index), Digest: r.Spec.Call.Digest,
		Seat: r.Spec.Seat, Seats: r.Spec.Seats, Phase: phase,
	}
	if r.Spec.Type == v1alpha1.ApprovalIndeterminate { // the type of any other is left out, as it always was
		d.Type = r.Spec.Type
	}
	if phase != v1alpha1.ApprovalExpired { // what came too late is not for the model to read
		d.By, d.Reason = r.Spec.Decision.By, r.Spec.Decision.Reason
	}
	return d
}

// runs reports whether there is a run to look at.
func (o Observed) runs() bool { return !o.RunGone && o.Known && !o.Over }

func (o Observed) nobody() string {
	s := o.Request.Spec
	return fmt.Sprintf("nobody of pool %s decided on %s by %s", s.Pool, s.Call.Tool, o.deadline())
}

func (o Observed) deadline() string { return o.Request.Spec.ExpiresAt.UTC().Format(time.RFC3339) }

// said tells who decided what, with the reason, on which tool. It never tells the arguments.
func said(by string, phase v1alpha1.ApprovalPhase, tool, reason string) string {
	message := by + " " + map[v1alpha1.ApprovalPhase]string{
		v1alpha1.ApprovalApproved:    "approved " + tool,
		v1alpha1.ApprovalDenied:      "denied " + tool,
		v1alpha1.ApprovalHappened:    "says that the call of " + tool + " took effect",
		v1alpha1.ApprovalNotHappened: "says that the call of " + tool + " did not take effect",
		v1alpha1.ApprovalRetry:       "wants the call of " + tool + " made again",
	}[phase]
	if reason != "" {
		message += ": " + reason
	}
	return message
}

func clip(s string) string { return contract.Clip(s, contract.MaxMessage) }

func number(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
