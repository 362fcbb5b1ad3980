package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/ledger/ledgertest"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

// TestLedger holds Postgres to the laws that the ledger in memory keeps as well. What only Postgres can break is beside it.
func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledgertest.Fixture {
		t.Helper()
		return newWorld(t).fixture(t)
	})
}

// TestLedgerThroughAPooler is all of it once more, through pgbouncer in transaction mode.
func TestLedgerThroughAPooler(t *testing.T) {
	t.Parallel()
	pooler := pgtest.NewPooler(t, pgtest.Shared(t).Superuser)
	t.Run("laws", func(t *testing.T) { // the pooler lasts until all of them have ended
		ledgertest.Run(t, func(t *testing.T) ledgertest.Fixture {
			t.Helper()
			w := newWorld(t)
			w.through(t, pooler.Through(t, w.Manager))
			return w.fixture(t)
		})
	})
}

func (w *world) fixture(t *testing.T) ledgertest.Fixture {
	t.Helper()
	w.SetWarmUp(0)
	return ledgertest.Fixture{
		Ledger: w.Ledger,
		Hold:   func(run types.UID, k ledger.AttemptKey) { w.held(t, run, k.Segment, k.Attempt) },
		Lapse: func(run types.UID, ago time.Duration) {
			w.exec(t, `UPDATE ekiden.claims SET lease_until = now() - $2::bigint * interval '1 ms' WHERE run_uid = $1`, run, ago.Milliseconds())
		},
		Held: func(run types.UID) bool {
			return w.number(t, `SELECT count(*) FROM ekiden.claims WHERE run_uid = $1 AND holder IS NOT NULL`, run) == 1
		},
		Yield: func(run contract.Identity, segment int, o contract.Outcome) {
			var wait *string
			if o.Wait != nil {
				b, err := json.Marshal(o.Wait)
				if err != nil {
					t.Fatal(err)
				}
				s := string(b)
				wait = &s
			}
			w.exec(t, `INSERT INTO ekiden.outcomes (run_uid, namespace_uid, segment, generation, yield, code, message, result, wait) VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8)`,
				run.UID, run.NamespaceUID, segment, string(o.Yield), o.Code, o.Message, o.Result, wait)
		},
		Append: func(run contract.Identity, entries int) {
			w.exec(t, `INSERT INTO ekiden.transcript (run_uid, namespace_uid, seq, generation, segment, kind, schema, body) SELECT $1, $2, n, 1, 0, 'Started', 1, '{}' FROM generate_series(0, $3::int - 1) n`,
				run.UID, run.NamespaceUID, entries)
		},
		SettleCall: func(run contract.Identity, turn, index int) {
			w.exec(t, `INSERT INTO ekiden.calls (run_uid, namespace_uid, turn, idx, generation, segment, tool, effect, digest, settled_at, kind, code, text, bytes)
VALUES ($1, $2, $3, $4, 1, 0, 's/t', 'Send', 'd', now(), 'refused', '', '', 0)`, run.UID, run.NamespaceUID, turn, index)
		},
		Versions: func(namespace types.UID) int {
			return w.number(t, `SELECT count(*) FROM ekiden.policies WHERE namespace_uid = $1`, namespace)
		},
	}
}
