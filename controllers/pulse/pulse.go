// Package pulse notices a Postgres that was restored to an earlier moment while runs were at work.
//
// What a segment does between two writes of its run's status is known to Postgres alone. So the leader counts: first in Postgres,
// then in the API server. A Postgres whose count is the lower one has forgotten what came after, and the runs that were at work in
// it may have made calls that nobody knows of.
package pulse

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
)

// The rights this package needs.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=ekiden-system,resources=leases,resourceNames=ekiden-ledger,verbs=get;update

const (
	// Every is the pause between two beats, and so the longest that can be lost of Postgres without a beat telling.
	Every = 10 * time.Second
	// again is the pause after a beat that failed.
	again = time.Second
	// Lease is the name of the object that remembers the count, and count the annotation that holds it.
	Lease = "ekiden-ledger"
	count = "ekiden.dev/ledger-count"
)

// errSetBack is returned while Postgres tells less than it has told before.
var errSetBack = errors.New("the ledger was set back; nothing is done until that is written down")

// Pulse counts, on the leader only.
type Pulse struct {
	// Live reads from the API server.
	Live   client.Reader
	Client client.Writer
	Ledger ledger.Ledger
	// Namespace is the manager's own.
	Namespace string

	mu    sync.Mutex
	known int64
	first chan struct{}
	early chan struct{}
}

// New makes a pulse that has not beaten yet.
func New(live client.Reader, c client.Writer, l ledger.Ledger, namespace string) *Pulse {
	return &Pulse{Live: live, Client: c, Ledger: l, Namespace: namespace, first: make(chan struct{}), early: make(chan struct{}, 1)}
}

// NeedLeaderElection says that only the leader counts.
func (p *Pulse) NeedLeaderElection() bool { return true }

// Start beats until ctx ends.
func (p *Pulse) Start(ctx context.Context) error {
	for {
		pause := Every
		if err := p.Beat(ctx); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Error(err, "asking whether Postgres was set back")
			pause = again
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.early:
		case <-time.After(pause):
		}
	}
}

// Beat counts once more: in Postgres first, so that the API server never remembers what Postgres did not acknowledge.
func (p *Pulse) Beat(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: Lease}}
	err := p.Live.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the lease %s: %w", Lease, err)
	}
	remembered, _ := strconv.ParseInt(lease.Annotations[count], 10, 64) // what is no number remembers nothing
	got, err := p.Ledger.Beat(ctx, max(remembered, p.last()))
	if err != nil {
		return err
	}
	if got.SetBack {
		logf.FromContext(ctx).Info("Postgres was restored to an earlier moment: runs that were at work there end LedgerRolledBack", "runs", got.Runs)
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, count, strconv.FormatInt(got.Count, 10))
	if err := p.remember(ctx, lease); err != nil {
		return fmt.Errorf("writing the lease %s: %w", Lease, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = max(p.known, got.Count)
	select {
	case <-p.first:
	default:
		close(p.first)
	}
	return nil
}

func (p *Pulse) remember(ctx context.Context, lease *coordinationv1.Lease) error {
	now := metav1.NowMicro()
	lease.Spec.RenewTime = &now
	if lease.ResourceVersion == "" {
		return p.Client.Create(ctx, lease)
	}
	err := p.Client.Update(ctx, lease)
	if apierrors.IsConflict(err) { // another manager leads by now, and has counted
		return nil
	}
	return err
}

func (p *Pulse) last() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// Sound waits for the first beat, and then reports an error of a ledger whose count is lower than it was: it was restored since
// the last beat, and the next one has to write that down before anything is decided by it.
func (p *Pulse) Sound(ctx context.Context, counted int64) error {
	select {
	case <-p.first:
	case <-ctx.Done():
		return ctx.Err()
	}
	if counted >= p.last() {
		return nil
	}
	select {
	case p.early <- struct{}{}:
	default:
	}
	return errSetBack
}
