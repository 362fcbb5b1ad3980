package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Request is an ApprovalRequest of the run as it exists.
type Request struct {
	UID         types.UID
	Type        v1alpha1.ApprovalType
	Turn, Index int
	Digest      string
	Seat        int32
	// Ordinal is how often the seat was asked before, Pool who was asked.
	Ordinal int
	Pool    string
	// Withdrawn says that it will not be answered.
	Withdrawn bool
	Until     time.Time
}

// RequestKey names a request of a run. Ordinal is how often the seat was asked before: in vain, or, of a call that was made again
// because of the answer, about what came of it then.
type RequestKey struct {
	Type        v1alpha1.ApprovalType
	Turn, Index int
	Seat        int32
	Ordinal     int
}

// Raise asks people about one seat of a call.
type Raise struct {
	Ask     contract.Ask
	Seat    int32
	Ordinal int
}

// Key names the request that it makes.
func (r Raise) Key() RequestKey { return keyOf(r.Ask, r.Seat, r.Ordinal) }

func keyOf(a contract.Ask, seat int32, ordinal int) RequestKey {
	return RequestKey{cmp.Or(a.Type, v1alpha1.ApprovalCall), a.Turn, a.Index, seat, ordinal}
}

func (Raise) isEffect() {}

// Waiting is what a run that waits shows.
type Waiting struct {
	// Requests are the open ones, in the order in which the calls will run.
	Requests []RequestKey
	// Until is when the first of them expires.
	Until time.Time
}

// grace is how long after an expiry a run looks by itself, in case the poke that follows one was lost.
const grace = 5 * time.Second

// wait decides about a run that waits for people. It starts the next segment as soon as the first of its calls is decided,
// whenever the decision came: before the run parked, after, or while nobody looked.
func (o Observed) wait() Decision {
	a := o.Admission
	w := a.Outcome.Wait
	if w == nil || w.Over(a.Inbox) {
		return o.start(AttemptKey{Segment: a.newest().Segment + 1})
	}
	if w.Answer(w.Asks[0], a.Inbox).Phase != v1alpha1.ApprovalPending {
		// Another segment would read the same and park again.
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonIncompatibleSession, Message: "a segment waits for a decision that it had seen"})
	}
	var (
		d    Decision
		open Waiting
		// first is what the first open request wants; unasked says that somebody should be asked and cannot be.
		first   string
		unasked bool
	)
	for _, ask := range w.Asks {
		answer := w.Answer(ask, a.Inbox)
		ask.Seats = answer.Seats // what was asked for stands, though a policy may have changed since
		for _, seat := range answer.Open {
			until := a.OutcomeAt.Add(time.Duration(ask.ExpiresSeconds) * time.Second).Truncate(time.Second)
			pool := ask.Pool
			existing, ordinal := o.asked(ask, seat)
			switch {
			case existing != nil:
				until, pool = existing.Until, existing.Pool
			case o.Blocked == "":
				d.Do = append(d.Do, Raise{Ask: ask, Seat: seat, Ordinal: ordinal})
			default: // the API server has just refused one
				unasked = true
			}
			if len(open.Requests) == 0 {
				first = wanted(ask, pool)
			}
			open.Requests = append(open.Requests, keyOf(ask, seat, ordinal))
			if open.Until.IsZero() || until.Before(open.Until) {
				open.Until = until
			}
		}
	}
	d.Report = Report{Phase: v1alpha1.RunWaiting, Reason: v1alpha1.ReasonAwaitingApproval, Message: asking(first, open), Waiting: &open}
	d.Wake = later(open.Until.Add(grace), o.Now.Add(askEvery)) // past the expiry somebody else is slow to say so
	if unasked && !o.Now.Before(open.Until) {
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonApprovalNotAsked, Message: because(first+", and until that was due nobody could be asked", o.Blocked)})
	}
	if unasked { // nobody tells when the answer would be another
		d.Report.Message = contract.Clip(because(d.Report.Message+", and nobody can be asked", o.Blocked), contract.MaxMessage)
		d.Wake = earlier(d.Wake, o.Now.Add(askEvery))
	}
	return d
}

// wanted says what is asked of a pool.
func wanted(ask contract.Ask, pool string) string {
	if ask.Type == v1alpha1.ApprovalIndeterminate {
		return fmt.Sprintf("nobody knows what a call of %s has done, and pool %s is asked", ask.Tool, pool)
	}
	return fmt.Sprintf("%s wants a decision of pool %s", ask.Tool, pool)
}

// asked is the request that stands for a seat and its ordinal, or nil and that of the next one. An ordinal is not used twice,
// though the request that had it may be gone. One whose answer the parked segment had seen asked about an earlier time.
func (o Observed) asked(ask contract.Ask, seat int32) (*Request, int) {
	next := 0
	for i := range o.Requests {
		r := &o.Requests[i]
		past := ask.Type == v1alpha1.ApprovalIndeterminate && o.Admission.Outcome.Wait.Seen(o.Admission.Inbox, r.UID)
		switch {
		case cmp.Or(r.Type, v1alpha1.ApprovalCall) != cmp.Or(ask.Type, v1alpha1.ApprovalCall):
		case r.Turn != ask.Turn || r.Index != ask.Index || r.Seat != seat || r.Digest != ask.Digest:
		case r.Withdrawn || past:
			next = max(next, r.Ordinal+1)
		default:
			return r, r.Ordinal
		}
	}
	return nil, next
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// asking says what is waited for, in a sentence.
func asking(first string, open Waiting) string {
	message := fmt.Sprintf("%s by %s", first, open.Until.UTC().Format("2006-01-02 15:04:05Z"))
	if n := len(open.Requests); n > 1 {
		message += fmt.Sprintf("; %d requests are open", n)
	}
	return message
}
