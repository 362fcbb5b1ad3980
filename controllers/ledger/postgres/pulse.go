package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
)

// Beat counts on, and marks the runs that were at work at the moment to which the ledger was set back. No tenant can lock the
// rows of these two tables, so none can keep it waiting. The row is locked first: of two that beat at once the second sees the
// first's count.
func (l *Ledger) Beat(ctx context.Context, known int64) (ledger.Pulse, error) {
	var (
		b pgx.Batch
		p ledger.Pulse
	)
	b.Queue(`SELECT count < $1::bigint FROM ekiden.pulse FOR UPDATE`, known).QueryRow(func(row pgx.Row) error { return row.Scan(&p.SetBack) })
	b.Queue(`
WITH marked AS (
  UPDATE ekiden.runs r SET set_back_at = now()
  WHERE r.ended_at IS NULL AND r.set_back_at IS NULL AND (SELECT count < $1::bigint FROM ekiden.pulse)
    AND EXISTS (SELECT FROM ekiden.attempts a WHERE a.run_uid = r.run_uid AND a.ended_at IS NULL)
  RETURNING 1)
SELECT count(*) FROM marked`, known).QueryRow(func(row pgx.Row) error { return row.Scan(&p.Runs) })
	b.Queue(`UPDATE ekiden.pulse SET count = greatest(count, $1::bigint) + 1, at = now() RETURNING count`, known).QueryRow(func(row pgx.Row) error { return row.Scan(&p.Count) })
	if err := l.send(ctx, &b); err != nil {
		return ledger.Pulse{}, fmt.Errorf("beating: %w", err)
	}
	return p, nil
}
