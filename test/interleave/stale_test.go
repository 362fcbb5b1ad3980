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

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	manager "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

// staleWrites is every kind of write. Each is plausible: it is at the position and about the calls at which the live session is.
var staleWrites = map[string]func(ctx context.Context, s segment.Session, at int) error{
	"append": func(ctx context.Context, s segment.Session, at int) error {
		_, err := s.Append(ctx, at, []segment.Entry{storetest.Answer(at, "stale")}, storetest.Spent(at, 1))
		return err
	},
	"append usage": func(ctx context.Context, s segment.Session, at int) error {
		_, err := s.Append(ctx, at, nil, storetest.Spent(at, 2))
		return err
	},
	"begin": func(ctx context.Context, s segment.Session, at int) error {
		_, err := s.Begin(ctx, storetest.Intent(at, 1))
		return err
	},
	"begin what the live one has begun": func(ctx context.Context, s segment.Session, at int) error {
		_, err := s.Begin(ctx, storetest.Intent(at, 0))
		return err
	},
	"settle": func(ctx context.Context, s segment.Session, at int) error {
		_, err := s.Settle(ctx, storetest.Settlement(at, 0, segment.ResultAnswered))
		return err
	},
	"settle what was never begun": func(ctx context.Context, s segment.Session, at int) error {
		_, err := s.Settle(ctx, storetest.Settlement(at, 2, segment.ResultRefused))
		return err
	},
	"beat": func(ctx context.Context, s segment.Session, _ int) error {
		_, err := s.Beat(ctx)
		return err
	},
	"yield": func(ctx context.Context, s segment.Session, at int) error {
		return s.Yield(ctx, contract.Outcome{Yield: contract.YieldCompleted, Result: "stale"}, storetest.Spent(at, 3))
	},
	"release": func(ctx context.Context, s segment.Session, at int) error {
		return s.Release(ctx, storetest.Spent(at, 4))
	},
}

// TestOfManyStaleWritesNoneIsAccepted lets sessions that were taken over go on writing, all at once, while the session that took
// over writes as well. The audit of every row is judged in the end: what the sessions were told is not enough.
func TestOfManyStaleWritesNoneIsAccepted(t *testing.T) {
	t.Parallel()
	const runs, takeovers, zombies = 4, 5, 3
	attempts := 1000
	if full() {
		attempts = 10000
	}
	// Takeovers number g has min(g, zombies) sessions that are stale.
	rounds := 1 + attempts/(runs*len(staleWrites)*(1+2+3+3+3))
	w := &world{Database: pgtest.New(t), namespace: types.UID(uuid.NewString())}
	w.super = pgtest.Connect(t, w.Superuser)
	_, err := w.super.PgConn().Exec(t.Context(), audit).ReadAll()
	ok(t, err)
	tenant := w.Tenant(t, w.namespace)
	w.ledger, err = manager.Open(t.Context(), w.Manager)
	ok(t, err)
	t.Cleanup(w.ledger.Close)

	var refused, accepted, live atomic.Int64
	var each sync.WaitGroup
	for range runs {
		snapshot := storetest.Snapshot(w.namespace)
		ok(t, w.ledger.Admit(t.Context(), ledger.Admission{Snapshot: snapshot}))
		run, super := snapshot.Run.UID, pgtest.Connect(t, w.Superuser)
		stores := make([]*postgres.Store, zombies+1) // a session and those before it are processes of their own
		for i := range stores {
			stores[i], err = postgres.Open(t.Context(), tenant)
			ok(t, err)
			t.Cleanup(stores[i].Close)
			stores[i].SetTimes(contract.LeaseTTL, 0)
		}
		each.Go(func() {
			var stale []segment.Session
			var at atomic.Int64
			for g := range takeovers + 1 {
				_, session, err := stores[g%len(stores)].Claim(t.Context(), segment.Ask{Run: run, Holder: fmt.Sprint(g)})
				if err != nil {
					t.Errorf("taking over: %v", err)
					return
				}
				var storm sync.WaitGroup
				done := make(chan struct{})
				for _, s := range stale[max(0, len(stale)-zombies):] {
					storm.Go(func() {
						for range rounds {
							for kind, write := range staleWrites {
								switch err := write(t.Context(), s, int(at.Load())); {
								case err == nil:
									accepted.Add(1)
								case errors.Is(err, segment.ErrFenced):
									refused.Add(1)
								default:
									t.Errorf("a stale %s: %v", kind, err)
								}
							}
						}
					})
				}
				go func() { storm.Wait(); close(done) }()
				if err := work(t.Context(), session, &at, done, &live); err != nil {
					t.Errorf("the live session: %v", err)
				}
				stale = append(stale, session)
				if _, err := super.Exec(t.Context(), `UPDATE ekiden.claims SET lease_until = now() - interval '1 min' WHERE run_uid = $1`, run); err != nil {
					t.Errorf("letting the lease lapse: %v", err)
					return
				}
			}
		})
	}
	each.Wait()

	t.Logf("%d stale writes refused, %d accepted, while %d live ones were made", refused.Load(), accepted.Load(), live.Load())
	if n := int(refused.Load() + accepted.Load()); n < attempts || accepted.Load() != 0 {
		t.Errorf("of %d stale writes %d were accepted", n, accepted.Load())
	}
	var list []types.UID
	rows, err := w.super.Query(t.Context(), `SELECT run_uid::text FROM ekiden.runs`)
	ok(t, err)
	for rows.Next() {
		var uid string
		ok(t, rows.Scan(&uid))
		list = append(list, types.UID(uid))
	}
	ok(t, rows.Err())
	for _, run := range list {
		history := w.auditedOf(t, run)
		if len(history) < int(live.Load())/runs {
			t.Errorf("the audit of run %s has only %d rows", run, len(history))
		}
		for _, broken := range judge(row{}, history) {
			t.Errorf("run %s: %s", run, broken)
		}
	}
	w.withoutDeadlock(t)
}

// work is what a live session does, at least once and until the others have ended. All of it has to succeed.
func work(ctx context.Context, s segment.Session, at *atomic.Int64, done <-chan struct{}, count *atomic.Int64) error {
	for {
		n := int(at.Load())
		if _, err := s.Begin(ctx, storetest.Intent(n, 0)); err != nil {
			return err
		}
		if _, err := s.Beat(ctx); err != nil {
			return err
		}
		if _, err := s.Settle(ctx, storetest.Settlement(n, 0, segment.ResultFailed)); err != nil {
			return err
		}
		if _, err := s.Append(ctx, n, []segment.Entry{storetest.Answer(n, "live")}, storetest.Spent(n, 1)); err != nil {
			return err
		}
		at.Add(1)
		count.Add(4)
		select {
		case <-done:
			return nil
		default:
		}
	}
}
