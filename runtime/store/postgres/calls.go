package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

// errSettled is returned for an intent that contradicts the journal. Whoever asks has not read it.
var errSettled = errors.New("the call is settled, or was begun with other arguments or another key")

const (
	// beginCall writes the intent if the call may begin, and tells why not. It is one statement, so that what it tells is
	// what it went by; and one of its own behind the fence, so that it sees every cancel and every policy that was committed
	// before the lock was granted. An intent that is there already and not settled passes to this claim.
	beginCall = `
WITH run AS (
  SELECT c.run_uid, c.lane, c.namespace_uid, c.generation, c.cancelled_at IS NULL AS wanted,
    $4::bigint = (SELECT coalesce(max(p.version), 0) FROM ekiden.policies p WHERE p.namespace_uid = c.namespace_uid) AS newest
  FROM ekiden.claims c WHERE ` + held + `
), passed AS (
  UPDATE ekiden.calls k SET generation = run.generation, segment = $3::int, policy_version = $4::bigint, rule = $12,
    approvals = $13::text[]::uuid[], approved_by = $14::text[]
  FROM run
  WHERE wanted AND newest AND (k.run_uid, k.lane, k.turn, k.idx) = (run.run_uid, run.lane, $5::int, $6::int)
    AND k.settled_at IS NULL AND (k.digest, k.key) = ($10, $11)
  RETURNING k.turn
), added AS (
  INSERT INTO ekiden.calls (run_uid, lane, namespace_uid, generation, segment, policy_version, turn, idx,
    tool, effect, idempotency, digest, key, rule, approvals, approved_by, begun_at)
  SELECT run_uid, lane, namespace_uid, generation, $3::int, $4::bigint, $5::int, $6::int,
    $7, $8, $9, $10, $11, $12, $13::text[]::uuid[], $14::text[], now()
  FROM run WHERE wanted AND newest
  ON CONFLICT DO NOTHING RETURNING turn
)
SELECT wanted, newest, EXISTS (SELECT FROM passed) OR EXISTS (SELECT FROM added) FROM run`

	// settleCall settles the call that was begun, under whichever claim, or adds one that never was. Of a call that is
	// settled nothing changes.
	settleCall = `
WITH run AS (
  SELECT c.run_uid, c.lane, c.namespace_uid, c.generation FROM ekiden.claims c WHERE ` + held + `
), settled AS (
  UPDATE ekiden.calls k SET generation = run.generation, segment = $3::int, settled_at = now(), kind = $9, code = $10, text = $11, bytes = $12::bigint
  FROM run
  WHERE (k.run_uid, k.lane, k.turn, k.idx) = (run.run_uid, run.lane, $4::int, $5::int) AND k.settled_at IS NULL
)
INSERT INTO ekiden.calls (run_uid, lane, namespace_uid, generation, segment, turn, idx, tool, effect, digest, settled_at, kind, code, text, bytes)
SELECT run_uid, lane, namespace_uid, generation, $3::int, $4::int, $5::int, $6, $7, $8, now(), $9, $10, $11, $12::bigint FROM run
ON CONFLICT DO NOTHING`
)

// Begin writes the intent of a call.
func (s *session) Begin(ctx context.Context, i segment.Intent) (segment.Pulse, error) {
	approvals, by := []string{}, []string{}
	for _, uid := range i.Approvals {
		approvals = append(approvals, string(uid))
	}
	for _, name := range i.By {
		by = append(by, contract.Clean(name))
	}
	f := s.batch(pass)
	var wanted, newest, begun bool
	f.Queue(beginCall, s.run, s.generation, s.segment, i.PolicyVersion, i.Turn, i.Index,
		contract.Clip(i.Tool, record.MaxTool), string(i.Effect), string(i.Idempotency), contract.Clean(i.Digest), contract.Clean(i.Key),
		contract.Clean(i.Rule), approvals, by).
		Query(func(rows pgx.Rows) error {
			if rows.Next() { // no row where the fence found none
				return rows.Scan(&wanted, &newest, &begun)
			}
			return rows.Err()
		})
	p, err := f.send(ctx)
	switch {
	case err != nil:
	case !wanted:
		err = segment.ErrCancelled
	case !newest:
		err = segment.ErrPolicyChanged
	case !begun:
		err = errSettled
	}
	if err != nil {
		return segment.Pulse{}, fmt.Errorf("beginning call %d of turn %d of run %s: %w", i.Index, i.Turn, s.run, err)
	}
	return p, nil
}

// Settle writes how a call ended.
func (s *session) Settle(ctx context.Context, e segment.Settlement) (segment.Pulse, error) {
	f := s.batch(pass)
	f.Queue(settleCall, s.run, s.generation, s.segment, e.Turn, e.Index, contract.Clip(e.Tool, record.MaxTool), string(e.Effect), contract.Clean(e.Digest),
		string(e.Result.Kind), contract.Clip(e.Result.Code, record.MaxCode), contract.Clip(e.Result.Text, record.MaxText), e.Result.Bytes)
	p, err := f.send(ctx)
	if err != nil {
		return segment.Pulse{}, fmt.Errorf("settling call %d of turn %d of run %s: %w", e.Index, e.Turn, s.run, err)
	}
	return p, nil
}

// Policy reads the newest policy of the namespace.
func (s *session) Policy(ctx context.Context) (contract.Policy, error) {
	var b pgx.Batch
	var row policyRow
	b.Queue(selectPolicy, s.run).Query(row.read)
	err := interpret(ctx, s.store.send(ctx, &b))
	var p contract.Policy
	if err == nil {
		p, err = row.decode()
	}
	if err != nil {
		return contract.Policy{}, fmt.Errorf("reading the policy for run %s: %w", s.run, err)
	}
	return p, nil
}
