package interleave

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	manager "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

// rotation is a namespace whose logins take turns while its runs are at work. The tenant stands for the Secret.
type rotation struct {
	*world
	secret   atomic.Pointer[ledger.Tenant]
	runs     []types.UID
	refused  atomic.Int64
	appended []atomic.Int64
	dead     types.UID // a run of another namespace
}

func (r *rotation) turn(ctx context.Context) error {
	slot, err := r.ledger.NextSlot(ctx, r.namespace)
	if err != nil {
		return err
	}
	t := ledger.Tenant{Namespace: "team", NamespaceUID: r.namespace, Password: uuid.NewString(), Slot: slot}
	r.secret.Store(&t) // the Secret comes first, as from the manager
	return r.ledger.Provision(ctx, t)
}

// write is one segment of a run: a process of its own with the login that the Secret holds when it starts.
func (r *rotation) write(ctx context.Context, n, number int) error {
	run, k := r.runs[n], ledger.AttemptKey{Segment: number}
	if err := r.ledger.BeginAttempt(ctx, run, k); err != nil {
		return err
	}
	t := r.secret.Load()
	store, err := postgres.Open(ctx, r.DSN(t.Login(), t.Password))
	if err != nil {
		return err
	}
	defer store.Close()
	var claim segment.Claim
	var session segment.Session
	for range 200 { // the login may be about to be made
		claim, session, err = store.Claim(ctx, segment.Ask{Run: run, Segment: number, Holder: "pod"})
		if !errors.Is(err, segment.ErrUnavailable) {
			break
		}
		r.refused.Add(1)
	}
	if err != nil {
		return fmt.Errorf("claiming: %w", err)
	}
	at := len(claim.Transcript)
	for i := range 5 {
		if _, err := session.Append(ctx, at+i, []segment.Entry{storetest.Answer(at+i, "x")}, nil); err != nil {
			return err
		}
		r.appended[n].Add(1)
	}
	if err := r.within(ctx, *t); err != nil {
		return err
	}
	if err := session.Yield(ctx, contract.Outcome{Yield: contract.YieldCheckpoint}, nil); err != nil {
		return err
	}
	return r.ledger.EndAttempt(ctx, run, k, ledger.AttemptEnd{Class: lifecycle.Yielded, Terminated: true})
}

// within tries that a login sees the rows of its namespace and of no other, and moves no claim but its own.
func (r *rotation) within(ctx context.Context, t ledger.Tenant) error {
	conn, err := pgtest.Try(ctx, r.DSN(t.Login(), t.Password))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var own, foreign int
	if err := conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE namespace_uid = $1), count(*) FILTER (WHERE namespace_uid <> $1) FROM ekiden.claims`, r.namespace).Scan(&own, &foreign); err != nil {
		return err
	}
	moved, err := conn.Exec(ctx, `UPDATE ekiden.claims SET beat = now() WHERE run_uid = $1`, r.dead)
	if err != nil {
		return err
	}
	if own != len(r.runs) || foreign != 0 || moved.RowsAffected() != 0 {
		return fmt.Errorf("login %s sees %d claims of its own and %d others, and moved %d", t.Login(), own, foreign, moved.RowsAffected())
	}
	return nil
}

// TestLoginsTakeTurnsUnderLoad has eight runs write while the login of their namespace is followed by another again and again. The
// ones before go when nobody can use them any more, and nobody is ever refused for good.
func TestLoginsTakeTurnsUnderLoad(t *testing.T) {
	t.Parallel()
	const writers, turns = 8, 5
	r := &rotation{world: &world{Database: pgtest.New(t), namespace: types.UID(uuid.NewString())}, appended: make([]atomic.Int64, writers)}
	r.super = pgtest.Connect(t, r.Superuser)
	var err error
	r.ledger, err = manager.Open(t.Context(), r.Manager)
	ok(t, err)
	t.Cleanup(r.ledger.Close)
	t.Cleanup(func() { ok(t, r.ledger.Unprovision(context.Background(), r.namespace)) })
	ok(t, r.turn(t.Context()))
	for range writers {
		s := storetest.Snapshot(r.namespace)
		ok(t, r.ledger.Admit(t.Context(), ledger.Admission{Snapshot: s}))
		r.runs = append(r.runs, s.Run.UID)
	}
	foreign := storetest.Snapshot(types.UID(uuid.NewString()))
	ok(t, r.ledger.Admit(t.Context(), ledger.Admission{Snapshot: foreign}))
	r.dead = foreign.Run.UID

	var each sync.WaitGroup
	var segments atomic.Int64
	stop := make(chan struct{})
	for n := range writers {
		each.Go(func() {
			for number := 0; ; number++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := r.write(t.Context(), n, number); err != nil {
					t.Errorf("segment %d of writer %d: %v", number, n, err)
					return
				}
				segments.Add(1)
			}
		})
	}
	both := 0
	for range turns {
		ok(t, r.turn(t.Context()))
		for r.logins(t) > 1 && !t.Failed() {
			both++
			ok(t, r.ledger.Retire(t.Context(), r.namespace, 0))
		}
	}
	close(stop)
	each.Wait()
	t.Logf("%d segments over %d turns; %d times a login was not there yet; %d looks at two logins", segments.Load(), turns, r.refused.Load(), both)
	if both <= turns {
		t.Error("logins were dropped at once: nobody used two")
	}
	for n, run := range r.runs {
		var rows int64
		ok(t, r.super.QueryRow(t.Context(), `SELECT count(*) FROM ekiden.transcript WHERE run_uid = $1`, run).Scan(&rows))
		if want := r.appended[n].Load(); rows != want || want == 0 {
			t.Errorf("run %d has %d entries, and %d were acknowledged", n, rows, want)
		}
	}
}

// logins is how many logins the namespace has.
func (r *rotation) logins(t *testing.T) (n int) {
	t.Helper()
	ok(t, r.super.QueryRow(t.Context(), `SELECT count(*) FROM pg_roles WHERE rolname LIKE $1 || '%'`, ledger.LoginOf(r.namespace)).Scan(&n))
	return n
}
