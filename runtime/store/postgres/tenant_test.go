package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

const (
	refused   = "42501" // no privilege, or against row-level security
	reference = "23503"
	check     = "23514"
)

// TestATenantsRightsToCalls tries with a namespace's login what the tables of calls must not allow, past every adapter.
func TestATenantsRightsToCalls(t *testing.T) {
	t.Parallel()
	w, v := newWorld(t), newWorld(t)
	own, foreign := w.furnish(t), v.furnish(t)
	conn := pgtest.Connect(t, w.tenant)
	names := strings.NewReplacer(
		"{own}", string(own), "{foreign}", string(foreign), "{ours}", string(w.namespace), "{theirs}", string(v.namespace), "{new}", uuid.NewString(),
	)

	for table, want := range map[string]int{"calls": 2, "inbox": 1, "policies": 1, "contracts": 1} {
		var all, theirs int
		if err := conn.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE namespace_uid <> $1) FROM ekiden.`+table, w.namespace).Scan(&all, &theirs); err != nil {
			t.Fatal(err)
		}
		if all != want || theirs != 0 {
			t.Errorf("%s: sees %d rows, %d of another namespace; want %d and 0", table, all, theirs, want)
		}
	}

	// How many rows are changed. Call 0 is begun, call 1 is settled.
	for sql, want := range map[string]int64{
		`UPDATE ekiden.calls SET generation = generation WHERE idx = 0`:                                                      1,
		`UPDATE ekiden.calls SET generation = generation WHERE run_uid = '{foreign}'`:                                        0,
		`UPDATE ekiden.calls SET text = 'other' WHERE idx = 1`:                                                               0,
		`UPDATE ekiden.calls SET settled_at = NULL, kind = NULL, code = NULL, text = NULL, bytes = NULL WHERE idx = 1`:       0,
		`UPDATE ekiden.calls SET generation = 99 WHERE settled_at IS NOT NULL`:                                               0,
		`UPDATE ekiden.calls SET approved_by = '{boss}', approvals = '{}' WHERE idx = 1`:                                     0,
		`INSERT INTO ekiden.calls (` + columns + `) VALUES ('{own}', '{ours}', 0, 1, ` + values + `) ON CONFLICT DO NOTHING`: 0,
	} {
		tag, err := conn.PgConn().Exec(t.Context(), names.Replace(sql)).ReadAll()
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		} else if n := tag[0].CommandTag.RowsAffected(); n != want {
			t.Errorf("%s: changed %d rows, want %d", sql, n, want)
		}
	}

	for sql, want := range map[string]string{
		// into another namespace, honestly, and disguised as its own
		`INSERT INTO ekiden.calls (` + columns + `) VALUES ('{foreign}', '{theirs}', 9, 0, ` + values + `)`:                                     refused,
		`INSERT INTO ekiden.calls (` + columns + `) VALUES ('{foreign}', '{ours}', 9, 0, ` + values + `)`:                                       reference,
		`INSERT INTO ekiden.contracts (namespace_uid, server_uid, generation, name, digest, body) VALUES ('{theirs}', '{new}', 1, 'n', '', '')`: refused,
		// what the tables themselves refuse
		`INSERT INTO ekiden.calls (` + columns + `) VALUES ('{own}', '{ours}', 9, 0, 0, 0, '', '', '', NULL)`:                                        check,
		`UPDATE ekiden.calls SET kind = 'answered' WHERE idx = 0`:                                                                                    check,
		`UPDATE ekiden.calls SET kind = 'perhaps', settled_at = now(), code = '', text = '', bytes = 0`:                                              check,
		`INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield) VALUES ('{own}', '{ours}', 9, 0, 'waiting')`:               check,
		`INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield, wait) VALUES ('{own}', '{ours}', 9, 0, 'completed', '{}')`: check,
		// what is larger than anything that a segment writes
		outcome + `'waiting', repeat('x', 1048577))`: check, outcome2 + `repeat('c', 65), '', '')`: check, outcome2 + `'', repeat('m', 4097), '')`: check,
		outcome2 + `'', '', repeat('r', 67108865))`: check,
		`INSERT INTO ekiden.transcript (run_uid, namespace_uid, seq, generation, segment, kind, schema, body) VALUES ('{own}', '{ours}', 9, 0, 0, repeat('k', 65), 1, '')`: check,
		`UPDATE ekiden.claims SET holder = repeat('h', 1025), lease_until = now()`:                                                                                         check,
		`UPDATE ekiden.calls SET rule = repeat('r', 513) WHERE idx = 0`:                                                                                                    check, `UPDATE ekiden.calls SET approved_by = array_fill('x'::text, ARRAY[65]) WHERE idx = 0`: check,
		`UPDATE ekiden.calls SET approved_by = ARRAY[repeat('b', 65537)] WHERE idx = 0`:          check,
		`UPDATE ekiden.calls SET approvals = array_fill('{new}'::uuid, ARRAY[65]) WHERE idx = 0`: check,
		settle + `code = repeat('c', 65), text = '' WHERE idx = 0`:                               check, settle + `code = '', text = repeat('t', 2097153) WHERE idx = 0`: check,
		`INSERT INTO ekiden.calls (` + columns + `) VALUES ('{own}', '{ours}', 9, 0, 0, 0, repeat('t', 513), '', '', now())`: check,
		`INSERT INTO ekiden.calls (` + columns + `) VALUES ('{own}', '{ours}', 9, 0, 0, 0, '', repeat('e', 65), '', now())`:  check,
		`INSERT INTO ekiden.calls (` + columns + `) VALUES ('{own}', '{ours}', 9, 0, 0, 0, '', '', repeat('d', 129), now())`: check,
		keep + `'n', '', '')`: check, // under a digest that is another's
		keep + `repeat('n', 129), 'sha256:' || encode(sha256(''), 'hex'), '')`:                           check,
		keep + `'n', 'sha256:' || encode(sha256(repeat('b', 65537)::bytea), 'hex'), repeat('b', 65537))`: check,
		// what a call is, and that it was begun
		`UPDATE ekiden.calls SET digest = '' WHERE idx = 0`: refused, `UPDATE ekiden.calls SET begun_at = NULL WHERE idx = 0`: refused,
		`UPDATE ekiden.calls SET tool = ''`: refused, `UPDATE ekiden.calls SET key = ''`: refused, `UPDATE ekiden.calls SET effect = 'Read'`: refused,
		`UPDATE ekiden.calls SET namespace_uid = '{theirs}'`: refused, `UPDATE ekiden.calls SET idx = 7`: refused,
		`INSERT INTO ekiden.calls (` + columns + `) VALUES ('{own}', '{ours}', 0, 1, ` + values + `)
		 ON CONFLICT (run_uid, lane, turn, idx) DO UPDATE SET generation = 99`: refused,
		`DELETE FROM ekiden.calls`: refused, `TRUNCATE ekiden.calls`: refused,
		// what is the manager's
		`INSERT INTO ekiden.inbox (run_uid, namespace_uid, kind, request_uid, turn, idx, digest, seat, seats, phase) VALUES ('{own}', '{ours}', 'approval', '{new}', 0, 0, '', 1, 1, 'Approved')`: refused,
		`UPDATE ekiden.inbox SET phase = 'Approved'`: refused, `DELETE FROM ekiden.inbox`: refused, `SELECT nextval('ekiden.inbox_seq_seq')`: refused,
		`INSERT INTO ekiden.policies (namespace_uid, version, body) VALUES ('{ours}', 99, '')`: refused,
		`UPDATE ekiden.policies SET body = ''`:                                                 refused, `DELETE FROM ekiden.policies`: refused,
		// contracts stay as they are
		`UPDATE ekiden.contracts SET body = ''`: refused, `DELETE FROM ekiden.contracts`: refused,
		// locks against everybody
		`LOCK TABLE ekiden.calls IN ACCESS EXCLUSIVE MODE`: refused, `LOCK TABLE ekiden.policies IN SHARE MODE`: refused,
		`SELECT FROM ekiden.policies FOR SHARE`: refused, `SELECT FROM ekiden.inbox FOR UPDATE`: refused,
	} {
		_, err := conn.PgConn().Exec(t.Context(), "BEGIN; "+names.Replace(sql)).ReadAll()
		var said *pgconn.PgError
		if !errors.As(err, &said) || said.Code != want {
			t.Errorf("%s: got error %v, want SQLSTATE %s", sql, err, want)
		}
		_, _ = conn.PgConn().Exec(t.Context(), "ROLLBACK").ReadAll()
	}
}

const (
	outcome  = `INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield, wait) VALUES ('{own}', '{ours}', 9, 0, `
	outcome2 = `INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield, code, message, result) VALUES ('{own}', '{ours}', 9, 0, 'failed', `
	settle   = `UPDATE ekiden.calls SET settled_at = now(), kind = 'answered', bytes = 0, `
	keep     = `INSERT INTO ekiden.contracts (namespace_uid, server_uid, generation, name, digest, body) VALUES ('{ours}', '{new}', 1, `

	columns = `run_uid, namespace_uid, turn, idx, generation, segment, tool, effect, digest, begun_at`
	values  = `0, 0, '', '', '', now()`
)

// furnish gives the namespace a run with a call that is begun, one that is settled, and a row in each other table.
func (w *world) furnish(t *testing.T) types.UID {
	t.Helper()
	run := w.admitted(t)
	s := w.claim(t, run)
	for index := range 2 {
		if _, err := s.Begin(t.Context(), storetest.Intent(0, index)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Settle(t.Context(), storetest.Settlement(0, 1, segment.ResultAnswered)); err != nil {
		t.Fatal(err)
	}
	w.fixture().Decide(t, run, contract.Delivery{Request: types.UID(uuid.NewString()), Seat: 1, Seats: 1, Phase: v1alpha1.ApprovalDenied})
	w.policy(t, contract.PolicySet{})
	w.exec(t, `INSERT INTO ekiden.contracts (namespace_uid, server_uid, generation, name, digest, body) VALUES ($1, $2, 1, 'n', $3, '')`, w.namespace, uuid.NewString(), contract.Digest(nil))
	return run
}
