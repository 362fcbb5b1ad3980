// Package postgres reads sessions from Postgres. It only reads: with the login of a namespace, of that namespace alone.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/cli/session"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

var (
	// ErrUnknown is returned for a run that the database does not show.
	ErrUnknown = errors.New("the database holds no such run")
	// ErrNotReached is returned when no connection came about.
	ErrNotReached = errors.New("no connection to Postgres from here")
	// ErrLogin is returned when the login was refused.
	ErrLogin = errors.New("the login was refused by Postgres")
	// ErrSchema is returned for a database without the tables, or with other ones.
	ErrSchema = errors.New("the database does not have the tables of this version")
)

// connectTimeout holds unless the DSN says otherwise.
const connectTimeout = 10 * time.Second

// Read reads the session of a run, all of it as of one instant. Errors: those above, session.ErrDSN.
func Read(ctx context.Context, dsn string, run types.UID) (session.Rows, error) {
	r := session.Rows{Segment: -1}
	err := inspect(ctx, dsn, func(tx pgx.Tx) error { return read(ctx, tx, run, &r) })
	return r, err
}

// Result reads the result of a run's newest outcome, whole. Errors: those above, session.ErrDSN.
func Result(ctx context.Context, dsn string, run types.UID) (string, error) {
	var result string
	err := inspect(ctx, dsn, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT result FROM ekiden.outcomes WHERE run_uid = $1 AND lane = '' ORDER BY segment DESC LIMIT 1`, run).Scan(&result)
	})
	return result, err
}

// inspect gives look one view of the database, without prepared statements or session state: the DSN may lead to pgbouncer.
func inspect(ctx context.Context, dsn string, look func(pgx.Tx) error) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return session.ErrDSN // the parser's words may repeat the password
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.StatementCacheCapacity, config.DescriptionCacheCapacity = 0, 0
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return interpret(ctx, err)
	}
	defer func() { _ = conn.Close(ctx) }()
	return interpret(ctx, pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, look))
}

const (
	selectRun = `
SELECT r.namespace, r.namespace_uid::text, r.name, r.run_uid::text, r.root_uid::text, r.admitted_at,
  r.ended_at, r.end_phase, r.end_code, r.end_message, s.body, s.digest, c.generation, c.segment, c.cancelled_at
FROM ekiden.runs r JOIN ekiden.snapshots s USING (run_uid) JOIN ekiden.claims c ON c.run_uid = r.run_uid AND c.lane = ''
WHERE r.run_uid = $1`
	selectEntries = `SELECT at, generation, segment, kind, schema, body FROM ekiden.transcript WHERE run_uid = $1 AND lane = '' ORDER BY seq`
	selectUsage   = `SELECT at, generation, turn, try, input + cache_read, cache_read, output, cost_micros, estimated FROM ekiden.usage WHERE run_uid = $1 AND lane = '' ORDER BY turn, try, generation`
	selectCalls   = `
SELECT turn, idx, segment, generation, tool, effect, idempotency, digest, key, rule, policy_version, approvals::text[], approved_by,
  begun_at, settled_at, coalesce(kind, ''), coalesce(code, ''), coalesce(text, ''), coalesce(bytes, 0)
FROM ekiden.calls WHERE run_uid = $1 AND lane = '' ORDER BY turn, idx`
	selectInbox    = `SELECT at, seq, CASE kind WHEN 'approval' THEN '' ELSE 'Indeterminate' END, request_uid::text, turn, idx, digest, seat, seats, phase, decided_by, reason FROM ekiden.inbox WHERE run_uid = $1 AND lane = '' AND kind IN ('approval', 'indeterminate') ORDER BY seq`
	selectOutcomes = `SELECT segment, at, generation, yield, code, message, result, coalesce(wait, '') FROM ekiden.outcomes WHERE run_uid = $1 AND lane = '' ORDER BY segment`
)

func read(ctx context.Context, tx pgx.Tx, run types.UID, r *session.Rows) error {
	var (
		ended, cancelled     *time.Time
		phase, code, message *string
		number               *int
	)
	if err := tx.QueryRow(ctx, selectRun, run).Scan(
		&r.Run.Namespace, &r.Run.NamespaceUID, &r.Run.Name, &r.Run.UID, &r.Run.RootUID, &r.AdmittedAt,
		&ended, &phase, &code, &message, &r.Snapshot, &r.Digest, &r.Generation, &number, &cancelled,
	); err != nil {
		return err
	}
	if ended != nil {
		r.End = &session.End{At: *ended, Phase: *phase, Code: *code, Message: *message}
	}
	if number != nil {
		r.Segment = *number
	}
	if cancelled != nil {
		r.CancelledAt = *cancelled
	}
	var err error
	if r.Entries, err = all(ctx, tx, selectEntries, run, func(row pgx.CollectableRow) (e session.EntryRow, err error) {
		return e, row.Scan(&e.At, &e.Generation, &e.Segment, &e.Kind, &e.Schema, &e.Body)
	}); err != nil {
		return err
	}
	if r.Usage, err = all(ctx, tx, selectUsage, run, func(row pgx.CollectableRow) (u session.UsageRow, err error) {
		return u, row.Scan(&u.At, &u.Generation, &u.Turn, &u.Try, &u.Usage.Input, &u.Usage.CacheRead, &u.Usage.Output, &u.Usage.Cost, &u.Usage.Estimated)
	}); err != nil {
		return err
	}
	if r.Calls, err = all(ctx, tx, selectCalls, run, scanCall); err != nil {
		return err
	}
	if r.Inbox, err = all(ctx, tx, selectInbox, run, func(row pgx.CollectableRow) (d session.Decision, err error) {
		return d, row.Scan(&d.At, &d.Seq, &d.Type, &d.Request, &d.Turn, &d.Index, &d.Digest, &d.Seat, &d.Seats, &d.Phase, &d.By, &d.Reason)
	}); err != nil {
		return err
	}
	r.Outcomes, err = all(ctx, tx, selectOutcomes, run, func(row pgx.CollectableRow) (o session.OutcomeRow, err error) {
		return o, row.Scan(&o.Segment, &o.Outcome.At, &o.Outcome.Generation, &o.Outcome.Yield, &o.Outcome.Code, &o.Outcome.Message, &o.Outcome.Result, &o.Wait)
	})
	return err
}

func scanCall(row pgx.CollectableRow) (session.Call, error) {
	var (
		c              session.Call
		result         segment.CallResult
		begun, settled *time.Time
	)
	err := row.Scan(&c.Turn, &c.Index, &c.Segment, &c.Generation, &c.Tool, &c.Effect, &c.Idempotency, &c.Digest, &c.Key, &c.Rule, &c.PolicyVersion,
		&c.Approvals, &c.ApprovedBy, &begun, &settled, &result.Kind, &result.Code, &result.Text, &result.Bytes)
	if begun != nil {
		c.BegunAt = *begun
	}
	if settled != nil {
		c.SettledAt, c.Result = *settled, &result
	}
	return c, err
}

func all[T any](ctx context.Context, tx pgx.Tx, query string, run types.UID, scan pgx.RowToFunc[T]) ([]T, error) {
	rows, err := tx.Query(ctx, query, run)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// interpret translates an error of pgx by type and code. A refused statement's own words are safe; they hold no DSN.
func interpret(ctx context.Context, err error) error {
	var refused *pgconn.PgError
	var connecting *pgconn.ConnectError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, pgx.ErrNoRows):
		return ErrUnknown
	case errors.As(err, &refused):
		switch refused.Code {
		case "28000", "28P01": // no such login, wrong password
			return fmt.Errorf("%w: %s", ErrLogin, refused.Message)
		case "3F000", "42P01", "42703", "42501": // no such schema, table or column, or no right to it
			return fmt.Errorf("%w: %s", ErrSchema, refused.Message)
		}
		return fmt.Errorf("asking Postgres: %s (SQLSTATE %s)", refused.Message, refused.Code)
	case errors.As(err, &connecting):
		return fmt.Errorf("%w: %w", ErrNotReached, errors.Unwrap(connecting))
	default:
		return fmt.Errorf("reading from Postgres: %w", err)
	}
}
