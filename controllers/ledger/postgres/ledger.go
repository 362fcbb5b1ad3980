// Package postgres keeps the ledger in Postgres, in the tables whose migrations are in runtime/store/postgres.
//
// Each method but Provision and Unprovision is one transaction, sent whole as one pipelined batch: the server takes everything up to
// the batch's end as one transaction, each statement with a fresh view of what others have committed. Locks are taken in
// the order claim, then run, then attempt.
package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	// connectTimeout holds unless the DSN says otherwise.
	connectTimeout = 5 * time.Second
	// maxConns holds unless the DSN says otherwise. It is more than there are workers: one that waits for a lock shall
	// not keep another from asking.
	maxConns = 16
	// overstay is how long a tenant's transaction may keep the manager waiting before its connection is ended. Its login
	// is meant to end it by then, and may lift that itself.
	overstay = 10 * time.Second
)

// Ledger is a ledger.Ledger on one database.
type Ledger struct {
	pool *pgxpool.Pool
	// warmUp is how long Postgres must have been up before a lease counts as lapsed: while it was down nobody could beat.
	warmUp time.Duration
	// overstay is the constant, but in tests.
	overstay time.Duration
}

var _ ledger.Ledger = (*Ledger)(nil)

// Open makes a ledger. It does not connect yet. The DSN is the manager's: of the login that owns the tables, with
// CREATEROLE. It may lead to pgbouncer in transaction mode.
func Open(ctx context.Context, dsn string) (*Ledger, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading the DSN: %w", err)
	}
	if u, err := pgx.ParseConfig(dsn); err == nil && u.RuntimeParams["pool_max_conns"] == "" {
		c.MaxConns = maxConns
	}
	c.MaxConnIdleTime = time.Minute
	// No ping before use: it would double the transactions. A dead connection is an error like any other.
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.ConnConfig.StatementCacheCapacity = 0
	c.ConnConfig.DescriptionCacheCapacity = 0
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connectTimeout
	}
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "ekiden-manager"
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", interpret(ctx, err))
	}
	return &Ledger{pool: pool, warmUp: contract.LeaseTTL, overstay: overstay}, nil
}

// Close ends the ledger's connections.
func (l *Ledger) Close() { l.pool.Close() }

// Ping asks whether Postgres answers. Errors: ledger.ErrUnavailable.
func (l *Ledger) Ping(ctx context.Context) error { return interpret(ctx, l.pool.Ping(ctx)) }

// answerWithin bounds the wait for an answer: a server whose host is gone sends none, not even a refusal. It is longer
// than every timeout that the server keeps itself.
const answerWithin = 30 * time.Second

// send carries out b as one transaction in one round trip.
func (l *Ledger) send(ctx context.Context, b *pgx.Batch) error {
	return interpret(ctx, l.carry(ctx, b))
}

// carry is send with the error as pgx gives it.
func (l *Ledger) carry(ctx context.Context, b *pgx.Batch) error {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := l.pool.SendBatch(within, b).Close()
	shed(l.pool, err)
	return err
}

// impatient is the first statement of what waits for a lock that a tenant may hold. It is soon given up, as ErrUnavailable:
// the run is looked at again, and others meanwhile.
const impatient = `SELECT set_config('lock_timeout', '2s', true)`

// sendAbout sends a batch about one run. If it met a lock, whoever has held it for too long is shown out for the next try.
func (l *Ledger) sendAbout(ctx context.Context, run types.UID, b *pgx.Batch) error {
	err := l.carry(ctx, b)
	if state(err) != lockTimeout {
		return interpret(ctx, err)
	}
	return errors.Join(interpret(ctx, err), l.showOutOf(ctx, run))
}

// Admit freezes the snapshot and makes the run's claim row.
func (l *Ledger) Admit(ctx context.Context, a ledger.Admission) error {
	id := a.Snapshot.Run
	body, digest, err := a.Snapshot.Encode()
	if err != nil {
		return fmt.Errorf("admitting run %s: %w", id.UID, err)
	}
	terms, err := json.Marshal(a.Snapshot.Terms())
	if err != nil {
		return fmt.Errorf("admitting run %s: %w", id.UID, err)
	}
	var (
		b        pgx.Batch
		admitted bool
		of       v1alpha1.RunReference
	)
	b.Queue(`
INSERT INTO ekiden.runs (run_uid, namespace_uid, namespace, name, root_uid, idempotency_key, terms)
VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7) ON CONFLICT DO NOTHING`,
		id.UID, id.NamespaceUID, id.Namespace, id.Name, id.RootUID, a.IdempotencyKey, string(terms))
	// Of a run whose key is taken there is no row, and so nothing else either.
	b.Queue(`
INSERT INTO ekiden.snapshots (run_uid, namespace_uid, digest, body)
SELECT run_uid, namespace_uid, $2, $3 FROM ekiden.runs WHERE run_uid = $1 ON CONFLICT DO NOTHING`, id.UID, digest, string(body))
	b.Queue(`
INSERT INTO ekiden.claims (run_uid, namespace_uid)
SELECT run_uid, namespace_uid FROM ekiden.runs WHERE run_uid = $1 ON CONFLICT DO NOTHING`, id.UID)
	b.Queue(`
SELECT EXISTS (SELECT FROM ekiden.runs WHERE run_uid = $1), coalesce(holder.name, ''), coalesce(holder.run_uid::text, '')
FROM (SELECT) one LEFT JOIN ekiden.runs holder ON holder.namespace_uid = $2 AND holder.idempotency_key = $3`,
		id.UID, id.NamespaceUID, a.IdempotencyKey).QueryRow(func(row pgx.Row) error { return row.Scan(&admitted, &of.Name, &of.UID) })
	if err := l.send(ctx, &b); err != nil {
		return fmt.Errorf("admitting run %s: %w", id.UID, err)
	}
	if !admitted {
		return &ledger.DuplicateError{Of: of}
	}
	return nil
}

// look is one statement, so that all it tells is of one instant. Of what a namespace's login may write it reads no more than it
// can hold, and no instant or number that does not fit.
const look = `
SELECT now(), r.admitted_at, coalesce(s.digest, ''), r.terms::text, c.cancelled_at, least(c.active_ms, 1000000000000),
  CASE WHEN c.holder IS NOT NULL AND (c.segment, c.attempt) = (newest.segment, newest.attempt) THEN
    greatest(least(greatest(c.lease_until, now() - interval '1 day'), now() + $6::bigint * interval '1 ms'), pg_postmaster_start_time() + $3::bigint * interval '1 ms')
      + $7::bigint * interval '1 ms' END,
  (SELECT count FROM ekiden.pulse), r.set_back_at IS NOT NULL, r.ended_at, r.end_phase, r.end_code, r.end_message,
  (SELECT jsonb_agg(jsonb_build_object(
       'Segment', a.segment, 'Attempt', a.attempt, 'BegunAt', a.begun_at, 'Job', coalesce(a.job_uid::text, ''), 'EndedAt', a.ended_at,
       'Class', coalesce(a.class, ''), 'Code', coalesce(a.code, ''), 'Message', coalesce(a.message, ''), 'NotBefore', a.not_before) ORDER BY a.attempt)::text
     FROM ekiden.attempts a WHERE a.run_uid = r.run_uid AND a.segment = newest.segment),
  o.yield, left(o.code, 128), left(o.message, $4::int), left(o.result, $2::int), octet_length(o.result), encode(sha256(convert_to(o.result, 'UTF8')), 'hex'),
  CASE WHEN o.at IS NOT NULL THEN greatest(least(o.at, now()), r.admitted_at) END, left(o.wait, $5::int),
  CASE WHEN o.yield = 'waiting' THEN (SELECT ` + deliveries + ` FROM ekiden.inbox i WHERE i.run_uid = r.run_uid AND i.lane = ''
     AND i.turn = (SELECT max(turn) FROM ekiden.inbox WHERE run_uid = r.run_uid AND lane = '')) END,
  (SELECT count(*) FROM ekiden.outcomes w WHERE w.run_uid = r.run_uid AND w.lane = '' AND w.yield = 'waiting'),
  t.entries, t.turns, k.begun, k.settled, (SELECT count(*) FROM ekiden.inbox WHERE run_uid = r.run_uid),
  u.input, u.cache_read, u.output, u.cost
FROM ekiden.runs r
LEFT JOIN ekiden.snapshots s USING (run_uid) -- an old run has none any more
JOIN ekiden.claims c ON c.run_uid = r.run_uid AND c.lane = ''
LEFT JOIN LATERAL (
  SELECT segment, attempt FROM ekiden.attempts WHERE run_uid = r.run_uid ORDER BY segment DESC, attempt DESC LIMIT 1) newest ON true
LEFT JOIN ekiden.outcomes o ON o.run_uid = r.run_uid AND o.lane = '' AND o.segment = newest.segment
CROSS JOIN LATERAL (SELECT count(*) AS entries, count(*) FILTER (WHERE kind = 'ModelAnswered') AS turns FROM ekiden.transcript WHERE run_uid = r.run_uid) t
CROSS JOIN LATERAL (SELECT count(begun_at) AS begun, count(settled_at) AS settled FROM ekiden.calls WHERE run_uid = r.run_uid) k
CROSS JOIN LATERAL (
  SELECT coalesce(sum(input), 0)::bigint AS input, coalesce(sum(cache_read), 0)::bigint AS cache_read,
    coalesce(sum(output), 0)::bigint AS output, coalesce(sum(cost_micros), 0)::bigint AS cost
  FROM ekiden.usage WHERE run_uid = r.run_uid) u
WHERE r.run_uid = $1`

// Look gathers what the ledger knows of a run.
func (l *Ledger) Look(ctx context.Context, run types.UID) (*ledger.Record, error) {
	if _, err := uuid.Parse(string(run)); err != nil {
		return nil, nil //nolint:nilerr // what is no UUID was never entered
	}
	var (
		r                                                            ledger.Record
		terms                                                        string
		cancelled, ended, lapses                                     *time.Time
		active                                                       int64
		phase, endCode, endMessage                                   *string
		attempts, yield, outcomeCode, outcomeMessage, result, digest *string
		wait, inbox                                                  *string
		outcomeAt                                                    *time.Time
		bytes                                                        *int64
	)
	var b pgx.Batch
	found := false
	b.Queue(look, run, contract.MaxInlineResult, l.warmUp.Milliseconds(), contract.MaxMessage, contract.MaxWait,
		contract.LeaseTTL.Milliseconds(), contract.LeasePatience.Milliseconds()).Query(func(rows pgx.Rows) error {
		if found = rows.Next(); !found {
			return rows.Err()
		}
		return rows.Scan(&r.Now, &r.AdmittedAt, &r.SnapshotDigest, &terms, &cancelled, &active, &lapses, &r.Count, &r.SetBack, &ended, &phase, &endCode, &endMessage,
			&attempts, &yield, &outcomeCode, &outcomeMessage, &result, &bytes, &digest, &outcomeAt, &wait, &inbox,
			&r.Waits, &r.Entries, &r.Usage.Turns, &r.Usage.ToolCalls, &r.Settled, &r.Decisions, &r.Usage.Input, &r.Usage.CacheRead, &r.Usage.Output, (*int64)(&r.Usage.Cost))
	})
	if err := l.send(ctx, &b); err != nil {
		return nil, fmt.Errorf("looking at run %s: %w", run, err)
	}
	if !found {
		return nil, nil
	}
	var unknown error
	if r.Terms, unknown = contract.DecodeTerms([]byte(terms)); unknown != nil {
		r.Unreadable = unknown.Error()
	}
	if cancelled != nil {
		r.CancelledAt = *cancelled
	}
	if lapses != nil {
		r.LapsesAt = *lapses
	}
	r.Active = time.Duration(active) * time.Millisecond
	if ended != nil {
		r.End = &ledger.End{Phase: v1alpha1.RunPhase(*phase), Code: *endCode, Message: *endMessage, At: *ended}
	}
	if attempts != nil {
		if err := json.Unmarshal([]byte(*attempts), &r.Attempts); err != nil {
			return nil, fmt.Errorf("looking at run %s: reading its attempts: %w", run, err)
		}
	}
	if yield != nil {
		o := ledger.Believed(contract.Outcome{
			Yield: contract.Yield(*yield), Code: *outcomeCode, Message: *outcomeMessage, Result: contract.Clip(*result, contract.MaxInlineResult),
			Wait: decodeWait(wait),
		})
		r.Outcome = &o
		r.ResultBytes, r.ResultDigest, r.OutcomeAt = *bytes, "sha256:"+*digest, *outcomeAt
	}
	if inbox != nil {
		if err := json.Unmarshal([]byte(*inbox), &r.Inbox); err != nil {
			return nil, fmt.Errorf("looking at run %s: reading its inbox: %w", run, err)
		}
	}
	return &r, nil
}

// known tells from the one row of a statement whether what it was about is there.
func known(yes *bool) func(pgx.Row) error {
	return func(row pgx.Row) error { return row.Scan(yes) }
}

// BeginAttempt writes down that an attempt will be made.
func (l *Ledger) BeginAttempt(ctx context.Context, run types.UID, k ledger.AttemptKey) error {
	return l.about(ctx, run, fmt.Sprintf("beginning attempt %d of segment %d", k.Attempt, k.Segment), false, func(b *pgx.Batch) *pgx.QueuedQuery {
		return b.Queue(`
WITH r AS (SELECT run_uid, namespace_uid FROM ekiden.runs WHERE run_uid = $1),
i AS (INSERT INTO ekiden.attempts (run_uid, namespace_uid, segment, attempt) SELECT run_uid, namespace_uid, $2::int, $3::int FROM r ON CONFLICT DO NOTHING)
SELECT EXISTS (SELECT FROM r)`, run, k.Segment, k.Attempt)
	})
}

// StoreJob writes down the UID of the attempt's Job. The first one counts, and from then on the pod has its time to start:
// a quota may have kept the Job from being created for long.
func (l *Ledger) StoreJob(ctx context.Context, run types.UID, k ledger.AttemptKey, job types.UID) error {
	return l.about(ctx, run, fmt.Sprintf("storing the Job of attempt %d of segment %d", k.Attempt, k.Segment), false, func(b *pgx.Batch) *pgx.QueuedQuery {
		return b.Queue(`
WITH u AS (UPDATE ekiden.attempts SET job_uid = $4::uuid, begun_at = now() WHERE run_uid = $1 AND segment = $2::int AND attempt = $3::int AND job_uid IS NULL)
SELECT EXISTS (SELECT FROM ekiden.attempts WHERE run_uid = $1 AND segment = $2::int AND attempt = $3::int)`, run, k.Segment, k.Attempt, job)
	})
}

// EndAttempt writes down how an attempt ended, and gives back the claim of one whose processes are gone.
func (l *Ledger) EndAttempt(ctx context.Context, run types.UID, k ledger.AttemptKey, e ledger.AttemptEnd) error {
	return l.about(ctx, run, fmt.Sprintf("ending attempt %d of segment %d", k.Attempt, k.Segment), e.Terminated, func(b *pgx.Batch) *pgx.QueuedQuery {
		if e.Terminated {
			pods := make([]string, len(e.Pods))
			for i, p := range e.Pods {
				pods[i] = string(p)
			}
			b.Queue(`
UPDATE ekiden.claims SET holder = NULL, lease_until = NULL
WHERE run_uid = $1 AND segment = $2::int AND attempt = $3::int AND holder IS NOT NULL AND (cardinality($4::text[]) = 0 OR split_part(holder, '/', 2) = ANY ($4::text[]))`,
				run, k.Segment, k.Attempt, pods)
			b.Queue(`
UPDATE ekiden.attempts a SET terminated_generation = c.generation FROM ekiden.claims c
WHERE (a.run_uid, a.segment, a.attempt) = ($1, $2::int, $3::int) AND a.terminated_generation IS NULL
  AND (c.run_uid, c.lane, c.segment, c.attempt) = ($1, '', $2::int, $3::int) AND c.holder IS NULL`, run, k.Segment, k.Attempt)
		}
		var notBefore *time.Time
		if !e.NotBefore.IsZero() {
			notBefore = &e.NotBefore
		}
		return b.Queue(`
WITH u AS (
  UPDATE ekiden.attempts SET ended_at = now(), class = $4, code = nullif($5, ''), message = nullif($6, ''), not_before = $7::timestamptz
  WHERE run_uid = $1 AND segment = $2::int AND attempt = $3::int AND ended_at IS NULL)
SELECT EXISTS (SELECT FROM ekiden.attempts WHERE run_uid = $1 AND segment = $2::int AND attempt = $3::int)`,
			run, k.Segment, k.Attempt, string(e.Class), contract.Clean(string(e.Code)), contract.Clip(e.Message, contract.MaxMessage), notBefore)
	})
}

// about sends a batch whose last statement tells whether what it is about is there at all.
func (l *Ledger) about(ctx context.Context, run types.UID, doing string, waits bool, fill func(*pgx.Batch) *pgx.QueuedQuery) error {
	var b pgx.Batch
	if waits {
		b.Queue(impatient)
	}
	there := false
	fill(&b).QueryRow(known(&there))
	err := l.sendAbout(ctx, run, &b)
	if err == nil && !there {
		err = ledger.ErrUnknown
	}
	if err != nil {
		return fmt.Errorf("%s of run %s: %w", doing, run, err)
	}
	return nil
}

// Cancel commits the cancel of a run, on all its claims.
func (l *Ledger) Cancel(ctx context.Context, run types.UID) error {
	return l.about(ctx, run, "committing the cancel", true, func(b *pgx.Batch) *pgx.QueuedQuery {
		b.Queue(`UPDATE ekiden.claims SET cancelled_at = now() WHERE run_uid = $1 AND cancelled_at IS NULL AND final_at IS NULL`, run)
		return b.Queue(`SELECT EXISTS (SELECT FROM ekiden.runs WHERE run_uid = $1)`, run)
	})
}

// Finish ends a run for good. The claim comes first: a segment that is writing now ends its transaction before the run does.
func (l *Ledger) Finish(ctx context.Context, run types.UID, e ledger.End) (ledger.End, error) {
	var b pgx.Batch
	b.Queue(impatient)
	b.Queue(`
UPDATE ekiden.claims SET final_at = now(), generation = generation + 1, holder = NULL, lease_until = NULL
WHERE run_uid = $1 AND final_at IS NULL`, run)
	b.Queue(`UPDATE ekiden.runs SET ended_at = now(), end_phase = $2, end_code = $3, end_message = $4 WHERE run_uid = $1 AND ended_at IS NULL`,
		run, string(e.Phase), contract.Clean(e.Code), contract.Clip(e.Message, contract.MaxMessage))
	stored, found := ledger.End{}, false
	b.Queue(`SELECT end_phase, end_code, end_message, ended_at FROM ekiden.runs WHERE run_uid = $1`, run).Query(func(rows pgx.Rows) error {
		if found = rows.Next(); !found {
			return rows.Err()
		}
		return rows.Scan((*string)(&stored.Phase), &stored.Code, &stored.Message, &stored.At)
	})
	err := l.sendAbout(ctx, run, &b)
	if err == nil && !found {
		err = ledger.ErrUnknown
	}
	if err != nil {
		return ledger.End{}, fmt.Errorf("ending run %s: %w", run, err)
	}
	return stored, nil
}

// Unfinished lists runs that have not ended.
func (l *Ledger) Unfinished(ctx context.Context, before time.Time, limit int) ([]contract.Identity, error) {
	var b pgx.Batch
	var out []contract.Identity
	b.Queue(`
SELECT namespace, namespace_uid::text, name, run_uid::text, root_uid::text FROM ekiden.runs
WHERE ended_at IS NULL AND admitted_at < $1::timestamptz ORDER BY admitted_at, run_uid LIMIT $2::bigint`, before, limit).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var i contract.Identity
			if err := rows.Scan(&i.Namespace, (*string)(&i.NamespaceUID), &i.Name, (*string)(&i.UID), (*string)(&i.RootUID)); err != nil {
				return err
			}
			out = append(out, i)
		}
		return rows.Err()
	})
	if err := l.send(ctx, &b); err != nil {
		return nil, fmt.Errorf("listing unfinished runs: %w", err)
	}
	return out, nil
}

// SQLSTATEs that this package tells apart.
const (
	statementTimeout     = "57014"
	lockTimeout          = "55P03"
	insufficient         = "42501"
	dependentsStillThere = "2BP01"
)

// state is the SQLSTATE of a refusal, or empty.
func state(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}
