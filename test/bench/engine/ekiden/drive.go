package ekiden

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// drive is the manager's reconciler without Kubernetes: it looks into the ledger, decides, acts, and waits for the next reason to look.
func (k *Killed) drive(ctx context.Context, run types.UID) error {
	var p *pod
	for {
		o, err := k.observe(ctx, run, p)
		if err != nil {
			return err
		}
		d := lifecycle.Decide(o)
		for _, e := range d.Do {
			if p, err = k.act(ctx, run, p, e); err != nil {
				return fmt.Errorf("%T of run %s: %w", e, run, err)
			}
		}
		switch {
		case d.Again:
		case d.Report.Ended:
			return nil
		default:
			if err := rest(ctx, p, d.Wake.Sub(o.Now)); err != nil {
				return err
			}
		}
	}
}

func (k *Killed) observe(ctx context.Context, run types.UID, p *pod) (lifecycle.Observed, error) {
	rec, err := k.ledger.Look(ctx, run)
	if err != nil {
		return lifecycle.Observed{}, err
	}
	o := lifecycle.Observed{Now: rec.Now, Held: true, Admission: rec.Admission(run)}
	if n := len(rec.Attempts); n > 0 && rec.Attempts[n-1].EndedAt.IsZero() {
		o.Sighting = p.sight(rec.Attempts[n-1].AttemptKey)
	}
	return o, nil
}

func (k *Killed) act(ctx context.Context, run types.UID, p *pod, e lifecycle.Effect) (*pod, error) {
	switch e := e.(type) {
	case lifecycle.Start:
		if err := k.ledger.BeginAttempt(ctx, run, e.AttemptKey); err != nil {
			return p, err
		}
		started, err := k.node.start(run, e.AttemptKey)
		if err != nil {
			return p, err
		}
		return started, k.ledger.StoreJob(ctx, run, e.AttemptKey, types.UID(uuid.NewString()))
	case lifecycle.Close:
		return p, k.ledger.EndAttempt(ctx, run, e.AttemptKey, e.End)
	case lifecycle.Finish:
		_, err := k.ledger.Finish(ctx, run, e.End)
		return p, err
	case lifecycle.Raise: // the person who is asked says yes at once
		return p, k.ledger.Deliver(ctx, run, contract.Delivery{
			Request: types.UID(uuid.NewString()), Turn: e.Ask.Turn, Index: e.Ask.Index, Digest: e.Ask.Digest, Seat: e.Seat, Seats: e.Ask.Seats,
			Phase: v1alpha1.ApprovalApproved, By: fmt.Sprintf("person-%d", e.Seat),
		})
	case lifecycle.Stop:
		return p, p.cmd.Process.Kill()
	default:
		return p, fmt.Errorf("no way to carry out %T", e)
	}
}

// rest waits until the process ends or the time has come. Where there is no process, something has just been decided.
func rest(ctx context.Context, p *pod, d time.Duration) error {
	var ended <-chan struct{}
	if p != nil {
		select {
		case <-p.ended: // it was seen already: only time helps
		default:
			ended = p.ended
		}
	}
	if ended == nil {
		d = min(d, 20*time.Millisecond)
	}
	t := time.NewTimer(max(d, time.Millisecond))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ended:
	case <-t.C:
	}
	return nil
}
