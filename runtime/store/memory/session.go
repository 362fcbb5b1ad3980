package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

// session is one claim.
type session struct {
	store      *Store
	run        *run
	generation int64
	segment    int
}

// pass is the fence: f is carried out under the claim, or not at all.
func (s *session) pass(ctx context.Context, f func() error) (segment.Pulse, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.locked(ctx, f)
}

func (s *session) locked(ctx context.Context, f func() error) (segment.Pulse, error) {
	if err := ctx.Err(); err != nil {
		return segment.Pulse{}, err
	}
	r, now := s.run, s.store.now()
	if (r.generation != s.generation || r.final || !r.holder) && !s.store.bugs.NoFence {
		return segment.Pulse{}, segment.ErrFenced
	}
	if err := f(); err != nil {
		return segment.Pulse{}, err
	}
	r.active += min(now.Sub(r.beat), contract.LeaseTTL)
	r.beat, r.leaseUntil = now, now.Add(contract.LeaseTTL)
	return segment.Pulse{Cancelled: r.cancelled, Active: r.active, PolicyVersion: s.store.policy().Version}, nil
}

// Append adds entries and usage.
func (s *session) Append(ctx context.Context, at int, entries []segment.Entry, usage []segment.Usage) (segment.Pulse, error) {
	return s.pass(ctx, func() error {
		var add []entry
		for _, e := range entries {
			stored, err := record.Encode(e)
			if err != nil {
				return err
			}
			add = append(add, entry{stored, s.generation})
		}
		there := s.run.entries
		switch {
		case at > len(there) && len(add) > 0:
			return fmt.Errorf("position %d is beyond the end of the transcript", at)
		case at < len(there) && len(add) > 0:
			if s.store.bugs.NoFence && s.generation != s.run.generation {
				break
			}
			if len(there) < at+len(add) || !slices.Equal(there[at:at+len(add)], add) {
				return segment.ErrFenced
			}
			return nil // a repetition
		}
		s.run.entries = append(there, add...)
		s.use(usage)
		return nil
	})
}

// Beat renews the lease.
func (s *session) Beat(ctx context.Context) (segment.Pulse, error) {
	return s.pass(ctx, func() error { return nil })
}

// Yield writes the outcome and gives the claim back.
func (s *session) Yield(ctx context.Context, o contract.Outcome, usage []segment.Usage) error {
	stored, err := record.EncodeOutcome(o)
	if err != nil {
		return err
	}
	own := outcome{Outcome: stored, generation: s.generation, at: s.store.now()}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	_, err = s.locked(ctx, func() error {
		if _, there := s.run.outcomes[s.segment]; there && !s.store.bugs.SecondOutcome {
			return segment.ErrFenced
		}
		s.run.outcomes[s.segment] = own
		s.use(usage)
		return nil
	})
	if err == segment.ErrFenced && s.run.outcomes[s.segment].equals(own) { //nolint:errorlint // our own, unwrapped
		return nil // a repetition
	}
	if err == nil {
		s.run.holder, s.run.leaseUntil = false, time.Time{}
	}
	return err
}

// Release gives the claim back without an outcome.
func (s *session) Release(ctx context.Context, usage []segment.Usage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	r, now := s.run, s.store.now()
	if (r.generation != s.generation || r.final) && !s.store.bugs.NoFence {
		return segment.ErrFenced
	}
	if r.holder {
		r.active += min(now.Sub(r.beat), contract.LeaseTTL)
	}
	r.beat, r.holder, r.leaseUntil = now, false, time.Time{}
	s.use(usage)
	return nil
}

func (s *session) use(usage []segment.Usage) {
	for _, u := range usage {
		k := usageKey{u.Turn, u.Try, s.generation}
		if _, there := s.run.usage[k]; !there {
			s.run.usage[k] = u
			s.run.order = append(s.run.order, k)
		}
	}
}
