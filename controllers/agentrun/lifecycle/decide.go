package lifecycle

import (
	"fmt"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	// ReadyWithin is how long a run waits in the queue for its definition and input to appear.
	ReadyWithin = 120 * time.Second
	// askEvery is how often a queued run looks for what it waits for: not all of that is watched.
	askEvery = 5 * time.Second
	// StartWithin is how long a pod may take to start, and the API server to take its Job.
	StartWithin = 300 * time.Second
	// StopWithin is how long a cancelled run waits for its pod to stop.
	StopWithin = 60 * time.Second
	// ReachWithin is how long segments may fail to reach the Postgres that the manager reaches.
	ReachWithin = 15 * time.Minute
	// reachTries is how many attempts must have failed so: one alone may have met an outage that the manager met too.
	reachTries = 3
	// Patience is how long a pod may take to start before the status says what holds it up: what is seen
	// earlier changes by itself and would only cost writes.
	Patience = 10 * time.Second
	// askWhy is how often it is asked what holds a pod up: events are not watched.
	askWhy = 30 * time.Second
	// lookEvery is how often a working attempt is looked at although nothing was heard of it: its process may
	// have gone silent on a node that is lost.
	lookEvery = 10 * time.Second
)

// Decide is the state machine of a run: the first case that holds wins, and one always does.
//
//	          definition, input        ┌── crash, fault, disruption: pause ──┐
//	          not ready                ▼                                     │
//	(new) ─► Queued ─────admit────► Running ─► outcome ─┬─ completed ─► Succeeded
//	            │                      ▲                ├─ checkpoint ──► Running
//	            │                      ├────────────────┤  waiting ─────► Waiting ─► a call is decided ─► Running
//	            │                      └────────────────┘  ceiling ─────► Succeeded, or Failed without a turn
//	            │                                       └─ failed ──────► Failed
//	            └── cancelled, deleted ─► Cancelled ◄── cancel committed, pod stopped ── from anywhere
func Decide(o Observed) Decision {
	switch a := o.Admission; {
	case o.Recorded != nil:
		return o.afterwards()
	case a == nil:
		return o.queue()
	case a.End != nil:
		return report(*a.End)
	case o.setBack() != "":
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonLedgerRolledBack, Message: o.setBack()})
	case o.loose():
		return Decision{Do: []Effect{Hold{}}, Again: true}
	case a.Unreadable != "":
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonIncompatibleSession, Message: a.Unreadable})
	case o.Taken != "":
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonNameTaken, Message: o.Taken})
	case a.live() != nil && o.Sighting.State == Ended:
		return Decision{Do: o.closed(), Again: true}
	case a.CancelledAt.IsZero() && o.stopWanted():
		return Decision{Do: []Effect{Cancel{}}, Again: true}
	case !a.CancelledAt.IsZero():
		return o.cancel()
	case a.Outcome != nil:
		return o.settle()
	case a.newest() == nil:
		return o.start(AttemptKey{})
	case a.live() != nil:
		return o.watch()
	default:
		return o.retry()
	}
}

// loose reports whether the run could be deleted without us stopping it first: an installation that ended has let it go, and this one
// is the next. A run that an earlier version holds does not carry its UID yet.
func (o Observed) loose() bool {
	return (!o.Held || o.Unmarked) && !o.Deleting && !o.NamespaceGoing
}

// queue decides about a run that the ledger does not know. Nothing of it exists outside its object, so its end needs no ledger.
func (o Observed) queue() Decision {
	switch {
	case o.Of != "":
		return report(o.restored())
	case o.setBack() != "":
		return report(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonLedgerRolledBack, Message: o.setBack(), At: o.Now})
	case o.stopWanted():
		return report(End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "cancelled before it was admitted", At: o.Now})
	case o.Refused != nil:
		return report(*o.Refused)
	case o.Waiting != nil && !o.Now.Before(o.Queued.Add(ReadyWithin)):
		return report(End{Phase: v1alpha1.RunFailed, Code: o.Waiting.Reason, Message: fmt.Sprintf("gave up after %.0f seconds: %s", ReadyWithin.Seconds(), o.Waiting.Message), At: o.Now})
	case o.Waiting != nil:
		return Decision{
			Report: Report{Phase: v1alpha1.RunQueued, Reason: o.Waiting.Reason, Message: o.Waiting.Message},
			Wake:   earlier(o.Queued.Add(ReadyWithin), o.Now.Add(askEvery)),
		}
	case !o.Held || o.Unmarked:
		return Decision{Do: []Effect{Hold{}, Admit{}}, Again: true}
	default:
		return Decision{Do: []Effect{Admit{}}, Again: true}
	}
}

// cancel waits for the pod to stop, but not for ever: the ledger refuses whatever a late one does.
func (o Observed) cancel() Decision {
	a := o.Admission
	until := a.CancelledAt.Add(StopWithin)
	ended := a.Outcome != nil || a.live() == nil || o.Sighting.State == Unseen
	if ended || o.NamespaceGoing || !o.Now.Before(until) {
		message := "cancelled by spec.desiredState"
		if !o.CancelWanted {
			message = "cancelled by its deletion"
		}
		return o.finish(End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: message})
	}
	d := Decision{
		Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonCancelling, Message: "nothing new begins; waiting for the segment to stop", CancelRequested: true},
		Wake:   until,
	}
	if o.Sighting.State != Stopping {
		d.Do = []Effect{Stop{a.live().AttemptKey}}
	}
	return d
}

// settle decides what follows from an outcome. The attempt that left it is over, though its container may not be.
func (o Observed) settle() Decision {
	a := o.Admission
	if a.live() != nil {
		return Decision{Do: []Effect{Close{a.live().AttemptKey, yielded}}, Again: true}
	}
	out := a.Outcome
	next := AttemptKey{Segment: a.newest().Segment + 1}
	switch {
	case out.Yield == contract.YieldCompleted:
		return o.finish(End{Phase: v1alpha1.RunSucceeded, Code: v1alpha1.ReasonCompleted, Message: "the agent gave its answer"})
	case out.Yield == contract.YieldCeiling && out.Result != "":
		return o.finish(End{Phase: v1alpha1.RunSucceeded, Code: v1alpha1.ReasonLimitReached, Message: "stopped with a partial result: " + out.Message})
	case out.Yield == contract.YieldCeiling:
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonLimitReached, Message: out.Message})
	case out.Yield == contract.YieldCancelled:
		return o.finish(End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "cancelled"})
	case out.Yield == contract.YieldFailed:
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: out.Code, Message: out.Message})
	case out.Yield == contract.YieldWaiting:
		return o.wait()
	case out.Yield == contract.YieldCheckpoint && next.Segment-a.Waits < int(a.Terms.Limits.Segments):
		return o.start(next)
	case out.Yield == contract.YieldCheckpoint:
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonLimitReached, Message: fmt.Sprintf("limits.segments: %d of %d used", next.Segment-a.Waits, a.Terms.Limits.Segments)})
	default:
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonIncompatibleSession, Message: fmt.Sprintf("a segment left the outcome %q, which this version does not know", out.Yield)})
	}
}

// watch decides about an attempt that goes on.
func (o Observed) watch() Decision {
	a := o.Admission
	live := a.live()
	switch startBy := o.begun().Add(StartWithin); {
	case o.Sighting.State == Unseen && o.Blocked == "": // its row was written and its Job was not
		return o.start(live.AttemptKey)
	case o.Sighting.State == Unseen && !o.Now.Before(startBy):
		return o.notStarted(o.Blocked)
	case o.Sighting.State == Unseen: // nobody tells when the answer would be another
		return starting(live.Segment, o.Blocked, earlier(startBy, o.Now.Add(askEvery)))
	case o.Sighting.State == Pending && o.Now.Before(live.BegunAt.Add(Patience)):
		return starting(live.Segment, "", live.BegunAt.Add(Patience))
	case o.Sighting.State == Pending && o.Sighting.Held:
		d := starting(live.Segment, o.Sighting.Why, o.Now.Add(askWhy))
		d.Report.Reason = v1alpha1.ReasonPodQueued
		return d
	case o.Sighting.State == Pending && !o.Now.Before(startBy):
		return o.notStarted(o.Sighting.Why)
	case o.Sighting.State == Pending:
		return starting(live.Segment, o.Sighting.Why, earlier(startBy, o.Now.Add(askWhy)))
	case !a.LapsesAt.IsZero() && !o.Now.Before(a.LapsesAt):
		return giveUp(live.AttemptKey, "its process has been silent for longer than its lease")
	case !o.Now.Before(startBy.Add(a.Terms.PodTime() + contract.StopGrace)): // on a node that is lost a pod seems to run for ever
		return giveUp(live.AttemptKey, "its pod has outlived its deadline")
	default:
		d := Decision{
			Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonRunning, Message: fmt.Sprintf("segment %d is at work", live.Segment)},
			Wake:   o.Now.Add(lookEvery),
		}
		if !a.LapsesAt.IsZero() { // no sooner and no later is a silent process known as such
			d.Wake = earlier(d.Wake, a.LapsesAt)
		}
		return d
	}
}

// begun is since when the live attempt has its time to start: in a queue none of it runs.
func (o Observed) begun() time.Time { return later(o.Admission.live().BegunAt, o.Sighting.Released) }

// starting waits for a pod, and says what holds it up.
func starting(segment int, why string, wake time.Time) Decision {
	message := contract.Clip(because(fmt.Sprintf("segment %d waits for its pod", segment), why), contract.MaxMessage)
	return Decision{Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: message}, Wake: wake}
}

// notStarted ends a run whose pod has had its time to start.
func (o Observed) notStarted(why string) Decision {
	message := fmt.Sprintf("the pod of segment %d did not start within %.0f seconds", o.Admission.live().Segment, StartWithin.Seconds())
	return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonPodNotStarted, Message: because(message, why)})
}

func because(message, why string) string {
	if why == "" {
		return message
	}
	return message + ": " + why
}

// giveUp ends an attempt that nobody will see end, so that its segment is taken up by another.
func giveUp(k AttemptKey, message string) Decision {
	return Decision{Do: []Effect{Stop{k}, Close{k, AttemptEnd{Class: Lost, Message: message}}}, Again: true}
}

// closed ends the live attempt as it was seen to end.
func (o Observed) closed() []Effect {
	c := Close{o.Admission.live().AttemptKey, o.seenEnd()}
	if o.Sighting.Suspended {
		return []Effect{Stop{c.AttemptKey}, c}
	}
	return []Effect{c}
}

// seenEnd is how the live attempt was seen to end. A process that ends well without an outcome while the run is
// wanted has not kept the contract, and that counts as a crash.
func (o Observed) seenEnd() AttemptEnd {
	e, a := o.Sighting.End, o.Admission
	if e.Class == Yielded && a.Outcome == nil && a.CancelledAt.IsZero() && o.Recorded == nil {
		e.Class, e.Message = Crashed, "exit code 0 without an outcome"
	}
	if o.Sighting.Pause > 0 {
		e.NotBefore = o.Now.Add(o.Sighting.Pause)
	}
	return e
}

// retry decides about a segment whose newest attempt ended without an outcome. It is the only place that starts a segment again.
func (o Observed) retry() Decision {
	a := o.Admission
	last := a.newest()
	counted := 0
	for _, t := range a.Attempts {
		if t.counted() {
			counted++
		}
	}
	if counted >= int(a.Terms.Retry.MaxAttempts) {
		code := v1alpha1.ReasonPoisonSegment
		if last.Class == Faulted {
			code = string(last.Code)
		}
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: code, Message: fmt.Sprintf("segment %d failed %d times, the last time: %s", last.Segment, counted, last.Message)})
	}
	if unreached(a.Attempts) {
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonLedgerUnreachable, Message: fmt.Sprintf(
			"the manager reaches Postgres, and for %.0f minutes no attempt at segment %d did: %s", ReachWithin.Minutes(), last.Segment, last.Message)})
	}
	due := last.NotBefore
	if due.IsZero() {
		due = last.EndedAt.Add(budget.Pause(a.Terms.Retry, len(a.Attempts), a.Seed))
	}
	if o.Now.Before(due) {
		return Decision{
			Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonBackingOff, Message: fmt.Sprintf("attempt %d at segment %d ended (%s): %s", last.Attempt, last.Segment, last.Class, last.Message)},
			Wake:   due,
		}
	}
	return o.start(AttemptKey{last.Segment, last.Attempt + 1})
}

// unreached reports whether the newest attempts, one after the other, did nothing but fail to reach the ledger, for too
// long. The manager has reached it at the beginning and at the end of each.
func unreached(all []Attempt) bool {
	n := len(all)
	first := n
	for first > 0 && all[first-1].Class == Faulted && all[first-1].Code == contract.FaultLedger {
		first--
	}
	return n-first >= reachTries && all[n-1].EndedAt.Sub(all[first].BegunAt) >= ReachWithin
}

// afterwards decides about a run whose status says that it has ended.
func (o Observed) afterwards() Decision {
	var d Decision
	if a := o.Admission; a != nil && a.End == nil {
		d.Do = append(d.Do, Finish{*o.Recorded})
	}
	if a := o.Admission; a != nil && a.live() != nil {
		d.Do = append(d.Do, o.leftOver()...)
	}
	due := o.Recorded.At.Add(o.TTL)
	switch {
	case o.Deleting && o.Held:
		d.Do = append(d.Do, LetGo{})
	case o.Deleting, o.TTL == 0:
	case !o.Now.Before(due):
		d.Do = append(d.Do, Remove{})
	default:
		d.Wake = due
	}
	return d
}

// leftOver ends the attempt that was live when its run ended. Its pod is stopped first: once the attempt is closed nobody
// looks for it.
func (o Observed) leftOver() []Effect {
	a := o.Admission
	k := a.live().AttemptKey
	switch s := o.Sighting.State; {
	case s == Ended:
		return o.closed()
	case a.Outcome != nil:
		return []Effect{Close{k, yielded}}
	case s == Pending || s == Working:
		return []Effect{Stop{k}, Close{k, stopped}}
	default:
		return []Effect{Close{k, stopped}}
	}
}

// The ends of attempts whose processes nobody saw end.
var (
	yielded = AttemptEnd{Class: Yielded, Message: "it left an outcome"}
	stopped = AttemptEnd{Class: Stopped, Message: "its run has ended"}
)

// start begins an attempt and looks again before long: the Job may have been there already, of a manager that was killed, and have
// ended before anybody watched it.
func (o Observed) start(k AttemptKey) Decision {
	d := starting(k.Segment, "", o.Now.Add(Patience))
	d.Do = []Effect{Start{k}}
	return d
}

// finish ends the run in the ledger first; the next look finds the end there and reports it.
func (o Observed) finish(e End) Decision {
	if !word(e.Code) { // the API server would refuse the status for ever
		e.Message = fmt.Sprintf("a segment left the code %q, which is none: %s", contract.Clip(e.Code, 64), e.Message)
		e.Code = v1alpha1.ReasonIncompatibleSession
	}
	e.Message = contract.Clip(e.Message, contract.MaxMessage)
	e.At = o.Now
	return Decision{Do: []Effect{Finish{e}}, Again: true}
}

// word reports whether the code can stand in a condition and in status.error. It comes from a segment, and so perhaps from another version.
func word(code string) bool {
	for i, c := range code {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return code != "" && len(code) <= 64
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func report(e End) Decision {
	return Decision{Report: Report{Phase: e.Phase, Reason: e.Code, Message: e.Message, Ended: true, At: e.At}}
}
