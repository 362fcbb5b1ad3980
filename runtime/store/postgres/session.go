package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

// session is one claim. It has no state of its own but the claim's name, so its methods may run at once.
type session struct {
	store      *Store
	run        types.UID
	generation int64
	segment    int
}

var _ segment.Session = (*session)(nil)

// Every batch begins with pass or leave. Times that lie behind what the row says come from transactions that began
// earlier and waited for the lock.
const (
	// worked adds the time since the last beat. A beat that comes late counts for one TTL: nobody knows whether the process worked.
	worked = `greatest(0, round(1000 * extract(epoch FROM least(now() - beat, $3::bigint * interval '1 millisecond'))))::bigint`

	// pulse is what the fence tells: of the policy as of when it began to wait for the lock.
	pulse = `cancelled_at IS NOT NULL, active_ms,
  (SELECT coalesce(max(p.version), 0) FROM ekiden.policies p WHERE p.namespace_uid = claims.namespace_uid)`

	// pass is the fence. A claim that was given back has no holder and does not pass.
	pass = `
UPDATE ekiden.claims SET active_ms = active_ms + ` + worked + `, beat = greatest(beat, now()),
  lease_until = greatest(lease_until, now() + $3::bigint * interval '1 millisecond')
WHERE run_uid = $1 AND lane = '' AND generation = $2::bigint AND holder IS NOT NULL AND final_at IS NULL
RETURNING ` + pulse

	// leave is the fence of a claim that is given back. It passes again when that was done already.
	leave = `
UPDATE ekiden.claims SET active_ms = active_ms + CASE WHEN holder IS NULL THEN 0 ELSE ` + worked + ` END, beat = greatest(beat, now()),
  holder = NULL, lease_until = NULL
WHERE run_uid = $1 AND lane = '' AND generation = $2::bigint AND final_at IS NULL
RETURNING ` + pulse

	// letGo ends a batch that began with pass.
	letGo = `UPDATE ekiden.claims c SET holder = NULL, lease_until = NULL WHERE ` + held
)

// The rest of a batch is sent before the answer of the fence is known. It adds rows only under the same condition, on
// the row that the fence has just locked; a generation that was not found there never comes back.
const (
	ours = `c.run_uid = $1 AND c.lane = '' AND c.generation = $2::bigint AND c.final_at IS NULL`
	held = ours + ` AND c.holder IS NOT NULL`

	addEntries = `
INSERT INTO ekiden.transcript (run_uid, lane, seq, namespace_uid, generation, segment, kind, schema, body)
SELECT c.run_uid, c.lane, $4::int + e.n - 1, c.namespace_uid, c.generation, $3::int, e.kind, e.schema, e.body
FROM ekiden.claims c, unnest($5::text[], $6::int[], $7::text[]) WITH ORDINALITY AS e (kind, schema, body, n)
WHERE ` + held + `
  AND ($4::int = 0 OR EXISTS (SELECT FROM ekiden.transcript t WHERE t.run_uid = $1 AND t.lane = '' AND t.seq = $4::int - 1))`

	addUsage = `
INSERT INTO ekiden.usage (run_uid, lane, turn, try, generation, namespace_uid, input, cache_read, output, estimated, cost_micros)
SELECT c.run_uid, c.lane, $3::int, $4::int, c.generation, c.namespace_uid, $5::bigint, $6::bigint, $7::bigint, $8::boolean, $9::bigint
FROM ekiden.claims c WHERE `
	unlessThere = ` ON CONFLICT DO NOTHING`

	addOutcome = `
INSERT INTO ekiden.outcomes (run_uid, lane, segment, namespace_uid, generation, yield, code, message, result, wait)
SELECT c.run_uid, c.lane, $3::int, c.namespace_uid, c.generation, $4, $5, $6, $7, $8 FROM ekiden.claims c WHERE ` + held
)

// Append adds entries and usage.
func (s *session) Append(ctx context.Context, at int, entries []segment.Entry, usage []segment.Usage) (segment.Pulse, error) {
	var kinds, bodies []string
	var schemas []int32
	for _, e := range entries {
		r, err := record.Encode(e)
		if err != nil {
			return segment.Pulse{}, fmt.Errorf("appending to run %s: %w", s.run, err)
		}
		kinds, schemas, bodies = append(kinds, r.Kind), append(schemas, int32(r.Schema)), append(bodies, r.Body) //nolint:gosec // a constant of package record
	}
	f := s.batch(pass)
	var added int64
	if len(entries) > 0 {
		f.Queue(addEntries, s.run, s.generation, s.segment, at, kinds, schemas, bodies).
			Exec(func(tag pgconn.CommandTag) error { added = tag.RowsAffected(); return nil })
	}
	f.use(usage, held)
	p, err := f.send(ctx)
	if duplicate(err) {
		p, err = s.appended(ctx, at, kinds, schemas, bodies)
	} else if err == nil && added != int64(len(entries)) {
		err = fmt.Errorf("position %d is beyond the end of the transcript", at)
	}
	if err != nil {
		return segment.Pulse{}, fmt.Errorf("appending to run %s: %w", s.run, err)
	}
	return p, nil
}

// appended answers an Append that found its rows taken: it is a repetition if they are its own, and else it is too late.
// The usage came with the rows.
func (s *session) appended(ctx context.Context, at int, kinds []string, schemas []int32, bodies []string) (segment.Pulse, error) {
	f := s.batch(pass)
	var same int
	f.Queue(`
SELECT count(*) FROM ekiden.transcript t JOIN unnest($4::text[], $5::int[], $6::text[]) WITH ORDINALITY AS e (kind, schema, body, n) ON t.seq = $3::int + e.n - 1
WHERE t.run_uid = $1 AND t.lane = '' AND t.generation = $2::bigint AND (t.kind, t.schema, t.body) = (e.kind, e.schema, e.body)`,
		s.run, s.generation, at, kinds, schemas, bodies).QueryRow(func(row pgx.Row) error { return row.Scan(&same) })
	p, err := f.send(ctx)
	if err == nil && same != len(bodies) {
		return segment.Pulse{}, segment.ErrFenced
	}
	return p, err
}

// Beat renews the lease.
func (s *session) Beat(ctx context.Context) (segment.Pulse, error) {
	p, err := s.batch(pass).send(ctx)
	if err != nil {
		return segment.Pulse{}, fmt.Errorf("beating for run %s: %w", s.run, err)
	}
	return p, nil
}

// Yield writes the outcome and gives the claim back.
func (s *session) Yield(ctx context.Context, o contract.Outcome, usage []segment.Usage) error {
	stored, err := record.EncodeOutcome(o)
	if err != nil {
		return fmt.Errorf("yielding segment %d of run %s: %w", s.segment, s.run, err)
	}
	f := s.batch(pass)
	f.Queue(addOutcome, s.run, s.generation, s.segment, stored.Yield, stored.Code, stored.Message, stored.Result, stored.Wait)
	f.use(usage, held)
	f.Queue(letGo, s.run, s.generation)
	_, err = f.send(ctx)
	if errors.Is(err, segment.ErrFenced) || duplicate(err) {
		err = s.yielded(ctx, stored)
	}
	if err != nil {
		return fmt.Errorf("yielding segment %d of run %s: %w", s.segment, s.run, err)
	}
	return nil
}

// yielded answers a Yield that came too late: it is a repetition if the outcome is its own.
func (s *session) yielded(ctx context.Context, o record.Outcome) error {
	var b pgx.Batch
	var own bool
	b.Queue(`
SELECT EXISTS (SELECT FROM ekiden.outcomes WHERE run_uid = $1 AND lane = '' AND segment = $3::int AND generation = $2::bigint
  AND (yield, code, message, result) = ($4, $5, $6, $7) AND wait IS NOT DISTINCT FROM $8)`,
		s.run, s.generation, s.segment, o.Yield, o.Code, o.Message, o.Result, o.Wait).QueryRow(func(row pgx.Row) error { return row.Scan(&own) })
	if err := s.store.send(ctx, &b); err != nil {
		return interpret(ctx, err)
	}
	if !own {
		return segment.ErrFenced
	}
	return nil
}

// Release gives the claim back without an outcome.
func (s *session) Release(ctx context.Context, usage []segment.Usage) error {
	f := s.batch(leave)
	f.use(usage, ours)
	if _, err := f.send(ctx); err != nil {
		return fmt.Errorf("releasing run %s: %w", s.run, err)
	}
	return nil
}

// fencedBatch is a batch that begins at the fence.
type fencedBatch struct {
	pgx.Batch
	session *session
	passed  bool
	pulse   segment.Pulse
}

func (s *session) batch(fence string) *fencedBatch {
	f := &fencedBatch{session: s}
	f.Queue(fence, s.run, s.generation, s.store.ttl.Milliseconds()).Query(func(rows pgx.Rows) error {
		var active int64
		if f.passed = rows.Next(); f.passed {
			if err := rows.Scan(&f.pulse.Cancelled, &active, &f.pulse.PolicyVersion); err != nil {
				return err
			}
		}
		f.pulse.Active = time.Duration(active) * time.Millisecond
		return rows.Err()
	})
	return f
}

// use adds usage while the condition holds: held or ours.
func (f *fencedBatch) use(usage []segment.Usage, condition string) {
	for _, u := range usage {
		f.Queue(addUsage+condition+unlessThere, f.session.run, f.session.generation, u.Turn, u.Try,
			u.Tokens.Input, u.Tokens.CacheRead, u.Tokens.Output, u.Estimated, int64(u.Cost))
	}
}

// send carries out the batch. Errors: ErrFenced, ErrUnavailable, and one for which duplicate holds.
func (f *fencedBatch) send(ctx context.Context) (segment.Pulse, error) {
	if err := f.session.store.send(ctx, &f.Batch); err != nil {
		return segment.Pulse{}, interpret(ctx, err)
	}
	if !f.passed {
		return segment.Pulse{}, segment.ErrFenced
	}
	return f.pulse, nil
}
