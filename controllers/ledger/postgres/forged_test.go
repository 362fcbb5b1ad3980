package postgres_test

import (
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

// TestWhatALoginForgesEndsItsRun writes with a namespace's login what no segment writes.
func TestWhatALoginForgesEndsItsRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.provision(t, w.namespace, "p")
	conn := pgtest.Connect(t, w.DSN(n.Login(), "p"))
	const leave = `INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield, code, message, wait) VALUES ($1, $2, 0, 0, $3, $4, $5, $6)`
	for name, wait := range map[string]string{
		"seats for everybody": `{"asks":[{"seats":2147483647}]}`, "no asks": `{"asks":[]}`, "null": `null`, "nothing": ``, "half": `{"asks":[`, "another shape": `{"asks":7}`,
		"a number that does not fit": `{"asks":[{"turn":1e99}]}`,
	} {
		run := w.admitted(t)
		ok(t, w.BeginAttempt(t.Context(), run, ledger.AttemptKey{}))
		_, err := conn.Exec(t.Context(), leave, run, w.namespace, "waiting", "", "", wait)
		ok(t, err)
		if o := w.look(t, run).Outcome; o == nil || o.Yield != contract.YieldFailed || o.Code != v1alpha1.ReasonIncompatibleSession || o.Wait != nil {
			t.Errorf("%s: %+v", name, o)
		}
	}

	// As many rows as anybody likes, but none that is larger than what is read of it.
	run := w.admitted(t)
	large := make([]byte, contract.MaxWait+1)
	for i := range large {
		large[i] = ' '
	}
	_, err := conn.Exec(t.Context(), leave, run, w.namespace, "waiting", "", "", string(large))
	refusedWith(t, err, "23514")

	// Instants and numbers that are none of a process.
	_, err = conn.Exec(t.Context(), `UPDATE ekiden.claims SET active_ms = $2::bigint, holder = 'me', lease_until = 'infinity', beat = '-infinity', segment = $3::int WHERE run_uid = $1`,
		run, int64(math.MaxInt64), math.MaxInt32)
	ok(t, err)
	ok(t, w.BeginAttempt(t.Context(), run, ledger.AttemptKey{}))
	if r := w.look(t, run); r.Active <= 0 || r.Lapsed() {
		t.Errorf("active %s, lapsed %t", r.Active, r.Lapsed())
	}
	for segment, at := range []string{"infinity", "-infinity", "20000-01-01", "0044-03-15 BC"} {
		_, err = conn.Exec(t.Context(), `INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield, at) VALUES ($1, $2, $3, 0, 'checkpoint', $4::text::timestamptz)`,
			run, w.namespace, segment, at)
		ok(t, err)
		ok(t, w.BeginAttempt(t.Context(), run, ledger.AttemptKey{Segment: segment}))
		if r := w.look(t, run); r.Outcome == nil || r.OutcomeAt.Before(r.AdmittedAt) || r.OutcomeAt.After(r.Now) {
			t.Errorf("%s: left at %s", at, r.OutcomeAt)
		}
	}
}

// TestAForgedContractIsNobodysPin puts rows under the digest that a revision pins, before and after the true one.
func TestAForgedContractIsNobodysPin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.provision(t, w.namespace, "p")
	conn := pgtest.Connect(t, w.DSN(n.Login(), "p"))
	server := types.UID(uuid.NewString())
	tool := contract.ToolContract{Name: "a", Schema: json.RawMessage(`{"type":"object"}`)}
	body, digest, err := tool.Encode()
	ok(t, err)
	const keep = `INSERT INTO ekiden.contracts (namespace_uid, server_uid, generation, name, digest, body) VALUES ($1, $2, $3, $4, $5, $6)`
	_, err = conn.Exec(t.Context(), keep, w.namespace, server, 0, "forged", digest, `{"name":"a","schema":{}}`)
	refusedWith(t, err, "23514")
	for i := range 20 { // of before the table refused it
		if i == 0 {
			w.exec(t, `ALTER TABLE ekiden.contracts DROP CONSTRAINT contracts_check`)
		}
		w.exec(t, keep, w.namespace, server, i, fmt.Sprint("forged ", i), digest, `{"name":"a","schema":{}}`)
	}
	ok(t, w.KeepContracts(t.Context(), w.namespace, server, 7, []contract.ToolContract{tool}))
	w.exec(t, keep, w.namespace, server, 9, "again", digest, string(body))
	garbage := `{"name":7}`
	w.exec(t, keep, w.namespace, server, 0, "garbage", contract.Digest([]byte(garbage)), garbage)
	pin, none := ledger.Pin{Server: server, Digest: digest}, ledger.Pin{Server: server, Digest: contract.Digest([]byte(garbage))}
	got, err := w.Pinned(t.Context(), w.namespace, []ledger.Pin{none, pin})
	ok(t, err)
	same(t, got, map[ledger.Pin]contract.ToolContract{pin: tool})
}

// TestATenantThatHoldsALockDelaysItsPolicy for a moment only, and not for ever.
func TestATenantThatHoldsALockDelaysItsPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.provision(t, w.namespace, "p")
	run := w.admitted(t)
	w.held(t, run, 0, 0)
	conn := pgtest.Connect(t, w.DSN(n.Login(), "p"))
	for _, sql := range []string{
		"SET statement_timeout = 0", "SET idle_in_transaction_session_timeout = 0", "BEGIN", "UPDATE ekiden.claims SET beat = now()",
	} {
		_, err := conn.Exec(t.Context(), sql)
		ok(t, err)
	}
	set := contract.PolicySet{Sources: []contract.PolicySource{{Namespace: "team", Name: "default", UID: "u", Generation: 1}}}
	is(t, w.Project(t.Context(), w.namespace, set), ledger.ErrUnavailable)
	ok(t, conn.Ping(t.Context())) // it has its time
	ok(t, w.Project(t.Context(), types.UID(uuid.NewString()), set))

	w.SetOverstay(time.Second)
	is(t, w.Project(t.Context(), w.namespace, set), ledger.ErrUnavailable)
	ok(t, w.Project(t.Context(), w.namespace, set))
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection still works")
	}
	same(t, w.number(t, `SELECT count(*) FROM ekiden.policies WHERE namespace_uid = $1`, w.namespace), 1)
}

// TestATenantThatHoldsManyLocks lets go of one after the other: each is waited for, and all together no longer than one.
func TestATenantThatHoldsManyLocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.provision(t, w.namespace, "p")
	const locks = 5
	var holders sync.WaitGroup
	defer holders.Wait()
	for i := range locks {
		run := w.admitted(t)
		w.held(t, run, 0, 0)
		conn := pgtest.Connect(t, w.DSN(n.Login(), "p"))
		holders.Go(func() {
			_, _ = conn.PgConn().Exec(t.Context(), fmt.Sprintf(`BEGIN; UPDATE ekiden.claims SET beat = now() WHERE run_uid = '%s'; SELECT pg_sleep(%f); ROLLBACK`, run, 1.5*float64(i+1))).ReadAll()
		})
	}
	for w.number(t, `SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'PgSleep'`, n.Login()) < locks {
		if t.Context().Err() != nil {
			return
		}
	}
	// Whoever waited for each in turn would have all of them in the end.
	is(t, w.Project(t.Context(), w.namespace, contract.PolicySet{}), ledger.ErrUnavailable)
}

// TestAPolicyOfBeforeGenerationsWereKept is followed by any, also by one with what jsonb refuses.
func TestAPolicyOfBeforeGenerationsWereKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `INSERT INTO ekiden.policies (namespace_uid, version, body) VALUES ($1, 1, '{"schema":1,"sources":[{"namespace":"team","name":"default"}]}')`, w.namespace)
	set := contract.PolicySet{Sources: []contract.PolicySource{{Namespace: "team", Name: "default", UID: "u", Generation: 1, Rules: []v1alpha1.PolicyRule{{Name: "a\x00b"}}}}}
	ok(t, w.Project(t.Context(), w.namespace, set))
	set.Sources[0].Generation = 0
	is(t, w.Project(t.Context(), w.namespace, set), ledger.ErrStale)
	same(t, w.number(t, `SELECT max(version) FROM ekiden.policies WHERE namespace_uid = $1`, w.namespace), 2)
}
