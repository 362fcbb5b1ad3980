package lifecycle

import (
	"fmt"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Request is an ApprovalRequest of the run as it exists.
type Request struct {
	Turn, Index int
	Digest      string
	Seat        int32
	// Withdrawn says that it will not be answered.
	Withdrawn bool
	Until     time.Time
}

// RequestKey names a request of a run. Ordinal is how often the seat was asked before, in vain.
type RequestKey struct {
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
func (r Raise) Key() RequestKey { return RequestKey{r.Ask.Turn, r.Ask.Index, r.Seat, r.Ordinal} }

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
	if first := w.Asks[0]; contract.Answered(a.Inbox, first.Turn, first.Index, first.Digest, first.Seats).Phase != v1alpha1.ApprovalPending {
		// Another segment would read the same and park again.
		return o.finish(End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonIncompatibleSession, Message: "a segment waits for a decision that it had seen"})
	}
	var (
		d    Decision
		open Waiting
	)
	for _, ask := range w.Asks {
		for _, seat := range contract.Answered(a.Inbox, ask.Turn, ask.Index, ask.Digest, ask.Seats).Open {
			until := a.OutcomeAt.Add(time.Duration(ask.ExpiresSeconds) * time.Second).Truncate(time.Second)
			existing, vain := o.asked(ask, seat)
			if existing == nil {
				d.Do = append(d.Do, Raise{Ask: ask, Seat: seat, Ordinal: vain})
			} else {
				until = existing.Until
			}
			open.Requests = append(open.Requests, RequestKey{ask.Turn, ask.Index, seat, vain})
			if open.Until.IsZero() || until.Before(open.Until) {
				open.Until = until
			}
		}
	}
	d.Report = Report{Phase: v1alpha1.RunWaiting, Reason: v1alpha1.ReasonAwaitingApproval, Message: asking(w.Asks[0], open), Waiting: &open}
	d.Wake = open.Until.Add(grace)
	return d
}

// asked is the request that stands for a seat, or nil, and how often the seat was asked in vain.
func (o Observed) asked(ask contract.Ask, seat int32) (*Request, int) {
	vain := 0
	for i := range o.Requests {
		r := &o.Requests[i]
		switch {
		case r.Turn != ask.Turn || r.Index != ask.Index || r.Seat != seat || r.Digest != ask.Digest:
		case r.Withdrawn:
			vain++
		default:
			return r, vain
		}
	}
	return nil, vain
}

// asking says what is waited for, in a sentence.
func asking(first contract.Ask, open Waiting) string {
	message := fmt.Sprintf("%s wants a decision of pool %s by %s", first.Tool, first.Pool, open.Until.UTC().Format("2006-01-02 15:04:05Z"))
	if n := len(open.Requests); n > 1 {
		message += fmt.Sprintf("; %d requests are open", n)
	}
	return message
}
