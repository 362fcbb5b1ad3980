package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// put writes a version that differs from the newest, unless that holds a later state of one of its policies.
func (l *Ledger) put(ctx context.Context, namespaceUID types.UID, set contract.PolicySet) error {
	body, err := set.Encode()
	if err != nil {
		return err
	}
	generations, err := json.Marshal(set.Generations())
	if err != nil {
		return fmt.Errorf("encoding generations: %w", err)
	}
	var (
		b     pgx.Batch
		stale bool
	)
	// Two that write at once make one version, and the one that comes too late is told by the key.
	b.Queue(`
WITH newest AS (
  SELECT version, body, generations FROM ekiden.policies WHERE namespace_uid = $1::uuid ORDER BY version DESC LIMIT 1
), stale AS (
  SELECT EXISTS (
    SELECT FROM newest, jsonb_each_text(newest.generations) AS known (uid, generation)
    JOIN jsonb_each_text($3::jsonb) AS given (uid, generation) USING (uid)
    WHERE given.generation::bigint < known.generation::bigint) AS yes
), added AS (
  INSERT INTO ekiden.policies (namespace_uid, version, body, generations)
  SELECT $1::uuid, coalesce(newest.version, 0) + 1, $2, $3::jsonb
  FROM stale LEFT JOIN newest ON true
  WHERE NOT stale.yes AND newest.body IS DISTINCT FROM $2
)
SELECT yes FROM stale`, namespaceUID, string(body), string(generations)).QueryRow(func(row pgx.Row) error { return row.Scan(&stale) })
	if err := l.send(ctx, &b); err != nil {
		return err
	}
	if stale {
		return ledger.ErrStale
	}
	return nil
}

// hasty is impatient with a whole statement: a tenant that holds many locks, one after the other, shall not delay it for longer.
const hasty = `SELECT set_config('lock_timeout', '2s', true), set_config('statement_timeout', '2s', true)`

// Project writes what is in force, and then takes the lock of every held claim of the namespace once. An intent is written
// under that lock and reads the policy after it has it: one that read an older version has committed by then.
func (l *Ledger) Project(ctx context.Context, namespaceUID types.UID, set contract.PolicySet) error {
	if err := l.put(ctx, namespaceUID, set); err != nil {
		return fmt.Errorf("projecting the policy of namespace %s: %w", namespaceUID, err)
	}
	var b pgx.Batch
	b.Queue(hasty)
	b.Queue(`SELECT count(*) FROM (SELECT FROM ekiden.claims WHERE namespace_uid = $1::uuid AND holder IS NOT NULL ORDER BY run_uid, lane FOR NO KEY UPDATE) held`, namespaceUID)
	err := l.carry(ctx, &b)
	if met := state(err); met == lockTimeout || met == statementTimeout {
		err = errors.Join(interpret(ctx, err), l.transact(ctx, func(tx pgx.Tx) error { return withTenant(ctx, tx, namespaceUID, l.showOut) }))
	} else {
		err = interpret(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("waiting for the calls that begin in namespace %s: %w", namespaceUID, err)
	}
	return nil
}
