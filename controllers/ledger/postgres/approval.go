package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/approval/decide"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// deliveries are rows of the inbox i as a JSON array of contract.Delivery.
const deliveries = `jsonb_agg(jsonb_build_object('seq', i.seq, 'type', CASE i.kind WHEN 'approval' THEN '' ELSE 'Indeterminate' END, 'request', i.request_uid, 'turn', i.turn, 'index', i.idx, 'digest', i.digest,
  'seat', i.seat, 'seats', i.seats, 'phase', i.phase, 'by', i.decided_by, 'reason', i.reason) ORDER BY i.seq)::text`

// decodeWait reads what a run waits for. What does not parse is no wait: Believed says what becomes of that.
func decodeWait(stored *string) *contract.Wait {
	if stored == nil {
		return nil
	}
	var w contract.Wait
	if err := json.Unmarshal([]byte(*stored), &w); err != nil {
		return nil
	}
	return &w
}

// Question tells how the ledger stands to a request about a call.
func (l *Ledger) Question(ctx context.Context, run types.UID, turn, index int, request types.UID) (decide.Question, error) {
	var (
		q         decide.Question
		delivered *string
		b         pgx.Batch
	)
	for _, u := range []types.UID{run, request} {
		if _, err := uuid.Parse(string(u)); err != nil { // what is no UUID was never entered
			run, request = types.UID(uuid.Nil.String()), types.UID(uuid.Nil.String())
		}
	}
	b.Queue(`
SELECT now(), r.run_uid IS NOT NULL, coalesce(r.ended_at IS NOT NULL OR c.final_at IS NOT NULL OR c.cancelled_at IS NOT NULL, false),
  EXISTS (SELECT FROM ekiden.calls k WHERE k.run_uid = $1 AND k.lane = '' AND k.turn = $2::int AND k.idx = $3::int AND k.settled_at IS NOT NULL),
  (SELECT `+deliveries+` FROM ekiden.inbox i WHERE i.run_uid = $1 AND i.request_uid = $4::uuid)
FROM (SELECT) one LEFT JOIN ekiden.runs r ON r.run_uid = $1 LEFT JOIN ekiden.claims c ON c.run_uid = $1 AND c.lane = ''`,
		run, turn, index, request).QueryRow(func(row pgx.Row) error { return row.Scan(&q.Now, &q.Known, &q.Over, &q.Settled, &delivered) })
	if err := l.send(ctx, &b); err != nil {
		return q, fmt.Errorf("asking about call %d of turn %d of run %s: %w", index, turn, run, err)
	}
	if delivered != nil {
		var list []contract.Delivery
		if err := json.Unmarshal([]byte(*delivered), &list); err != nil {
			return q, fmt.Errorf("reading the inbox of run %s: %w", run, err)
		}
		q.Delivered = &list[0]
	}
	return q, nil
}

// Deliver puts what was decided into the run's inbox. The claim is locked first: numbers of a run rise in the order in which
// they are committed, so that a segment which remembers the newest it has seen misses none; and of two approvals by one person the
// second sees the first.
func (l *Ledger) Deliver(ctx context.Context, run types.UID, d contract.Delivery) error {
	var (
		b                pgx.Batch
		known, delivered bool
	)
	b.Queue(impatient)
	b.Queue(`SELECT FROM ekiden.claims WHERE run_uid = $1 AND lane = '' FOR NO KEY UPDATE`, run)
	b.Queue(`
INSERT INTO ekiden.inbox (run_uid, namespace_uid, kind, request_uid, turn, idx, digest, seat, seats, phase, decided_by, reason)
SELECT run_uid, namespace_uid, CASE $11 WHEN 'Indeterminate' THEN 'indeterminate' ELSE 'approval' END, $2::uuid, $3::int, $4::int, $5, $6::int, $7::int, $8, $9, $10
FROM ekiden.claims WHERE run_uid = $1 AND lane = ''
  AND NOT ($8 = 'Approved' AND EXISTS (
    SELECT FROM ekiden.inbox o WHERE o.run_uid = $1 AND o.lane = '' AND (o.turn, o.idx, o.digest) = ($3::int, $4::int, $5)
      AND o.seat <> $6::int AND o.phase = 'Approved' AND o.decided_by = $9))
ON CONFLICT (request_uid) DO NOTHING`,
		run, d.Request, d.Turn, d.Index, d.Digest, d.Seat, d.Seats, string(d.Phase), contract.Clean(d.By), contract.Clip(d.Reason, contract.MaxMessage), string(d.Type))
	b.Queue(`
SELECT EXISTS (SELECT FROM ekiden.runs WHERE run_uid = $1), EXISTS (SELECT FROM ekiden.inbox WHERE request_uid = $2::uuid)`,
		run, d.Request).QueryRow(func(row pgx.Row) error { return row.Scan(&known, &delivered) })
	err := l.sendAbout(ctx, run, &b)
	switch {
	case err != nil:
	case !known:
		err = ledger.ErrUnknown
	case !delivered:
		err = fmt.Errorf("%w: %s", ledger.ErrSamePerson, contract.Clip(d.By, 128))
	}
	if err != nil {
		return fmt.Errorf("delivering the decision on call %d of turn %d of run %s: %w", d.Index, d.Turn, run, err)
	}
	return nil
}
