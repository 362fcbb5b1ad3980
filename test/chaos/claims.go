package chaos

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// glimpse is how often it is looked whether a run was taken over. Who is stale has to go on before its successor has done what
// would stand in its way besides the fence: it asks a model, and has an answer after some tenths of a second.
const glimpse = 20 * time.Millisecond

// succeeded waits until another process has claimed the run, or the run has ended. generation is that of the claim before, or 0 for
// whatever it is now. It gives up after a while, or once going is false.
func (w *world) succeeded(ctx context.Context, run string, generation int64, within time.Duration, going func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for going() && ctx.Err() == nil {
		taken := false
		if err := w.query(ctx, func(conn *pgx.Conn) (err error) {
			taken, err = w.watched(ctx, conn, run, &generation, going)
			return err
		}); err == nil && taken {
			return true
		}
	}
	return false
}

// watched looks through one connection, for as long as that lasts.
func (w *world) watched(ctx context.Context, conn *pgx.Conn, run string, generation *int64, going func() bool) (bool, error) {
	for going() {
		var now int64
		var over bool
		if err := conn.QueryRow(ctx, `SELECT generation, final_at IS NOT NULL FROM ekiden.claims WHERE run_uid = $1`, run).Scan(&now, &over); err != nil {
			return false, err
		}
		if *generation == 0 {
			*generation = now
		}
		if now > *generation || over {
			return true, nil
		}
		time.Sleep(glimpse) //nolint:forbidigo // the takeover is in Postgres, which tells nobody
	}
	return false, nil
}
