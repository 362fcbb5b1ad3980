package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/chaos/judge"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// grace is how long a run may stand still before that is judged: a lease, five seconds for which the ledger waits beyond it, ten
// after which the manager looks again at the latest, and ten for a machine that has other things to do.
const grace = contract.LeaseTTL + 25*time.Second

// books reads what everybody has written down.
func (h *hunt) books(ctx context.Context, began time.Time) (judge.Books, error) {
	b := judge.Books{Grace: grace, Promised: contract.LeaseTTL + 10*time.Second, Began: began, Over: time.Now(), BadRequests: h.model.Report().Violations}
	h.load.mu.Lock()
	for _, r := range h.runs {
		b.Runs = append(b.Runs, *r)
	}
	h.load.mu.Unlock()
	h.mu.Lock()
	b.Faults, b.Ahead, b.Behind = append(b.Faults, h.faults...), h.ahead, h.behind
	h.mu.Unlock()
	var err error
	if b.Marks, err = h.marks(ctx); err != nil {
		return b, fmt.Errorf("asking the witness: %w", err)
	}
	if err := h.query(ctx, func(conn *pgx.Conn) (err error) {
		if b.Calls, err = journal(ctx, conn); err == nil {
			b.Ends, err = ends(ctx, conn)
		}
		return err
	}); err != nil {
		return b, fmt.Errorf("reading the ledger: %w", err)
	}
	lines, err := toolserver.ReadBook(h.book)
	if err != nil {
		return b, fmt.Errorf("reading the book of the tool server: %w", err)
	}
	for _, l := range lines {
		if l.What != toolserver.Ended {
			b.Effects = append(b.Effects, judge.Effect{Key: l.Key, Tool: l.Tool, At: l.At, Again: l.What == toolserver.Again})
		}
	}
	return b, nil
}

func journal(ctx context.Context, conn *pgx.Conn) ([]judge.Call, error) {
	rows, err := conn.Query(ctx, `SELECT run_uid::text, turn, idx, tool, key, coalesce(kind, '') FROM ekiden.calls ORDER BY run_uid, turn, idx`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c judge.Call, err error) {
		err = row.Scan(&c.Run, &c.Turn, &c.Index, &c.Tool, &c.Idempotency, &c.Kind)
		t := toolNamed(c.Tool)
		c.Repeatable, c.Once = t.repeatable(), t.idempotency != ""
		return c, err
	})
}

func ends(ctx context.Context, conn *pgx.Conn) ([]judge.End, error) {
	rows, err := conn.Query(ctx, `SELECT run_uid::text, end_phase, end_code FROM ekiden.runs WHERE ended_at IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e judge.End, err error) {
		return e, row.Scan(&e.Run, &e.Phase, &e.Code)
	})
}
