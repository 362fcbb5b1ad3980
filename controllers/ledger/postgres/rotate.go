package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
)

// NextSlot is the slot after that of the login which was provisioned last, and the first one for a namespace that has none.
func (l *Ledger) NextSlot(ctx context.Context, namespace types.UID) (ledger.Slot, error) {
	var next ledger.Slot
	var b pgx.Batch
	b.Queue(`SELECT slot FROM ekiden.tenants WHERE namespace_uid = $1`, namespace).Query(func(rows pgx.Rows) error {
		var now ledger.Slot
		if !rows.Next() {
			return rows.Err()
		}
		if err := rows.Scan((*string)(&now)); err != nil {
			return err
		}
		next = now.Next()
		return nil
	})
	if err := l.send(ctx, &b); err != nil {
		return "", fmt.Errorf("looking for the login of namespace %s: %w", namespace, err)
	}
	return next, nil
}

// Retire drops the logins that came before the present one. An attempt that has not ended may be a pod that was started with one of
// them, also if it began a little after: what pods are told of a Secret is not always the newest. Of a segment that another has
// followed nothing can be done any more, and a manager that was slow to hear of it may have left an attempt open.
func (l *Ledger) Retire(ctx context.Context, namespace types.UID, after time.Duration) error {
	var due bool
	var slot ledger.Slot
	look := func(ctx context.Context, tx pgx.Tx, n tenant) error {
		rows, err := tx.Query(ctx, `
SELECT slot, retiring AND slot_since <= now() - $2::bigint * interval '1 ms' AND NOT EXISTS (
  SELECT FROM ekiden.attempts a WHERE a.namespace_uid = t.namespace_uid AND a.ended_at IS NULL AND a.begun_at <= t.slot_since + $2::bigint * interval '1 ms'
    AND NOT EXISTS (SELECT FROM ekiden.attempts n WHERE n.run_uid = a.run_uid AND n.segment > a.segment))
FROM ekiden.tenants t WHERE namespace_uid = $1`, n.namespace, after.Milliseconds())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan((*string)(&slot), &due); err != nil {
				return err
			}
		}
		return rows.Err()
	}
	// Each step leaves the present login alone, and does nothing if another has become that meanwhile.
	others := func(do step) step {
		return func(ctx context.Context, tx pgx.Tx, n tenant) error {
			before := slot
			if err := look(ctx, tx, n); err != nil || !due || slot != before {
				return err
			}
			n.logins = slices.DeleteFunc(n.logins, func(l login) bool { return l.name == slot.LoginOf(namespace) })
			return do(ctx, tx, n)
		}
	}
	err := l.steps(ctx, namespace, look)
	if err == nil && !due {
		return nil
	}
	if err == nil {
		err = l.steps(ctx, namespace, others(shutOut), others(cut), others(dropLogins), others(retired))
	}
	if err != nil {
		return fmt.Errorf("retiring logins of namespace %s: %w", namespace, err)
	}
	return nil
}

// retired says that no logins are left but the present one.
func retired(ctx context.Context, tx pgx.Tx, n tenant) error {
	_, err := tx.Exec(ctx, `UPDATE ekiden.tenants SET retiring = false WHERE namespace_uid = $1`, n.namespace)
	return err
}
