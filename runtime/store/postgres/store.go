// Package postgres keeps sessions in Postgres.
//
// One row of ekiden.claims is the fence of a run. A claim raises its generation; every write after it is one
// transaction that first updates this row under the generation, and so holds its lock until the write has committed:
//
//	claim    ─► lock ─► generation + 1, lease ─► commit ─► load
//	write    ─► lock where generation is ours ─► beat, lease ─► rows ─► commit
//	begin    ─► lock where generation is ours ─► not cancelled, policy is the newest ─► intent ─► commit
//	finish   ─► lock ─► final, generation + 1 ─► commit                     (the manager)
//
// A transaction is sent whole, as one pipelined batch, and commits at its end without another word from us. A process
// that is paused between two statements therefore holds no lock, unless its batch is larger than what the kernel takes at once: the
// server then waits for the rest, and no timeout of its own ends that. Whoever claims the run next does.
package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// overstay is longer than a login's timeouts let a transaction stand still of which all was sent.
const overstay = 10 * time.Second

// Store is a segment.Store on one database.
type Store struct {
	database
	ttl time.Duration
	// warmUp is how long Postgres must have been up before a lapsed lease is taken over: while it was down nobody could beat.
	warmUp time.Duration
	// overstay is how long a transaction of our login may hold up a claim before its connection is ended.
	overstay time.Duration
	// doubtful holds, by run, the holder of a claim that may stand although its caller was told it failed. The next
	// claim here may take it over at once.
	doubtful sync.Map
}

var _ segment.Store = (*Store)(nil)

// Open makes a store. It does not connect yet. The DSN may lead to pgbouncer in transaction mode.
func Open(ctx context.Context, dsn string) (*Store, error) {
	db, err := open(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	return &Store{database: db, ttl: contract.LeaseTTL, warmUp: contract.LeaseTTL, overstay: overstay}, nil
}

// SetTimes says how long a lease stands, and how long Postgres must have been up before a lapsed one is taken over. Everybody
// who works on a run keeps to the same times: those of the contract, but in tests that cannot wait for them.
func (s *Store) SetTimes(ttl, warmUp time.Duration) { s.ttl, s.warmUp = ttl, warmUp }

// The lock comes first, in a statement of its own: a statement that waits for a lock goes on with what it saw before the
// wait, and would miss the outcome that was committed meanwhile.
const (
	lockClaim = `SELECT FROM ekiden.claims WHERE run_uid = $1 AND lane = '' FOR NO KEY UPDATE`

	takeClaim = `
UPDATE ekiden.claims c SET
  generation = generation + 1, holder = $3, segment = next.segment, attempt = $4,
  beat = now(), lease_until = now() + $5::bigint * interval '1 millisecond'
FROM (
  SELECT CASE WHEN $2::int >= 0 THEN $2::int ELSE coalesce(max(segment) + 1, 0) END AS segment
  FROM ekiden.outcomes WHERE run_uid = $1 AND lane = ''
) next
WHERE c.run_uid = $1 AND c.lane = ''
  AND c.final_at IS NULL AND c.cancelled_at IS NULL
  AND NOT EXISTS (SELECT FROM ekiden.outcomes o WHERE o.run_uid = $1 AND o.lane = '' AND o.segment = next.segment)
  AND (c.lease_until IS NULL
    OR c.holder = $3 AND $7::boolean
    OR c.lease_until < now() AND pg_postmaster_start_time() <= now() - $6::bigint * interval '1 millisecond')
RETURNING generation, c.segment, active_ms`

	whyNot = `
SELECT c.final_at IS NOT NULL OR c.cancelled_at IS NOT NULL
  OR EXISTS (SELECT FROM ekiden.outcomes o WHERE o.run_uid = $1 AND o.lane = '' AND o.segment = $2::int)
FROM ekiden.claims c WHERE c.run_uid = $1 AND c.lane = ''`
)

// Claim takes the run for one segment, in one transaction, and loads its session in another.
func (s *Store) Claim(ctx context.Context, a segment.Ask) (segment.Claim, segment.Session, error) {
	if _, err := uuid.Parse(string(a.Run)); err != nil {
		return segment.Claim{}, nil, fmt.Errorf("claiming run %q: %w", a.Run, segment.ErrNotAdmitted)
	}
	holder, again := s.doubtful.LoadAndDelete(a.Run)
	if !again {
		holder = contract.Clip(a.Holder, 512) + "#" + rand.Text()
	}
	c, sure, err := s.take(ctx, a, holder.(string), again)
	if err != nil {
		if !sure {
			s.doubtful.Store(a.Run, holder)
		}
		return segment.Claim{}, nil, fmt.Errorf("claiming run %s: %w", a.Run, err)
	}
	session := &session{store: s, run: a.Run, generation: c.Generation, segment: c.Segment}
	err = s.load(ctx, a.Run, &c)
	if errors.Is(err, contract.ErrSchema) {
		return c, session, fmt.Errorf("loading run %s: %w", a.Run, err)
	}
	if err != nil {
		s.doubtful.Store(a.Run, holder)
		return segment.Claim{}, nil, fmt.Errorf("loading run %s: %w", a.Run, err)
	}
	return c, session, nil
}

// take moves the fence. It tells whether it is sure that an error means that nothing was taken.
func (s *Store) take(ctx context.Context, a segment.Ask, holder string, again bool) (_ segment.Claim, sure bool, _ error) {
	var (
		c             segment.Claim
		active        int64
		taken, known  bool
		over          bool
		b             pgx.Batch
		inTheFirstRow = func(found *bool, into ...any) func(pgx.Rows) error {
			return func(rows pgx.Rows) error {
				if *found = rows.Next(); *found {
					return rows.Scan(into...)
				}
				return nil
			}
		}
	)
	b.Queue(lockClaim, a.Run)
	b.Queue(takeClaim, a.Run, a.Segment, holder, a.Attempt, s.ttl.Milliseconds(), s.warmUp.Milliseconds(), again).
		Query(inTheFirstRow(&taken, &c.Generation, &c.Segment, &active))
	b.Queue(whyNot, a.Run, a.Segment).Query(inTheFirstRow(&known, &over))

	if err := s.send(ctx, &b); err != nil {
		if locked(err) {
			return segment.Claim{}, true, errors.Join(interpret(ctx, err), s.showOut(ctx))
		}
		return segment.Claim{}, false, interpret(ctx, err)
	}
	switch {
	case taken:
		c.Active = time.Duration(active) * time.Millisecond
		return c, true, nil
	case !known:
		return segment.Claim{}, true, segment.ErrNotAdmitted
	case over:
		return segment.Claim{}, true, segment.ErrOver
	default:
		return segment.Claim{}, true, segment.ErrBusy
	}
}

// showOut ends the connections of our login whose transactions have held up the claims of the namespace for too long. The claim is
// then granted to the next try.
func (s *Store) showOut(ctx context.Context) error {
	var b pgx.Batch
	b.Queue(`
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.usename = current_user AND a.datname = current_database() AND a.xact_start < clock_timestamp() - $1::bigint * interval '1 ms'
  AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.relation = 'ekiden.claims'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted)`,
		s.overstay.Milliseconds())
	return interpret(ctx, s.send(ctx, &b))
}
