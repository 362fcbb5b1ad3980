package segment

import (
	"context"
	"errors"
	"time"
)

const (
	// pollEvery is the pause between two tries at a claim that another process holds.
	pollEvery = time.Second
	// reachWithin is how long a store that does not answer is tried before the attempt is given up.
	reachWithin = 30 * time.Second
)

// Take claims the run, waiting for a live lease to end: leaving early with exit code 0 would complete the Job and have
// its healthy other pod killed. The error is ErrOver, ErrNotAdmitted, contract.ErrSchema, or ErrUnavailable when the store did not
// answer for thirty seconds on end.
func Take(ctx context.Context, store Store, a Ask) (Claim, Session, error) {
	var silentSince time.Time
	for {
		claim, session, err := store.Claim(ctx, a)
		switch {
		case errors.Is(err, ErrBusy):
			silentSince = time.Time{}
		case errors.Is(err, ErrUnavailable):
			if silentSince.IsZero() {
				silentSince = time.Now()
			}
			if time.Since(silentSince) >= reachWithin {
				return Claim{}, nil, err
			}
		default:
			return claim, session, err
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return Claim{}, nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
