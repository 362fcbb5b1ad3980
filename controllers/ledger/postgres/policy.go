package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// put writes a version that differs from the newest.
func (l *Ledger) put(ctx context.Context, namespaceUID types.UID, set contract.PolicySet) error {
	body, err := set.Encode()
	if err != nil {
		return fmt.Errorf("projecting the policy of namespace %s: %w", namespaceUID, err)
	}
	var b pgx.Batch
	// Two that write at once make one version, and the one that comes too late is told by the key.
	b.Queue(`
INSERT INTO ekiden.policies (namespace_uid, version, body)
SELECT $1::uuid, coalesce(newest.version, 0) + 1, $2
FROM (SELECT) one LEFT JOIN LATERAL (
  SELECT version, body FROM ekiden.policies WHERE namespace_uid = $1::uuid ORDER BY version DESC LIMIT 1) newest ON true
WHERE newest.body IS DISTINCT FROM $2`, namespaceUID, string(body))
	if err := l.send(ctx, &b); err != nil {
		return fmt.Errorf("projecting the policy of namespace %s: %w", namespaceUID, err)
	}
	return nil
}

// Project writes what is in force, and then takes the lock of every held claim of the namespace once. An intent is written
// under that lock and reads the policy after it has it: one that read an older version has committed by then.
func (l *Ledger) Project(ctx context.Context, namespaceUID types.UID, set contract.PolicySet) error {
	if err := l.put(ctx, namespaceUID, set); err != nil {
		return err
	}
	var b pgx.Batch
	b.Queue(impatient)
	b.Queue(`SELECT count(*) FROM (SELECT FROM ekiden.claims WHERE namespace_uid = $1::uuid AND holder IS NOT NULL ORDER BY run_uid, lane FOR NO KEY UPDATE) held`, namespaceUID)
	if err := l.send(ctx, &b); err != nil {
		return fmt.Errorf("waiting for the calls that begin in namespace %s: %w", namespaceUID, err)
	}
	return nil
}
