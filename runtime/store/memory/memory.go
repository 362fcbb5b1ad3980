// Package memory is a store for tests: the same laws as package postgres, kept in a map.
package memory

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

// Store is a segment.Store, and as much of a ledger as tests need.
type Store struct {
	now func() time.Time

	mu       sync.Mutex
	bugs     Bugs
	runs     map[types.UID]*run
	policies []contract.PolicySet // of all namespaces; version n is at n-1
	seq      int64                // of the newest delivery
}

var _ segment.Store = (*Store)(nil)

// New makes a store that reads the time from now.
func New(now func() time.Time) *Store {
	return &Store{now: now, runs: map[types.UID]*run{}}
}

// Run is what the store knows of a run.
type Run struct {
	Snapshot   contract.Snapshot
	Generation int64
	// Held says that somebody has the claim, though the lease may have lapsed.
	Held       bool
	Cancelled  bool
	Final      bool
	Transcript segment.Transcript
	Journal    segment.Journal
	// Intents are those of the calls that were begun, as they were begun last.
	Intents  map[segment.CallKey]segment.Intent
	Inbox    []contract.Delivery
	Outcomes map[int]contract.Outcome
	Usage    []segment.Usage
	Active   time.Duration
}

type run struct {
	snapshot   []byte
	decoded    *contract.Snapshot // once somebody has read it
	generation int64
	holder     bool
	pod        string // whose it is, if there is a holder
	segment    int    // what the newest claim was for
	attempt    int
	beat       time.Time
	leaseUntil time.Time
	active     time.Duration
	cancelled  bool
	final      bool
	entries    []entry
	calls      map[segment.CallKey]call
	inbox      []contract.Delivery
	outcomes   map[int]outcome
	usage      map[usageKey]segment.Usage
	order      []usageKey
	// terminated are the generations whose processes were seen to end.
	terminated map[int64]bool
}

type entry struct {
	record.Record
	generation int64
}

type outcome struct {
	record.Outcome
	generation int64
	at         time.Time
}

func (o outcome) equals(p outcome) bool {
	return o.generation == p.generation && reflect.DeepEqual(o.Outcome, p.Outcome)
}

type usageKey struct {
	turn, try  int
	generation int64
}

// Admit makes the run; of one that is admitted already nothing changes.
func (s *Store) Admit(snapshot contract.Snapshot) error {
	body, _, err := snapshot.Encode()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[snapshot.Run.UID] == nil {
		s.runs[snapshot.Run.UID] = &run{
			snapshot: body, calls: map[segment.CallKey]call{}, outcomes: map[int]outcome{}, usage: map[usageKey]segment.Usage{},
			terminated: map[int64]bool{},
		}
	}
	return nil
}

// Cancel commits the cancel of the run.
func (s *Store) Cancel(uid types.UID) { s.change(uid, func(r *run) { r.cancelled = true }) }

// Finish ends the run for good.
func (s *Store) Finish(uid types.UID) {
	s.change(uid, func(r *run) {
		if !r.final {
			r.final, r.holder, r.leaseUntil = true, false, time.Time{}
			r.generation++
		}
	})
}

// Plant adds a stored entry as another version may have written it.
func (s *Store) Plant(uid types.UID, stored record.Record) {
	s.change(uid, func(r *run) { r.entries = append(r.entries, entry{stored, r.generation}) })
}

// Replace puts another body in the place of the snapshot's.
func (s *Store) Replace(uid types.UID, body []byte) {
	s.change(uid, func(r *run) { r.snapshot, r.decoded = body, nil })
}

func (s *Store) change(uid types.UID, f func(*run)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[uid]; r != nil {
		f(r)
	}
}

// Look tells what the store knows of the run; ok is false if it was never admitted. What does not parse is left out.
func (s *Store) Look(uid types.UID) (_ Run, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[uid]
	if r == nil {
		return Run{}, false
	}
	out := Run{
		Generation: r.generation, Held: r.holder, Cancelled: r.cancelled, Final: r.final, Active: r.active,
		Journal: r.journal(), Intents: map[segment.CallKey]segment.Intent{}, Inbox: slices.Clone(r.inbox), Outcomes: map[int]contract.Outcome{},
	}
	for k, c := range r.calls {
		if c.Begun {
			out.Intents[k] = c.intent
		}
	}
	out.Snapshot, _ = contract.DecodeSnapshot(r.snapshot)
	out.Transcript, _ = record.DecodeAll(r.records())
	for n, o := range r.outcomes {
		out.Outcomes[n], _ = o.Decode()
	}
	for _, k := range r.order {
		out.Usage = append(out.Usage, r.usage[k])
	}
	return out, true
}

// read decodes the snapshot, once: it never changes.
func (r *run) read() (contract.Snapshot, error) {
	if r.decoded == nil {
		s, err := contract.DecodeSnapshot(r.snapshot)
		if err != nil {
			return s, err
		}
		r.decoded = &s
	}
	return *r.decoded, nil
}

func (r *run) records() []record.Record {
	out := make([]record.Record, 0, len(r.entries))
	for _, e := range r.entries {
		out = append(out, e.Record)
	}
	return out
}

// Claim takes the run for one segment.
func (s *Store) Claim(ctx context.Context, a segment.Ask) (segment.Claim, segment.Session, error) {
	if err := ctx.Err(); err != nil {
		return segment.Claim{}, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, now := s.runs[a.Run], s.now()
	if r == nil {
		return segment.Claim{}, nil, fmt.Errorf("claiming run %s: %w", a.Run, segment.ErrNotAdmitted)
	}
	number := a.Segment
	if number < 0 {
		number = 0
		for n := range r.outcomes {
			number = max(number, n+1)
		}
	}
	if _, ended := r.outcomes[number]; ended && !s.bugs.SecondOutcome || r.cancelled || r.final {
		return segment.Claim{}, nil, fmt.Errorf("claiming run %s: %w", a.Run, segment.ErrOver)
	}
	if r.holder && !r.leaseUntil.Before(now) && !s.bugs.LiveLease {
		return segment.Claim{}, nil, fmt.Errorf("claiming run %s: %w", a.Run, segment.ErrBusy)
	}
	if !s.bugs.SameGeneration || r.generation == 0 {
		r.generation++
	}
	r.pod = a.Holder
	r.holder, r.segment, r.attempt, r.beat, r.leaseUntil = true, number, a.Attempt, now, now.Add(contract.LeaseTTL)

	c := segment.Claim{
		Generation: r.generation, Segment: number, Active: r.active,
		Journal: s.bugs.misread(r.journal()), Inbox: slices.Clone(r.inbox), Policy: s.policy(),
	}
	for n, o := range r.outcomes {
		if n < number && o.Yield == string(contract.YieldWaiting) {
			c.Waits++
		}
	}
	session := &session{store: s, run: r, generation: r.generation, segment: number}
	var err error
	if c.Snapshot, err = r.read(); err == nil {
		c.Transcript, err = record.DecodeAll(r.records())
	}
	if err != nil {
		return c, session, fmt.Errorf("loading run %s: %w", a.Run, err)
	}
	return c, session, nil
}
