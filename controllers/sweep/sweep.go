// Package sweep ends what nobody else will: runs in the ledger whose object is gone, logins of namespaces that are gone. And it
// deletes what is older than it is kept. What has an object is never swept: its reconciler looks after it.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	// every is the pause between two sweeps.
	every = time.Minute
	// settled is how old a run must be: a younger one may not be in every cache yet.
	settled = 5 * time.Minute
	// retired is how old a login must be before those that came before it are dropped: longer than a discovery's pod lives, and
	// than a node may go by a Secret that has changed.
	retired = 30 * time.Minute
	// most is how many unfinished runs one sweep looks at; far more than a cluster can carry.
	most = 100_000
)

// Sweeper sweeps once a minute, on the leader only. An interrupted sweep is taken up by the next one.
type Sweeper struct {
	// Live reads from the API server: a cache that lags would make the living look dead.
	Live   client.Reader
	Ledger ledger.Ledger
	Keep   Keep
	// rows is how many rows of a table the next Drop deletes at once.
	rows int
}

// NeedLeaderElection says that only the leader sweeps.
func (s *Sweeper) NeedLeaderElection() bool { return true }

// Start sweeps until ctx ends. A sweep that fails is logged and tried again at the next turn.
func (s *Sweeper) Start(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	s.rows = mostRows
	var due time.Time
	for {
		if err := s.Sweep(ctx, time.Now().Add(-settled)); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Error(err, "sweeping")
		}
		if now := time.Now(); now.After(due) {
			due = now.Add(dropEvery)
			s.dropSome(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// dropSome deletes for a while what is old. What is left then is left for the next time.
func (s *Sweeper) dropSome(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, dropFor)
	defer cancel()
	if err := s.Drop(within); err != nil && within.Err() == nil {
		logf.FromContext(ctx).Error(err, "deleting what is older than it is kept")
	}
}

// Sweep ends unfinished runs that were admitted before the instant and whose object is gone, and drops the logins of
// namespaces that are gone.
func (s *Sweeper) Sweep(ctx context.Context, before time.Time) error {
	runs, err := s.orphans(ctx, before)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range runs {
		if err := s.run(ctx, r); err != nil {
			errs = append(errs, fmt.Errorf("run %s/%s: %w", r.Namespace, r.Name, err))
		}
	}
	tenants, err := s.Ledger.Tenants(ctx)
	if err != nil {
		errs = append(errs, fmt.Errorf("listing namespaces with a login: %w", err))
	}
	for _, t := range tenants {
		if err := s.tenant(ctx, t); err != nil {
			errs = append(errs, fmt.Errorf("namespace %s: %w", t.Namespace, err))
		}
	}
	return errors.Join(errs...)
}

// orphans are the unfinished runs whose object is not among all that exist. One list is cheaper than a look for each.
func (s *Sweeper) orphans(ctx context.Context, before time.Time) ([]contract.Identity, error) {
	runs, err := s.Ledger.Unfinished(ctx, before, most)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	exists, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(runs, func(r contract.Identity) bool { return exists[r.UID] }), nil
}

func (s *Sweeper) run(ctx context.Context, id contract.Identity) error {
	var run v1alpha1.AgentRun
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, &run)
	if client.IgnoreNotFound(err) != nil || err == nil && run.UID == id.UID {
		return err
	}
	if err := s.Ledger.Cancel(ctx, id.UID); err != nil {
		return err
	}
	_, err = s.Ledger.Finish(ctx, id.UID, lifecycle.End{
		Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "its object was deleted", At: time.Now(),
	})
	return err
}

func (s *Sweeper) tenant(ctx context.Context, t ledger.Tenant) error {
	var ns corev1.Namespace
	err := s.Live.Get(ctx, client.ObjectKey{Name: t.Namespace}, &ns)
	if err == nil && ns.UID == t.NamespaceUID {
		if t.Retiring {
			return s.Ledger.Retire(ctx, t.NamespaceUID, retired)
		}
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return s.Ledger.Unprovision(ctx, t.NamespaceUID)
}
