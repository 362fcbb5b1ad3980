package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestStore works as a tenant works: with a namespace's login, under row-level security.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		t.Helper()
		return newWorld(t).fixture()
	})
}

// TestStoreThroughAPooler is all of it once more, through pgbouncer in transaction mode.
func TestStoreThroughAPooler(t *testing.T) {
	t.Parallel()
	pooler := pgtest.NewPooler(t, pgtest.Shared(t).Superuser)
	t.Run("laws", func(t *testing.T) { // the pooler lasts until all of them have ended
		storetest.Run(t, func(t *testing.T) storetest.Fixture {
			t.Helper()
			w := newWorld(t)
			w.through(t, pooler.Through(t, w.tenant))
			return w.fixture()
		})
	})
}

// world is a namespace of the shared database.
type world struct {
	*pgtest.Database
	namespace types.UID
	tenant    string
	proxy     *pgtest.Proxy
	store     *postgres.Store // through the proxy

	mu    sync.Mutex
	super *pgx.Conn
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Database: pgtest.Shared(t), namespace: types.UID(uuid.NewString())}
	w.tenant = w.Tenant(t, w.namespace)
	w.super = pgtest.Connect(t, w.Superuser)
	w.through(t, w.tenant)
	return w
}

// through makes the store of a DSN.
func (w *world) through(t *testing.T, dsn string) {
	t.Helper()
	w.proxy = pgtest.NewProxy(t, dsn)
	w.store = open(t, w.proxy.DSN)
}

func open(t *testing.T, dsn string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.SetWarmUp(0)
	return s
}

func (w *world) fixture() storetest.Fixture {
	return storetest.Fixture{
		Store: w.store, Namespace: w.namespace, Admit: w.admit,
		Cancel: func(t testing.TB, run types.UID) {
			t.Helper()
			w.exec(t, `UPDATE ekiden.claims SET cancelled_at = coalesce(cancelled_at, now()) WHERE run_uid = $1`, run)
		},
		Finish: func(t testing.TB, run types.UID) {
			t.Helper()
			w.exec(t, finish, run)
		},
		Pass: func(t testing.TB, run types.UID, d time.Duration) {
			t.Helper()
			w.exec(t, `UPDATE ekiden.claims SET beat = beat - $2 * interval '1 ms', lease_until = lease_until - $2 * interval '1 ms' WHERE run_uid = $1`, run, d.Milliseconds())
		},
		Terminated: func(t testing.TB, run types.UID) {
			t.Helper()
			w.exec(t, `INSERT INTO ekiden.attempts (run_uid, namespace_uid, segment, attempt, terminated_generation)
				SELECT run_uid, namespace_uid, 0, generation::int, generation FROM ekiden.claims WHERE run_uid = $1`, run)
			w.exec(t, `UPDATE ekiden.claims SET holder = NULL, lease_until = NULL WHERE run_uid = $1`, run)
		},
		Plant: func(t testing.TB, run types.UID, at int, stored record.Record) {
			t.Helper()
			w.exec(t, `INSERT INTO ekiden.transcript (run_uid, seq, namespace_uid, generation, segment, kind, schema, body) VALUES ($1, $2, $3, 1, 0, $4, $5, $6)`,
				run, at, w.namespace, stored.Kind, stored.Schema, stored.Body)
		},
		Replace: func(t testing.TB, run types.UID, body string) {
			t.Helper()
			w.exec(t, `UPDATE ekiden.snapshots SET body = $2 WHERE run_uid = $1`, run, body)
		},
		Decide: func(t testing.TB, run types.UID, d contract.Delivery) {
			t.Helper()
			w.exec(t, `INSERT INTO ekiden.inbox (run_uid, namespace_uid, kind, request_uid, turn, idx, digest, seat, seats, phase, decided_by, reason) VALUES ($1, $2, CASE $12 WHEN '' THEN 'approval' ELSE 'indeterminate' END, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
				run, w.namespace, d.Request, d.Turn, d.Index, d.Digest, d.Seat, d.Seats, d.Phase, d.By, d.Reason, string(d.Type))
		},
		Policy: func(t testing.TB, set contract.PolicySet) {
			t.Helper()
			w.policy(t, set)
		},
		Outcome: func(t testing.TB, run types.UID, segment int) contract.Outcome {
			t.Helper()
			var stored record.Outcome
			w.query(t, `SELECT yield, code, message, result, wait FROM ekiden.outcomes WHERE run_uid = $1 AND segment = $2`, []any{run, segment},
				&stored.Yield, &stored.Code, &stored.Message, &stored.Result, &stored.Wait)
			o, err := stored.Decode()
			if err != nil {
				t.Fatal(err)
			}
			return o
		},
		Count: func(t testing.TB, run types.UID) storetest.Count {
			t.Helper()
			var c storetest.Count
			w.query(t, `SELECT (SELECT count(*) FROM ekiden.transcript WHERE run_uid = $1), (SELECT count(*) FROM ekiden.usage WHERE run_uid = $1), (SELECT count(*) FROM ekiden.calls WHERE run_uid = $1), (SELECT count(*) FROM ekiden.outcomes WHERE run_uid = $1)`,
				[]any{run}, &c.Entries, &c.Usage, &c.Calls, &c.Outcomes)
			return c
		},
		Lose: w.proxy.Lose,
	}
}

const finish = `UPDATE ekiden.claims SET final_at = now(), generation = generation + 1, holder = NULL, lease_until = NULL WHERE run_uid = $1 AND final_at IS NULL`

const addPolicy = `
INSERT INTO ekiden.policies (namespace_uid, version, body) SELECT $1, coalesce(max(version), 0) + 1, $2 FROM ekiden.policies WHERE namespace_uid = $1`

func (w *world) policy(t testing.TB, set contract.PolicySet) {
	t.Helper()
	body, err := set.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.exec(t, addPolicy, w.namespace, string(body))
}

func (w *world) admit(t testing.TB, s contract.Snapshot) {
	t.Helper()
	body, digest, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.exec(t, `INSERT INTO ekiden.runs (run_uid, namespace_uid, namespace, name, root_uid, terms) VALUES ($1, $2, $3, $4, $5, '{}')`,
		s.Run.UID, s.Run.NamespaceUID, s.Run.Namespace, s.Run.Name, s.Run.RootUID)
	w.exec(t, `INSERT INTO ekiden.snapshots (run_uid, namespace_uid, digest, body) VALUES ($1, $2, $3, $4)`, s.Run.UID, s.Run.NamespaceUID, digest, string(body))
	w.exec(t, `INSERT INTO ekiden.claims (run_uid, namespace_uid) VALUES ($1, $2)`, s.Run.UID, s.Run.NamespaceUID)
}

func (w *world) admitted(t testing.TB) types.UID {
	t.Helper()
	s := storetest.Snapshot(w.namespace)
	w.admit(t, s)
	return s.Run.UID
}

func (w *world) claim(t testing.TB, run types.UID) segment.Session {
	t.Helper()
	_, s, err := w.store.Claim(t.Context(), segment.Ask{Run: run, Segment: segment.Newest, Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.super.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) query(t testing.TB, sql string, args []any, into ...any) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.super.QueryRow(t.Context(), sql, args...).Scan(into...); err != nil {
		t.Fatal(err)
	}
}
