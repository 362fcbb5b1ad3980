package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/ledger/ledgertest"
	"github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type world struct {
	*pgtest.Database
	*postgres.Ledger
	proxy     *pgtest.Proxy
	super     *pgx.Conn
	namespace types.UID
}

// newWorld works with the manager's login, which is no superuser.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Database: pgtest.New(t), namespace: types.UID(uuid.NewString())}
	w.super = pgtest.Connect(t, w.Superuser)
	w.through(t, w.Manager)
	return w
}

// through makes the ledger of a DSN.
func (w *world) through(t *testing.T, dsn string) {
	t.Helper()
	w.proxy = pgtest.NewProxy(t, dsn)
	l, err := postgres.Open(t.Context(), w.proxy.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	w.Ledger = l
}

func (w *world) snapshot() contract.Snapshot { return ledgertest.Snapshot(w.namespace) }

func (w *world) admitted(t *testing.T) types.UID {
	t.Helper()
	s := w.snapshot()
	ok(t, w.Admit(t.Context(), ledger.Admission{Snapshot: s}))
	return s.Run.UID
}

func (w *world) look(t *testing.T, run types.UID) ledger.Record {
	t.Helper()
	r, err := w.Look(t.Context(), run)
	ok(t, err)
	if r == nil {
		t.Fatal("the run is not there")
	}
	return *r
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.super.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) number(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := w.super.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// held makes the claim look as a segment leaves it that is at work.
func (w *world) held(t *testing.T, run types.UID, segment, attempt int) {
	t.Helper()
	w.exec(t, `UPDATE ekiden.claims SET generation = generation + 1, holder = $4, segment = $2, attempt = $3, beat = now(), lease_until = now() + interval '30 s' WHERE run_uid = $1`,
		run, segment, attempt, contract.Holder("run-s0-a0", string(ledgertest.Holder), 1))
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func refusedWith(t *testing.T, err error, code string) {
	t.Helper()
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("got error %v, want SQLSTATE %s", err, code)
	}
}

func TestOfTwoRunsWithOneKeyTheFirstIsAdmitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.snapshot(), w.snapshot(), w.snapshot()
	ok(t, w.Admit(t.Context(), ledger.Admission{Snapshot: a, IdempotencyKey: "k"}))
	ok(t, w.Admit(t.Context(), ledger.Admission{Snapshot: a, IdempotencyKey: "k"}))
	for range 2 {
		var duplicate *ledger.DuplicateError
		if err := w.Admit(t.Context(), ledger.Admission{Snapshot: b, IdempotencyKey: "k"}); !errors.As(err, &duplicate) {
			t.Fatalf("got error %v, want a duplicate", err)
		}
		same(t, duplicate.Of, v1alpha1.RunReference{Name: a.Run.Name, UID: a.Run.UID})
	}
	r, err := w.Look(t.Context(), b.Run.UID)
	ok(t, err)
	same(t, r == nil, true)
	same(t, w.number(t, `SELECT count(*) FROM ekiden.snapshots`), 1)

	c.Run.NamespaceUID = types.UID(uuid.NewString())
	ok(t, w.Admit(t.Context(), ledger.Admission{Snapshot: c, IdempotencyKey: "k"}))
}

func TestTheOutcomeOfTheNewestSegmentIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	result := strings.Repeat("é", contract.MaxInlineResult) + "!"
	for n, r := range []string{"early", "x" + result} {
		w.exec(t, `INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield, code, message, result) VALUES ($1, $2, $3, 1, 'ceiling', 'c', 'm', $4)`, run, w.namespace, n, r)
	}
	w.exec(t, `INSERT INTO ekiden.transcript (run_uid, namespace_uid, seq, generation, segment, kind, schema, body) SELECT $1, $2, n, 1, 0, CASE WHEN n = 1 THEN 'AttemptFailed' ELSE 'ModelAnswered' END, 1, '{}' FROM generate_series(0, 2) n`, run, w.namespace)
	w.exec(t, `INSERT INTO ekiden.usage (run_uid, namespace_uid, turn, try, generation, input, cache_read, output, estimated, cost_micros) SELECT $1, $2, n, 1, 1, 100, 10, 1, false, 5 FROM generate_series(0, 2) n`, run, w.namespace)
	w.exec(t, `UPDATE ekiden.claims SET active_ms = 1500 WHERE run_uid = $1`, run)
	same(t, w.look(t, run).Outcome == nil, true) // no attempt was made

	ok(t, w.BeginAttempt(t.Context(), run, ledger.AttemptKey{Segment: 0}))
	same(t, w.look(t, run).Outcome.Result, "early")
	ok(t, w.BeginAttempt(t.Context(), run, ledger.AttemptKey{Segment: 1}))
	r := w.look(t, run)
	same(t, *r.Outcome, contract.Outcome{Yield: contract.YieldCeiling, Code: "c", Message: "m", Result: "x" + result[:contract.MaxInlineResult-2]})
	same(t, r.ResultBytes, int64(len(result)+1))
	same(t, r.ResultDigest, contract.Digest([]byte("x"+result)))
	same(t, r.Usage, ledger.Usage{Turns: 2, Input: 300, CacheRead: 30, Output: 3, Cost: 15})
	same(t, r.Active, 1500*time.Millisecond)
	ok(t, w.BeginAttempt(t.Context(), run, ledger.AttemptKey{Segment: 2}))
	same(t, w.look(t, run).Outcome == nil, true)
}

func TestTheFirstEndOfARunCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	w.held(t, run, 0, 0)
	ends := make([]ledger.End, 8)
	var wg sync.WaitGroup
	for i := range ends {
		wg.Go(func() {
			var err error
			if ends[i], err = w.Finish(t.Context(), run, ledger.End{Phase: v1alpha1.RunFailed, Code: fmt.Sprint("c", i), Message: "m"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, e := range ends {
		same(t, e, ends[0])
	}
	same(t, *w.look(t, run).End, ends[0])
	same(t, w.number(t, `SELECT generation FROM ekiden.claims WHERE run_uid = $1 AND holder IS NULL AND lease_until IS NULL AND final_at IS NOT NULL`, run), 2)
	_, err := w.Finish(t.Context(), types.UID(uuid.NewString()), ledger.End{Phase: v1alpha1.RunFailed})
	is(t, err, ledger.ErrUnknown)
}

func TestEachMethodIsOneTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, k := w.snapshot(), ledger.AttemptKey{}
	tenant := ledger.Tenant{Namespace: "team", NamespaceUID: w.namespace, Password: "secret"}
	ok(t, w.Provision(t.Context(), tenant))
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"Admit", func() error { return w.Admit(t.Context(), ledger.Admission{Snapshot: s}) }},
		{"Look", func() error { _, err := w.Look(t.Context(), s.Run.UID); return err }},
		{"BeginAttempt", func() error { return w.BeginAttempt(t.Context(), s.Run.UID, k) }},
		{"StoreJob", func() error { return w.StoreJob(t.Context(), s.Run.UID, k, types.UID(uuid.NewString())) }},
		{"EndAttempt", func() error {
			return w.EndAttempt(t.Context(), s.Run.UID, k, ledger.AttemptEnd{Class: lifecycle.Yielded, Terminated: true})
		}},
		{"Cancel", func() error { return w.Cancel(t.Context(), s.Run.UID) }},
		{"Finish", func() error {
			_, err := w.Finish(t.Context(), s.Run.UID, ledger.End{Phase: v1alpha1.RunCancelled})
			return err
		}},
		{"Provision again", func() error { return w.Provision(t.Context(), tenant) }},
		{"Tenants", func() error { _, err := w.Tenants(t.Context()); return err }},
		{"Unfinished", func() error { _, err := w.Unfinished(t.Context(), time.Now(), 9); return err }},
	} {
		before := w.proxy.Transactions()
		ok(t, c.do())
		if n := w.proxy.Transactions() - before; n != 1 {
			t.Errorf("%s took %d transactions", c.name, n)
		}
	}
}

func TestWhatWasNotAnsweredCanBeRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, k := w.snapshot(), ledger.AttemptKey{}
	tenant := ledger.Tenant{Namespace: "team", NamespaceUID: w.namespace, Password: "secret"}
	for name, do := range map[string]func() error{
		"Admit":     func() error { return w.Admit(t.Context(), ledger.Admission{Snapshot: s, IdempotencyKey: "k"}) },
		"Provision": func() error { return w.Provision(t.Context(), tenant) },
	} {
		w.proxy.Lose(0)
		if err := do(); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: got error %v", name, err)
		}
		ok(t, do())
	}
	for _, do := range []func() error{
		func() error { return w.BeginAttempt(t.Context(), s.Run.UID, k) },
		func() error { return w.EndAttempt(t.Context(), s.Run.UID, k, ledger.AttemptEnd{Class: lifecycle.Lost}) },
		func() error { return w.Cancel(t.Context(), s.Run.UID) },
		func() error {
			_, err := w.Finish(t.Context(), s.Run.UID, ledger.End{Phase: v1alpha1.RunCancelled})
			return err
		},
		func() error { return w.Unprovision(t.Context(), w.namespace) },
	} {
		w.proxy.Lose(0)
		is(t, do(), ledger.ErrUnavailable)
		ok(t, do())
	}
	w.proxy.Refuse(true)
	w.proxy.Cut()
	_, err := w.Look(t.Context(), s.Run.UID)
	is(t, err, ledger.ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Look(ctx, s.Run.UID)
	is(t, err, context.Canceled)
}

func TestALeaseThatRanOutIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	ok(t, w.BeginAttempt(t.Context(), run, ledger.AttemptKey{}))
	w.held(t, run, 0, 0)
	lapsedAfter := func(since string, warmUp time.Duration) bool {
		w.SetWarmUp(warmUp)
		w.exec(t, `UPDATE ekiden.claims SET lease_until = now() - $2::interval WHERE run_uid = $1`, run, since)
		return w.look(t, run).Lapsed()
	}
	same(t, lapsedAfter("4 s", 0), false)
	same(t, lapsedAfter("6 s", 0), true)
	same(t, lapsedAfter("6 s", time.Hour), false) // Postgres was down, and nobody could beat
	ok(t, w.EndAttempt(t.Context(), run, ledger.AttemptKey{}, ledger.AttemptEnd{Class: lifecycle.Crashed, Terminated: true}))
	same(t, w.look(t, run).Lapsed(), false)
}

// TestTermsOfALaterVersionAreNotHalfRead: the rest of the record is there, so that the run can be ended.
func TestTermsOfALaterVersionAreNotHalfRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	if r := w.look(t, run); r.Unreadable != "" || r.Terms.Schema != contract.TermsSchema {
		t.Errorf("its own terms: %q, %+v", r.Unreadable, r.Terms)
	}
	w.exec(t, `UPDATE ekiden.runs SET terms = jsonb_set(terms, '{schema}', '2') WHERE run_uid = $1`, run)
	if r := w.look(t, run); r.Unreadable != "unknown schema: terms have schema 2, this version reads 1" || r.Terms.Revision != "" || r.SnapshotDigest == "" {
		t.Errorf("of a later version: %q, %+v", r.Unreadable, r)
	}
	w.exec(t, `UPDATE ekiden.runs SET terms = terms - 'schema' WHERE run_uid = $1`, run)
	if r := w.look(t, run); r.Unreadable != "" || r.Terms.Revision == "" {
		t.Errorf("of before there were numbers: %q, %+v", r.Unreadable, r.Terms)
	}
}
