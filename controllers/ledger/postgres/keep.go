package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
)

// brief is the first statement of what deletes: a transaction that takes longer is given up, and tried again with fewer rows.
const brief = `SELECT set_config('statement_timeout', '10s', true), set_config('lock_timeout', '2s', true)`

// wholeTree holds for a run r of a tree whose every run ended longer ago than the window $1, in milliseconds. The instant is Postgres's:
// no other clock decides what is deleted.
const wholeTree = `NOT EXISTS (SELECT FROM ekiden.runs m WHERE m.root_uid = r.root_uid AND (m.ended_at IS NULL OR m.ended_at >= now() - $1::bigint * interval '1 ms'))`

// Old lists trees that ended longer ago than keep and of which something is left, oldest first.
func (l *Ledger) Old(ctx context.Context, what ledger.Kept, keep time.Duration, after ledger.Tree, limit int) ([]ledger.Tree, error) {
	left := `true`
	if what == ledger.Sessions {
		left = `EXISTS (SELECT FROM ekiden.runs m WHERE m.root_uid = r.run_uid AND m.swept_at IS NULL)`
	}
	root := after.Root
	if root == "" {
		root = types.UID(uuid.Nil.String())
	}
	var (
		b   pgx.Batch
		out []ledger.Tree
	)
	b.Queue(`
SELECT r.run_uid::text, r.ended_at, (SELECT array_agg(m.run_uid::text ORDER BY m.run_uid) FROM ekiden.runs m WHERE m.root_uid = r.run_uid)
FROM ekiden.runs r
WHERE r.run_uid = r.root_uid AND r.ended_at < now() - $1::bigint * interval '1 ms' AND (r.ended_at, r.run_uid) > ($2::timestamptz, $3::uuid)
  AND `+left+` AND `+wholeTree+`
ORDER BY r.ended_at, r.run_uid LIMIT $4::bigint`, keep.Milliseconds(), after.EndedAt, root, limit).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var (
				t    ledger.Tree
				runs []string
			)
			if err := rows.Scan((*string)(&t.Root), &t.EndedAt, &runs); err != nil {
				return err
			}
			for _, r := range runs {
				t.Runs = append(t.Runs, types.UID(r))
			}
			out = append(out, t)
		}
		return rows.Err()
	})
	if err := l.send(ctx, &b); err != nil {
		return nil, fmt.Errorf("listing trees of which %s are old: %w", what, err)
	}
	return out, nil
}

// sessionTables hold sessions. None refers to another.
var sessionTables = []string{"transcript", "calls", "inbox", "outcomes", "attempts", "snapshots"}

// Drop deletes some of what is old, in one transaction of at most so many rows of each table. Each statement looks for itself whether
// the whole tree is old. A row that somebody has locked is left for the next time, and what refers to a row goes before it, so
// that after an interruption the next call finds what is left.
func (l *Ledger) Drop(ctx context.Context, what ledger.Kept, keep time.Duration, roots []types.UID, rows int) (ledger.Dropped, error) {
	uids := make([]string, len(roots))
	for i, r := range roots {
		uids[i] = string(r)
	}
	var b pgx.Batch
	dropped := ledger.Dropped{}
	remove := func(table, unless string) {
		b.Queue(fmt.Sprintf(`
WITH gone AS (DELETE FROM ekiden.%[1]s WHERE ctid = ANY (ARRAY(
  SELECT d.ctid FROM ekiden.%[1]s d JOIN ekiden.runs r USING (run_uid)
  WHERE r.root_uid = ANY ($2::uuid[]) AND %[2]s%[3]s LIMIT $3::bigint FOR UPDATE OF d SKIP LOCKED)) RETURNING 1)
SELECT count(*) FROM gone`, table, wholeTree, unless), keep.Milliseconds(), uids, rows).QueryRow(func(row pgx.Row) error {
			var n int64
			err := row.Scan(&n)
			if n > 0 {
				dropped[table] = n
			}
			return err
		})
	}
	b.Queue(brief)
	session := ""
	for _, t := range sessionTables {
		remove(t, "")
		session += fmt.Sprintf(" AND NOT EXISTS (SELECT FROM ekiden.%s s WHERE s.run_uid = r.run_uid)", t)
	}
	if what == ledger.Sessions {
		b.Queue(`UPDATE ekiden.runs r SET swept_at = now() WHERE r.root_uid = ANY ($2::uuid[]) AND r.swept_at IS NULL AND `+wholeTree+session, keep.Milliseconds(), uids)
	} else {
		remove("usage", "")
		remove("claims", session+" AND NOT EXISTS (SELECT FROM ekiden.usage s WHERE s.run_uid = r.run_uid)")
		// The root is the last of its tree, because a tree is found by it.
		remove("runs", session+` AND NOT EXISTS (SELECT FROM ekiden.claims s WHERE s.run_uid = r.run_uid)
  AND (r.run_uid <> r.root_uid OR NOT EXISTS (SELECT FROM ekiden.runs m WHERE m.root_uid = r.root_uid AND m.run_uid <> r.run_uid))`)
	}
	if err := l.send(ctx, &b); err != nil {
		return nil, fmt.Errorf("deleting old %s: %w", what, err)
	}
	return dropped, nil
}

// DropPolicies deletes versions that were followed by another longer ago than keep. The newest was followed by none.
func (l *Ledger) DropPolicies(ctx context.Context, keep time.Duration, rows int) (ledger.Dropped, error) {
	var b pgx.Batch
	var n int64
	b.Queue(brief)
	b.Queue(`
WITH gone AS (DELETE FROM ekiden.policies WHERE ctid = ANY (ARRAY(
  SELECT p.ctid FROM ekiden.policies p
  WHERE EXISTS (SELECT FROM ekiden.policies n WHERE n.namespace_uid = p.namespace_uid AND n.version > p.version AND n.at < now() - $1::bigint * interval '1 ms')
  ORDER BY p.at LIMIT $2::bigint)) RETURNING 1)
SELECT count(*) FROM gone`, keep.Milliseconds(), rows).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	if err := l.send(ctx, &b); err != nil {
		return nil, fmt.Errorf("deleting old versions of policies: %w", err)
	}
	if n == 0 {
		return ledger.Dropped{}, nil
	}
	return ledger.Dropped{"policies": n}, nil
}
