package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/approval/decide"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// answerAll is the approval controller's Reconcile, for one request after the other.
func (r *replica) answerAll(c *routine) (time.Time, error) {
	var next time.Time
	var failed error
	for _, q := range slices.Clone(r.cache.requests) {
		at, err := r.answer(c, q)
		if err != nil {
			failed = err
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next, failed
}

// answer is the approval controller's reconcile. The guard always holds.
func (r *replica) answer(c *routine, q *v1alpha1.ApprovalRequest) (time.Time, error) {
	o := decide.Observed{Request: q, RunGone: r.cache.run.gone && r.w.cluster.run.gone, Guard: decide.Holds}
	turn, index := int(*q.Spec.Call.Turn), int(*q.Spec.Call.Index)
	err := r.write(c, "question about "+q.Name, func() (err error) {
		o.Question, err = r.w.pg.Question(context.Background(), runUID, turn, index, q.UID)
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	if q.Status.Phase == "" && q.Spec.Decision.Verdict == v1alpha1.VerdictApproved {
		for _, other := range r.w.cluster.requests {
			same := other.Spec.Call.Digest == q.Spec.Call.Digest && *other.Spec.Call.Turn == *q.Spec.Call.Turn && *other.Spec.Call.Index == *q.Spec.Call.Index
			if same && other.UID != q.UID && other.Status.Phase == v1alpha1.ApprovalApproved {
				o.Approvers = append(o.Approvers, other.Spec.Decision.By)
			}
		}
	}
	d := decide.Decide(o)
	if err := r.tellRequest(c, &q, d.Report); err != nil {
		if err == errGone { //nolint:errorlint // our own
			return time.Time{}, nil
		}
		return time.Time{}, err
	}
	if d.Deliver != nil {
		err := r.write(c, "deliver "+string(d.Deliver.Phase)+" of "+q.Name, func() error {
			err := r.w.pg.Deliver(context.Background(), runUID, *d.Deliver)
			if err == nil {
				r.w.laws.delivered(*d.Deliver)
			}
			return err
		})
		if errors.Is(err, ledger.ErrSamePerson) {
			return time.Time{}, r.tellRequest(c, &q, o.SamePerson())
		}
		if err != nil {
			return time.Time{}, err
		}
	}
	if d.Poke {
		r.workers[runs].due = true
	}
	if d.Wake.IsZero() {
		return time.Time{}, nil
	}
	return r.w.now.Add(d.Wake.Sub(o.Now)), nil
}

// tellRequest writes a request's status, unless it says so already. A request that was changed since it was read is a conflict.
func (r *replica) tellRequest(c *routine, q **v1alpha1.ApprovalRequest, rep decide.Report) error {
	if rep.Phase == "" || rep.Phase == (*q).Status.Phase || rep.Phase == v1alpha1.ApprovalPending {
		return nil
	}
	return r.write(c, "status "+string(rep.Phase)+" of "+(*q).Name, func() error {
		for i, live := range r.w.cluster.requests {
			switch {
			case live.UID != (*q).UID:
			case live != *q:
				return errConflict
			default:
				changed := *live
				changed.Status.Phase = rep.Phase
				r.w.cluster.requests[i] = &changed
				r.w.cluster.changed(ofRequests)
				*q = &changed
				return nil
			}
		}
		return errGone
	})
}

// project is the policy controller's Reconcile.
func (r *replica) project(c *routine) (time.Time, error) {
	edits, set := r.cache.edits, policies[r.cache.policy]
	return time.Time{}, r.write(c, "project policy "+itoa(edits), func() error {
		err := r.w.pg.Project(context.Background(), namespaceUID, set.at(edits))
		if errors.Is(err, ledger.ErrStale) { // the cache will show a newer one
			return nil
		}
		return err
	})
}

// sweep is sweep.Sweeper's Sweep. It does nothing about a run whose object is there, and so it is played only once that is gone.
func (r *replica) sweep(c *routine) (time.Time, error) {
	again, ctx := r.w.now.Add(time.Minute), context.Background()
	var found []contract.Identity
	err := r.write(c, "list unfinished runs", func() (err error) {
		found, err = r.w.pg.Unfinished(ctx, r.w.now.Add(r.offset-5*time.Minute), 1)
		return err
	})
	if err != nil || len(found) == 0 {
		return again, nil //nolint:nilerr // as the Sweeper: at the next turn
	}
	if r.write(c, "cancel what has no object", func() error { return r.w.pg.Cancel(ctx, runUID) }) != nil {
		return again, nil //nolint:nilerr // as above
	}
	_ = r.write(c, "finish what has no object", func() error {
		_, err := r.w.pg.Finish(ctx, runUID, lifecycle.End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "its object was deleted"})
		return err
	})
	return again, nil
}
