package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

const (
	selectSnapshot = `SELECT body FROM ekiden.snapshots WHERE run_uid = $1`
	selectEntries  = `SELECT seq, kind, schema, body FROM ekiden.transcript WHERE run_uid = $1 AND lane = '' ORDER BY seq`

	// Of a call that is not settled it tells whether whoever began it last is gone: the manager saw its process end, or it has left
	// an outcome itself.
	selectCalls = `
SELECT k.turn, k.idx, k.tool, k.effect, k.idempotency, k.digest, k.generation, k.begun_at IS NOT NULL, k.approvals::text[],
  k.settled_at IS NULL AND (
    EXISTS (SELECT FROM ekiden.attempts a WHERE a.run_uid = k.run_uid AND a.terminated_generation = k.generation)
    OR EXISTS (SELECT FROM ekiden.outcomes o WHERE o.run_uid = k.run_uid AND o.lane = k.lane AND o.generation = k.generation)),
  k.settled_at IS NOT NULL, coalesce(k.kind, ''), coalesce(k.code, ''), coalesce(k.text, ''), coalesce(k.bytes, 0)
FROM ekiden.calls k WHERE k.run_uid = $1 AND k.lane = ''`
	selectInbox = `
SELECT seq, CASE kind WHEN 'approval' THEN '' ELSE 'Indeterminate' END, request_uid::text, turn, idx, digest, seat, seats, phase, decided_by, reason
FROM ekiden.inbox WHERE run_uid = $1 AND lane = '' AND kind IN ('approval', 'indeterminate') ORDER BY seq`
	selectPolicy = `
SELECT p.version, p.body FROM ekiden.policies p JOIN ekiden.runs r USING (namespace_uid)
WHERE r.run_uid = $1 ORDER BY p.version DESC LIMIT 1`
	countWaits = `SELECT count(*) FROM ekiden.outcomes WHERE run_uid = $1 AND lane = '' AND segment < $2::int AND yield = 'waiting'`
)

// load reads what a claim goes on from, after the claim has committed: nothing can be added to it any more, but to the inbox.
func (s *Store) load(ctx context.Context, run types.UID, c *segment.Claim) error {
	var (
		b       pgx.Batch
		body    string
		records []record.Record
		policy  policyRow
	)
	c.Journal = segment.Journal{}
	b.Queue(selectSnapshot, run).Query(func(rows pgx.Rows) error {
		if rows.Next() {
			return rows.Scan(&body)
		}
		return rows.Err()
	})
	b.Queue(selectEntries, run).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var r record.Record
			var seq int
			if err := rows.Scan(&seq, &r.Kind, &r.Schema, &r.Body); err != nil {
				return err
			}
			if seq != len(records) {
				return fmt.Errorf("%w: entry %d of the transcript is missing", contract.ErrSchema, len(records))
			}
			records = append(records, r)
		}
		return rows.Err()
	})
	b.Queue(selectCalls, run).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			call, err := scanCall(rows)
			if err != nil {
				return err
			}
			c.Journal[call.CallKey] = call
		}
		return rows.Err()
	})
	b.Queue(selectInbox, run).Query(func(rows pgx.Rows) (err error) {
		c.Inbox, err = pgx.CollectRows(rows, scanDelivery)
		return err
	})
	b.Queue(selectPolicy, run).Query(policy.read)
	b.Queue(countWaits, run, c.Segment).QueryRow(func(row pgx.Row) error { return row.Scan(&c.Waits) })
	if err := s.send(ctx, &b); err != nil {
		return interpret(ctx, err)
	}
	var err error
	if c.Snapshot, err = contract.DecodeSnapshot([]byte(body)); err != nil {
		return err
	}
	if c.Transcript, err = record.DecodeAll(records); err != nil {
		return err
	}
	c.Policy, err = policy.decode()
	return err
}

func scanCall(row pgx.Rows) (segment.Call, error) {
	var (
		c         segment.Call
		r         segment.CallResult
		settled   bool
		approvals []string
	)
	err := row.Scan(&c.Turn, &c.Index, &c.Tool, &c.Effect, &c.Idempotency, &c.Digest, &c.Generation, &c.Begun, &approvals, &c.Gone,
		&settled, &r.Kind, &r.Code, &r.Text, &r.Bytes)
	if settled {
		c.Result = &r
	}
	for _, uid := range approvals {
		c.Approvals = append(c.Approvals, types.UID(uid))
	}
	return c, err
}

func scanDelivery(row pgx.CollectableRow) (d contract.Delivery, err error) {
	return d, row.Scan(&d.Seq, &d.Type, &d.Request, &d.Turn, &d.Index, &d.Digest, &d.Seat, &d.Seats, &d.Phase, &d.By, &d.Reason)
}

// policyRow is a row of ekiden.policies. Version 0 is that of a namespace that has none.
type policyRow struct {
	version int64
	body    string
}

func (p *policyRow) read(rows pgx.Rows) error {
	if rows.Next() {
		return rows.Scan(&p.version, &p.body)
	}
	return rows.Err()
}

func (p *policyRow) decode() (contract.Policy, error) {
	if p.version == 0 {
		return contract.Policy{}, nil
	}
	set, err := contract.DecodePolicySet([]byte(p.body))
	if err != nil {
		return contract.Policy{}, fmt.Errorf("version %d: %w", p.version, err)
	}
	return contract.Policy{Version: p.version, Set: set}, nil
}
