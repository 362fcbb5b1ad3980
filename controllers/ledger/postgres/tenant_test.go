package postgres_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func (w *world) provision(t *testing.T, namespace types.UID, password string) ledger.Tenant {
	t.Helper()
	n := ledger.Tenant{Namespace: "team", NamespaceUID: namespace, Password: password}
	ok(t, w.Provision(t.Context(), n))
	t.Cleanup(func() { _, _ = w.super.Exec(t.Context(), "DROP ROLE IF EXISTS "+n.Login()) })
	return n
}

func (w *world) exists(t *testing.T, login string) bool {
	t.Helper()
	return w.number(t, `SELECT count(*) FROM pg_roles WHERE rolname = $1`, login) == 1
}

func TestALoginIsMadeOnceAndChangesItsPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.provision(t, w.namespace, `it's"$\odd`)
	pgtest.Connect(t, w.DSN(n.Login(), n.Password))
	for setting, want := range map[string]string{"statement_timeout": "10s", "lock_timeout": "5s", "idle_in_transaction_session_timeout": "10s"} {
		var got string
		ok(t, pgtest.Connect(t, w.DSN(n.Login(), n.Password)).QueryRow(t.Context(), `SELECT current_setting($1)`, setting).Scan(&got))
		same(t, got, want)
	}
	w.provision(t, w.namespace, "other")
	pgtest.Connect(t, w.DSN(n.Login(), "other"))
	_, err := pgtest.Try(t.Context(), w.DSN(n.Login(), n.Password))
	refusedWith(t, err, "28P01")

	all, err := w.Tenants(t.Context())
	ok(t, err)
	same(t, all, []ledger.Tenant{{Namespace: "team", NamespaceUID: w.namespace}})

	// A restored database knows the tenant, but a new server has no such role.
	w.exec(t, "DROP ROLE "+n.Login())
	w.provision(t, w.namespace, "other")
	pgtest.Connect(t, w.DSN(n.Login(), "other"))

	if err := w.Provision(t.Context(), ledger.Tenant{NamespaceUID: `x"; DROP`, Password: "p"}); err == nil {
		t.Error("a namespace UID that is none was accepted")
	}
}

func TestManagersProvisionAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other, err := postgres.Open(t.Context(), w.Manager)
	ok(t, err)
	t.Cleanup(other.Close)
	namespaces := []types.UID{w.namespace, types.UID(uuid.NewString()), types.UID(uuid.NewString())}
	var wg sync.WaitGroup
	for _, ns := range namespaces {
		for _, l := range []*postgres.Ledger{w.Ledger, other, w.Ledger} {
			wg.Go(func() {
				if err := l.Provision(t.Context(), ledger.Tenant{Namespace: "team", NamespaceUID: ns, Password: "p"}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for _, ns := range namespaces {
		pgtest.Connect(t, w.DSN(ledger.LoginOf(ns), "p"))
	}
	for _, ns := range namespaces {
		for _, l := range []*postgres.Ledger{w.Ledger, other} {
			wg.Go(func() {
				if err := l.Unprovision(t.Context(), ns); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for _, ns := range namespaces {
		same(t, w.exists(t, ledger.LoginOf(ns)), false)
	}
}

func TestANamespaceThatIsGoneLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.provision(t, w.namespace, "p")
	running, done := w.admitted(t), w.admitted(t)
	w.held(t, running, 0, 0)
	end, err := w.Finish(t.Context(), done, ledger.End{Phase: v1alpha1.RunSucceeded})
	ok(t, err)
	foreign := w.snapshot()
	foreign.Run.NamespaceUID = types.UID(uuid.NewString())
	ok(t, w.Admit(t.Context(), ledger.Admission{Snapshot: foreign}))

	// A tenant that owns something and sits on a lock, its timeouts lifted.
	conn := pgtest.Connect(t, w.DSN(n.Login(), "p"))
	for _, sql := range []string{
		"SELECT lo_create(0)", "SET statement_timeout = 0", "SET idle_in_transaction_session_timeout = 0", "BEGIN",
		"UPDATE ekiden.claims SET beat = now()",
	} {
		_, err := conn.Exec(t.Context(), sql)
		ok(t, err)
	}
	started := time.Now()
	ok(t, w.Unprovision(t.Context(), w.namespace))
	if took := time.Since(started); took > 8*time.Second {
		t.Errorf("it took %s: the connection was not ended", took)
	}
	ok(t, w.Unprovision(t.Context(), w.namespace))
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection still works")
	}
	same(t, w.exists(t, n.Login()), false)
	all, err := w.Tenants(t.Context())
	ok(t, err)
	same(t, len(all), 0)
	got := w.look(t, running).End
	same(t, *got, ledger.End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "the namespace is gone", At: got.At})
	same(t, w.number(t, `SELECT generation FROM ekiden.claims WHERE run_uid = $1 AND final_at IS NOT NULL AND holder IS NULL`, running), 2)
	same(t, *w.look(t, done).End, end)
	same(t, w.look(t, foreign.Run.UID).End == nil, true)
}

// TestALoginThatOwnsSomethingElsewhere can be used no more, although it cannot be dropped.
func TestALoginThatOwnsSomethingElsewhere(t *testing.T) {
	t.Parallel()
	w, elsewhere := newWorld(t), pgtest.Empty(t)
	n := w.provision(t, w.namespace, "p")
	run := w.admitted(t)
	w.held(t, run, 0, 0)
	conn := pgtest.Connect(t, w.DSN(n.Login(), "p"))
	there := pgtest.Connect(t, elsewhere.Superuser)
	_, err := there.Exec(t.Context(), "CREATE SCHEMA mine AUTHORIZATION "+n.Login())
	ok(t, err)

	for range 2 {
		is(t, w.Unprovision(t.Context(), w.namespace), ledger.ErrOwns)
		same(t, w.look(t, run).End.Message, "the namespace is gone")
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("the connection still works")
		}
		_, err = pgtest.Try(t.Context(), w.DSN(n.Login(), "p"))
		refusedWith(t, err, "28000")
		all, err := w.Tenants(t.Context())
		ok(t, err)
		same(t, len(all), 1) // so that the next sweep tries again
	}
	_, err = there.Exec(t.Context(), "DROP OWNED BY "+n.Login())
	ok(t, err)
	ok(t, w.Unprovision(t.Context(), w.namespace))
	same(t, w.exists(t, n.Login()), false)
}

// TestATenantThatHoldsALock makes the manager wait for a moment only, and not for ever.
func TestATenantThatHoldsALock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.provision(t, w.namespace, "p")
	run, other := w.admitted(t), w.admitted(t)
	conn := pgtest.Connect(t, w.DSN(n.Login(), "p"))
	for _, sql := range []string{
		"SET statement_timeout = 0", "SET idle_in_transaction_session_timeout = 0", "BEGIN", "UPDATE ekiden.claims SET beat = now() WHERE run_uid = '" + string(run) + "'",
	} {
		_, err := conn.Exec(t.Context(), sql)
		ok(t, err)
	}
	started := time.Now()
	var wg sync.WaitGroup
	for range 8 { // as many as there are workers
		wg.Go(func() { is(t, w.Cancel(t.Context(), run), ledger.ErrUnavailable) })
	}
	const waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = $1 AND wait_event_type = 'Lock'`
	for w.number(t, waiting, w.ManagerLogin) < 8 && time.Since(started) < time.Second {
		runtime.Gosched()
	}
	asked := time.Now()
	ok(t, w.Cancel(t.Context(), other))
	if took := time.Since(asked); took > time.Second/2 {
		t.Errorf("another run waited %s", took)
	}
	wg.Wait()
	if took := time.Since(started); took > 6*time.Second {
		t.Errorf("the manager waited %s", took)
	}
	ok(t, conn.Ping(t.Context())) // it has its time

	w.SetOverstay(time.Second)
	is(t, w.Cancel(t.Context(), run), ledger.ErrUnavailable)
	ok(t, w.Cancel(t.Context(), run))
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection still works")
	}
}

func TestATenantStaysWithinItsNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own := w.admitted(t)
	foreign := w.snapshot()
	foreign.Run.NamespaceUID = types.UID(uuid.NewString())
	ok(t, w.Admit(t.Context(), ledger.Admission{Snapshot: foreign}))
	other := foreign.Run.UID
	ok(t, w.BeginAttempt(t.Context(), own, ledger.AttemptKey{}))
	for run, ns := range map[types.UID]types.UID{own: w.namespace, other: foreign.Run.NamespaceUID} {
		w.exec(t, `INSERT INTO ekiden.transcript (run_uid, namespace_uid, seq, generation, segment, kind, schema, body) VALUES ($1, $2, 0, 0, 0, 'k', 1, '{}')`, run, ns)
		w.exec(t, `INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield) VALUES ($1, $2, 0, 0, 'checkpoint')`, run, ns)
		w.exec(t, `INSERT INTO ekiden.usage (run_uid, namespace_uid, turn, try, generation, input, cache_read, output, estimated, cost_micros) VALUES ($1, $2, 0, 1, 0, 0, 0, 0, false, 0)`, run, ns)
	}
	n := w.provision(t, w.namespace, "p")
	conn := pgtest.Connect(t, w.DSN(n.Login(), "p"))

	for _, table := range []string{"runs", "snapshots", "claims", "transcript", "usage", "outcomes"} {
		var all, theirs int
		ok(t, conn.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE run_uid = $1) FROM ekiden."+table, other).Scan(&all, &theirs))
		if all != 1 || theirs != 0 {
			t.Errorf("%s: sees %d rows, %d of another namespace", table, all, theirs)
		}
	}
	tag, err := conn.Exec(t.Context(), `UPDATE ekiden.claims SET beat = now() WHERE run_uid = $1`, other)
	ok(t, err)
	same(t, tag.RowsAffected(), int64(0))
	tag, err = conn.Exec(t.Context(), `UPDATE ekiden.claims SET beat = now() WHERE run_uid = $1`, own)
	ok(t, err)
	same(t, tag.RowsAffected(), int64(1))

	const privilege, policy, reference = "42501", "42501", "23503"
	for sql, want := range map[string]string{
		// into another namespace, honestly, and disguised as its own
		`INSERT INTO ekiden.transcript (run_uid, namespace_uid, seq, generation, segment, kind, schema, body) VALUES ('{other}', '{theirs}', 1, 0, 0, 'k', 1, '{}')`:                           policy,
		`INSERT INTO ekiden.transcript (run_uid, namespace_uid, seq, generation, segment, kind, schema, body) VALUES ('{other}', '{ours}', 1, 0, 0, 'k', 1, '{}')`:                             reference,
		`INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield) VALUES ('{other}', '{theirs}', 1, 0, 'failed')`:                                                      policy,
		`INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield) VALUES ('{other}', '{ours}', 1, 0, 'failed')`:                                                        reference,
		`INSERT INTO ekiden.usage (run_uid, namespace_uid, turn, try, generation, input, cache_read, output, estimated, cost_micros) VALUES ('{other}', '{ours}', 9, 1, 0, 0, 0, 0, false, 0)`: reference,
		// history is not rewritten
		`UPDATE ekiden.transcript SET body = ''`: privilege, `DELETE FROM ekiden.transcript`: privilege, `TRUNCATE ekiden.transcript`: privilege,
		`UPDATE ekiden.outcomes SET result = ''`: privilege, `DELETE FROM ekiden.outcomes`: privilege,
		`UPDATE ekiden.usage SET cost_micros = 0`: privilege, `DELETE FROM ekiden.usage`: privilege,
		// what is the manager's
		`UPDATE ekiden.runs SET ended_at = now()`: privilege, `DELETE FROM ekiden.runs`: privilege,
		`UPDATE ekiden.snapshots SET body = ''`: privilege, `DELETE FROM ekiden.snapshots`: privilege,
		`UPDATE ekiden.attempts SET class = NULL`: privilege, `INSERT INTO ekiden.attempts (run_uid, namespace_uid, segment, attempt) VALUES ('{own}', '{ours}', 7, 7)`: privilege,
		`INSERT INTO ekiden.runs (run_uid, namespace_uid, namespace, name, root_uid, terms) VALUES ('{ours}', '{ours}', 'n', 'n', '{ours}', '{}')`: privilege,
		`INSERT INTO ekiden.claims (run_uid, namespace_uid, lane) VALUES ('{own}', '{ours}', 'x')`:                                                 privilege, `DELETE FROM ekiden.claims`: privilege,
		`UPDATE ekiden.claims SET cancelled_at = NULL`: privilege, `UPDATE ekiden.claims SET final_at = NULL`: privilege,
		`UPDATE ekiden.claims SET namespace_uid = '{theirs}'`: privilege,
		`SELECT * FROM ekiden.tenants`:                        privilege, `SELECT * FROM ekiden.schema_version`: privilege,
		// objects, roles, and locks against everybody
		`CREATE TABLE public.x ()`: privilege, `CREATE TABLE ekiden.x ()`: privilege, `CREATE SCHEMA x`: privilege,
		`CREATE FUNCTION ekiden.tenant2() RETURNS int LANGUAGE sql AS 'SELECT 1'`: privilege,
		`CREATE ROLE ekiden_x`: privilege, `ALTER ROLE {login} CREATEROLE`: privilege, `SET ROLE {manager}`: privilege, `ALTER TABLE ekiden.claims DISABLE ROW LEVEL SECURITY`: privilege,
		`BEGIN; LOCK TABLE ekiden.claims IN ACCESS EXCLUSIVE MODE`: privilege, `BEGIN; LOCK TABLE ekiden.transcript IN SHARE MODE`: privilege,
		`SELECT FROM ekiden.runs FOR UPDATE`: privilege,
	} {
		sql := expand(sql, map[string]string{
			"{own}": string(own), "{other}": string(other), "{ours}": string(w.namespace), "{theirs}": string(foreign.Run.NamespaceUID),
			"{login}": n.Login(), "{manager}": w.ManagerLogin,
		})
		_, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
		if err == nil {
			t.Errorf("%s: was not refused", sql)
			continue
		}
		refusedWith(t, err, want)
		_, _ = conn.PgConn().Exec(t.Context(), "ROLLBACK").ReadAll()
	}
	// As the group itself a login has no namespace at all.
	_, err = conn.Exec(t.Context(), `SET ROLE ekiden_tenant`)
	ok(t, err)
	var rows int
	ok(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM ekiden.claims`).Scan(&rows))
	same(t, rows, 0)
}

// TestATenantBringsNoNamesOfItsOwn lets a login make temporary objects, which come before everybody's, and tries to be
// somebody else by a type of its own.
func TestATenantBringsNoNamesOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.provision(t, w.namespace, "p")
	w.exec(t, `GRANT TEMPORARY ON DATABASE `+w.Name+` TO `+n.Login())
	conn := pgtest.Connect(t, w.DSN(n.Login(), "p"))
	victim := uuid.NewString()
	_, err := conn.PgConn().Exec(t.Context(), `
CREATE TEMPORARY TABLE makes_the_schema ();
CREATE TYPE pg_temp.uuid AS ENUM ('x');
CREATE FUNCTION pg_temp.f(text) RETURNS pg_temp.uuid LANGUAGE sql AS $$ SELECT 'x'::pg_temp.uuid $$;
CREATE CAST (text AS pg_temp.uuid) WITH FUNCTION pg_temp.f(text);
CREATE FUNCTION pg_temp.g(pg_temp.uuid) RETURNS pg_catalog.uuid LANGUAGE sql AS $$ SELECT '`+victim+`'::pg_catalog.uuid $$;
CREATE CAST (pg_temp.uuid AS pg_catalog.uuid) WITH FUNCTION pg_temp.g(pg_temp.uuid) AS IMPLICIT`).ReadAll()
	ok(t, err)
	var is string
	ok(t, conn.QueryRow(t.Context(), `SELECT ekiden.tenant()::text`).Scan(&is))
	same(t, is, string(w.namespace))
}

func expand(s string, with map[string]string) string {
	for k, v := range with {
		s = strings.ReplaceAll(s, k, v)
	}
	return s
}
