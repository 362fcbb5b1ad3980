package memory

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

// Row is what can be told of a run without copying what it holds.
type Row struct {
	Generation                int64
	Held                      bool
	Holder                    string // of the newest claim, also if it was given back
	Segment, Attempt          int
	LeaseUntil                time.Time
	Cancelled, Final          bool
	Entries, Usages, Outcomes int
	// Settled is how many calls have an outcome.
	Settled int
	Active  time.Duration
	// Waits is how many segments ended waiting.
	Waits int
}

// Row tells of a run; ok is false if it was never admitted.
func (s *Store) Row(uid types.UID) (_ Row, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[uid]
	if r == nil {
		return Row{}, false
	}
	out := Row{
		Generation: r.generation, Held: r.holder, Holder: r.pod, Segment: r.segment, Attempt: r.attempt, LeaseUntil: r.leaseUntil,
		Cancelled: r.cancelled, Final: r.final, Entries: len(r.entries), Usages: len(r.usage), Outcomes: len(r.outcomes), Active: r.active,
	}
	for _, c := range r.calls {
		if c.Result != nil {
			out.Settled++
		}
	}
	for _, o := range r.outcomes {
		if o.Yield == string(contract.YieldWaiting) {
			out.Waits++
		}
	}
	return out, true
}

// Call is one call of the journal; ok is false if it is not there.
func (s *Store) Call(uid types.UID, k segment.CallKey) (c segment.Call, ok bool) {
	s.change(uid, func(r *run) {
		var row call
		row, ok = r.calls[k]
		c = row.Call
	})
	return c, ok
}

// Outcome is that of a segment, and when it was left; ok is false if there is none.
func (s *Store) Outcome(uid types.UID, number int) (o contract.Outcome, at time.Time, ok bool) {
	s.change(uid, func(r *run) {
		var row outcome
		if row, ok = r.outcomes[number]; ok {
			o, _ = row.Decode()
			at = row.at
		}
	})
	return o, at, ok
}

// Inbox is what was decided about the run's calls, oldest first.
func (s *Store) Inbox(uid types.UID) (all []contract.Delivery) {
	s.change(uid, func(r *run) { all = slices.Clone(r.inbox) })
	return all
}

// Free gives back the claim of an attempt whose processes were seen to have ended.
func (s *Store) Free(uid types.UID, number, attempt int) {
	s.change(uid, func(r *run) {
		if r.generation > 0 && r.segment == number && r.attempt == attempt {
			r.terminated[r.generation], r.holder, r.leaseUntil = true, false, time.Time{}
		}
	})
}

// Drop gives back the claim of an attempt of whose processes nothing is known.
func (s *Store) Drop(uid types.UID, number, attempt int) {
	s.change(uid, func(r *run) {
		if r.generation > 0 && r.segment == number && r.attempt == attempt {
			r.holder, r.leaseUntil = false, time.Time{}
		}
	})
}

// Terminated says that the process of the newest claim was seen to end.
func (s *Store) Terminated(uid types.UID) {
	row, _ := s.Row(uid)
	s.Free(uid, row.Segment, row.Attempt)
}

// Bugs are faults that tests plant, to show that they would see them. None is there by itself.
type Bugs struct {
	// NoFence lets every claim write, however old.
	NoFence bool
	// SameGeneration gives each claim the generation of the one before it.
	SameGeneration bool
	// LiveLease grants a claim though another holds it.
	LiveLease bool
	// SecondOutcome writes an outcome over the one that is there.
	SecondOutcome bool
	// CancelUnseen begins calls of a run that is cancelled, PolicyUnseen those that were judged by an old policy.
	CancelUnseen, PolicyUnseen bool
	// AllGone has every process gone that has begun a call. WordsUnkept forgets by whose word a call was begun.
	AllGone, WordsUnkept bool
}

// Break plants bugs.
func (s *Store) Break(b Bugs) { s.bugs = b }

// Leave puts an outcome there as whoever has the login of a namespace may write it, and gives the claim back.
func (s *Store) Leave(uid types.UID, number int, o record.Outcome) {
	s.change(uid, func(r *run) {
		r.outcomes[number] = outcome{Outcome: o, generation: r.generation, at: s.now()}
		r.holder, r.leaseUntil = false, time.Time{}
	})
}
