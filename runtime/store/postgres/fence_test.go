package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestALapsedLeaseIsTakenOverOnlyOncePostgresHasBeenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	w.claim(t, run)
	w.fixture().Pass(t, run, time.Hour)
	ask := segment.Ask{Run: run, Holder: "test"}
	w.store.SetWarmUp(24 * time.Hour) // longer than the server is up
	if _, _, err := w.store.Claim(t.Context(), ask); !errors.Is(err, segment.ErrBusy) {
		t.Errorf("got error %v, want ErrBusy", err)
	}
	w.store.SetWarmUp(0)
	if _, _, err := w.store.Claim(t.Context(), ask); err != nil {
		t.Error(err)
	}
}

func TestTransactionsAreFew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	var s segment.Session
	for _, c := range []struct {
		name string
		want int
		do   func() error
	}{
		{"Claim", 2, func() (err error) {
			_, s, err = w.store.Claim(t.Context(), segment.Ask{Run: run, Holder: "test"})
			return err
		}},
		{"Append", 1, func() error {
			_, err := s.Append(t.Context(), 0, []segment.Entry{storetest.Answer(0, "x"), storetest.Answer(1, "y")}, storetest.Spent(0, 1))
			return err
		}},
		{"Beat", 1, func() error { _, err := s.Beat(t.Context()); return err }},
		{"Begin", 1, func() error { _, err := s.Begin(t.Context(), storetest.Intent(0, 0)); return err }},
		{"Settle", 1, func() error {
			_, err := s.Settle(t.Context(), storetest.Settlement(0, 0, segment.ResultAnswered))
			return err
		}},
		{"Settle of a refused call", 1, func() error {
			_, err := s.Settle(t.Context(), storetest.Settlement(0, 1, segment.ResultRefused))
			return err
		}},
		{"Begin that is refused", 1, func() error {
			i := storetest.Intent(0, 2)
			i.PolicyVersion = 7
			if _, err := s.Begin(t.Context(), i); !errors.Is(err, segment.ErrPolicyChanged) {
				return fmt.Errorf("want ErrPolicyChanged, got %w", err)
			}
			return nil
		}},
		{"Policy", 1, func() error { _, err := s.Policy(t.Context()); return err }},
		{"Release", 1, func() error { return s.Release(t.Context(), storetest.Spent(2, 1)) }},
		{"Claim again", 2, func() (err error) {
			_, s, err = w.store.Claim(t.Context(), segment.Ask{Run: run, Holder: "test"})
			return err
		}},
		{"Yield", 1, func() error {
			return s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCompleted}, storetest.Spent(2, 1))
		}},
		{"Claim of what is over", 1, func() error {
			if _, _, err := w.store.Claim(t.Context(), segment.Ask{Run: run}); !errors.Is(err, segment.ErrOver) {
				return fmt.Errorf("want ErrOver, got %w", err)
			}
			return nil
		}},
	} {
		before := w.proxy.Transactions()
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if n := w.proxy.Transactions() - before; n != c.want {
			t.Errorf("%s took %d transactions, want %d", c.name, n, c.want)
		}
	}
}

// meanwhile holds the run's lock with first, begins second, and commits only when second waits for the lock.
func (w *world) meanwhile(t *testing.T, run types.UID, first []string, second func() error) error {
	t.Helper()
	conn := pgtest.Connect(t, w.Superuser)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range first {
		if _, err := tx.Exec(t.Context(), sql, run); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- second() }()
	w.untilWaiting(t, loginOf(t, w.tenant))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return <-ended
}

// untilWaiting waits until a connection of the login waits for a lock.
func (w *world) untilWaiting(t *testing.T, login string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	for waiting := 0; waiting == 0; {
		if ctx.Err() != nil {
			t.Fatal("nobody waits for the lock")
		}
		w.query(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = $1 AND wait_event_type = 'Lock'`, []any{login}, &waiting)
	}
}

const (
	yields = `WITH c AS (UPDATE ekiden.claims SET holder = NULL, lease_until = NULL WHERE run_uid = $1 RETURNING *)
INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield) SELECT run_uid, namespace_uid, segment, generation, 'checkpoint' FROM c`
	takesOver = `UPDATE ekiden.claims SET generation = generation + 1, holder = 'other', segment = 0, lease_until = now() + interval '30 s', beat = now() WHERE run_uid = $1`
	cancels   = `UPDATE ekiden.claims SET cancelled_at = now() WHERE run_uid = $1`
	beats     = `UPDATE ekiden.claims SET beat = now(), lease_until = now() + interval '30 s' WHERE run_uid = $1`
	changes   = `
WITH c AS (UPDATE ekiden.claims SET generation = generation WHERE run_uid = $1 RETURNING namespace_uid)
INSERT INTO ekiden.policies (namespace_uid, version, body) SELECT namespace_uid, 1, '{"schema":1}' FROM c`
	ends = `UPDATE ekiden.runs SET ended_at = now(), end_phase = 'Failed', end_code = '', end_message = '' WHERE run_uid = $1`
)

func TestWhoeverWaitsForTheLockSeesWhatHappenedMeanwhile(t *testing.T) {
	t.Parallel()
	claimOf := func(number int) func(context.Context, *world, types.UID, segment.Session) error {
		return func(ctx context.Context, w *world, run types.UID, _ segment.Session) error {
			_, _, err := w.store.Claim(ctx, segment.Ask{Run: run, Segment: number, Holder: "test"})
			return err
		}
	}
	appends := func(ctx context.Context, _ *world, _ types.UID, s segment.Session) error {
		_, err := s.Append(ctx, 0, []segment.Entry{storetest.Answer(0, "late")}, storetest.Spent(0, 1))
		return err
	}
	begins := func(ctx context.Context, _ *world, _ types.UID, s segment.Session) error {
		_, err := s.Begin(ctx, storetest.Intent(0, 0))
		return err
	}
	settles := func(ctx context.Context, _ *world, _ types.UID, s segment.Session) error {
		_, err := s.Settle(ctx, storetest.Settlement(0, 0, segment.ResultRefused))
		return err
	}
	yield := func(ctx context.Context, _ *world, _ types.UID, s segment.Session) error {
		return s.Yield(ctx, contract.Outcome{Yield: contract.YieldCompleted}, storetest.Spent(0, 1))
	}
	for name, c := range map[string]struct {
		// held says that the run is held by a session, whose lease has lapsed.
		held   bool
		first  []string
		second func(context.Context, *world, types.UID, segment.Session) error
		want   error
		rows   storetest.Count
	}{
		"a claim behind a claim is busy":                         {false, []string{takesOver}, claimOf(0), segment.ErrBusy, storetest.Count{}},
		"a takeover behind a beat is busy":                       {true, []string{beats}, claimOf(0), segment.ErrBusy, storetest.Count{}},
		"a claim behind the outcome of its segment is over":      {true, []string{yields}, claimOf(0), segment.ErrOver, storetest.Count{Outcomes: 1}},
		"a claim of the newest behind an outcome is of the next": {true, []string{yields}, claimOf(segment.Newest), nil, storetest.Count{Outcomes: 1}},
		"a claim behind a cancel is over":                        {false, []string{cancels}, claimOf(0), segment.ErrOver, storetest.Count{}},
		"a claim behind an end is over":                          {false, []string{finish, ends}, claimOf(0), segment.ErrOver, storetest.Count{}},
		"an append behind an end is fenced":                      {true, []string{finish, ends}, appends, segment.ErrFenced, storetest.Count{}},
		"an append behind a takeover is fenced":                  {true, []string{takesOver}, appends, segment.ErrFenced, storetest.Count{}},
		"an append behind a cancel still stands":                 {true, []string{cancels}, appends, nil, storetest.Count{Entries: 1, Usage: 1}},
		"a begin behind a takeover is fenced":                    {true, []string{takesOver}, begins, segment.ErrFenced, storetest.Count{}},
		"a begin behind an end is fenced":                        {true, []string{finish, ends}, begins, segment.ErrFenced, storetest.Count{}},
		"a begin behind a cancel is refused":                     {true, []string{cancels}, begins, segment.ErrCancelled, storetest.Count{}},
		"a begin behind a new policy is refused":                 {true, []string{changes}, begins, segment.ErrPolicyChanged, storetest.Count{}},
		"a begin behind a beat goes on":                          {true, []string{beats}, begins, nil, storetest.Count{Calls: 1}},
		"a settle behind a takeover is fenced":                   {true, []string{takesOver}, settles, segment.ErrFenced, storetest.Count{}},
		"a settle behind a cancel still stands":                  {true, []string{cancels}, settles, nil, storetest.Count{Calls: 1}},
		"a settle behind a new policy still stands":              {true, []string{changes}, settles, nil, storetest.Count{Calls: 1}},
		"a yield behind a takeover is fenced":                    {true, []string{takesOver}, yield, segment.ErrFenced, storetest.Count{}},
		"a yield behind an end is fenced":                        {true, []string{finish, ends}, yield, segment.ErrFenced, storetest.Count{}},
		"a beat behind an end is fenced": {true, []string{finish, ends}, func(ctx context.Context, _ *world, _ types.UID, s segment.Session) error {
			_, err := s.Beat(ctx)
			return err
		}, segment.ErrFenced, storetest.Count{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := w.admitted(t)
			var s segment.Session
			if c.held {
				s = w.claim(t, run)
				w.fixture().Pass(t, run, time.Hour)
			}
			err := w.meanwhile(t, run, c.first, func() error { return c.second(t.Context(), w, run, s) })
			if !errors.Is(err, c.want) {
				t.Errorf("got error %v, want %v", err, c.want)
			}
			if got := w.fixture().Count(t, run); got != c.rows {
				t.Errorf("stored: %+v, want %+v", got, c.rows)
			}
		})
	}
}

func TestATakeoverBehindAnAppendReadsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	w.claim(t, run)
	w.fixture().Pass(t, run, time.Hour)
	var got segment.Claim
	err := w.meanwhile(t, run, []string{
		`UPDATE ekiden.claims SET generation = generation WHERE run_uid = $1`,
		`INSERT INTO ekiden.transcript (run_uid, namespace_uid, seq, generation, segment, kind, schema, body)
SELECT run_uid, namespace_uid, 0, generation, 0, 'AttemptFailed', 1, '{"turn":0,"try":1,"code":"c"}' FROM ekiden.claims WHERE run_uid = $1`,
	}, func() (err error) {
		got, _, err = w.store.Claim(t.Context(), segment.Ask{Run: run, Holder: "test"})
		return err
	})
	if err != nil || len(got.Transcript) != 1 {
		t.Errorf("claimed with %d entries, error %v", len(got.Transcript), err)
	}
}

// A process that stands still in the middle of a transaction by hand is what the login's timeouts are for.
func TestAPausedTransactionLosesItsLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	w.exec(t, `ALTER ROLE `+pgx.Identifier{loginOf(t, w.tenant)}.Sanitize()+` SET idle_in_transaction_session_timeout = '300ms'`)
	paused := pgtest.Connect(t, w.tenant)
	for _, sql := range []string{`BEGIN`, `UPDATE ekiden.claims SET beat = now()`} {
		if _, err := paused.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	w.exec(t, finish, run) // waits until the server has ended the paused one
	if _, err := paused.Exec(t.Context(), `COMMIT`); err == nil {
		t.Error("the paused transaction could still commit")
	}
}

// TestAPausedProcessOfWhichHalfABatchWasSent holds the lock of its run, and no timeout of the login ends that: the server waits for
// the rest. The process that takes the run over ends it.
func TestAPausedProcessOfWhichHalfABatchWasSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	for timeout, is := range map[string]string{"statement_timeout": "5s", "idle_in_transaction_session_timeout": "1s", "lock_timeout": "2s"} {
		w.exec(t, `ALTER ROLE `+pgx.Identifier{loginOf(t, w.tenant)}.Sanitize()+` SET `+timeout+` = '`+is+`'`)
	}
	stepper := pgtest.NewStepper(t, w.tenant)
	paused := open(t, stepper.DSN)
	_, session, err := paused.Claim(t.Context(), segment.Ask{Run: run, Holder: "paused"})
	if err != nil {
		t.Fatal(err)
	}
	w.fixture().Pass(t, run, time.Hour)
	stop, appended := stepper.StopAfter(1, 0), make(chan error, 1)
	go func() {
		_, err := session.Append(t.Context(), 0, []segment.Entry{storetest.Answer(0, "late")}, nil)
		appended <- err
	}()
	<-stop.Reached

	next := open(t, w.tenant)
	ask := segment.Ask{Run: run, Attempt: 1, Holder: "next"}
	if _, _, err := next.Claim(t.Context(), ask); !errors.Is(err, segment.ErrUnavailable) { // it waits for longer than every timeout
		t.Fatalf("got error %v, want ErrUnavailable: the lock is not held", err)
	}
	next.SetOverstay(time.Second)
	if _, _, err := next.Claim(t.Context(), ask); !errors.Is(err, segment.ErrUnavailable) {
		t.Fatalf("got error %v, want ErrUnavailable", err)
	}
	claim, _, err := next.Claim(t.Context(), ask)
	if err != nil || claim.Generation != 2 {
		t.Errorf("taking over: generation %d, error %v", claim.Generation, err)
	}
	stop.GoOn()
	if err := <-appended; !errors.Is(err, segment.ErrUnavailable) {
		t.Errorf("the paused process: got error %v, want ErrUnavailable", err)
	}
	if got := w.fixture().Count(t, run); got != (storetest.Count{}) {
		t.Errorf("stored: %+v", got)
	}
}

func loginOf(t *testing.T, dsn string) string {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return c.User
}
