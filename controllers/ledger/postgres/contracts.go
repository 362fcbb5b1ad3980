package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// KeepContracts keeps what the tools of a server are told to be. A namespace's login may add rows, so that what is there is not
// believed.
func (l *Ledger) KeepContracts(ctx context.Context, namespaceUID, serverUID types.UID, generation int64, tools []contract.ToolContract) error {
	var names, digests, bodies []string
	for _, t := range tools {
		body, digest, err := t.Encode()
		if err != nil {
			return fmt.Errorf("keeping the contracts of tool server %s: %w", serverUID, err)
		}
		if len(body) > contract.MaxContract {
			return fmt.Errorf("keeping the contracts of tool server %s: that of tool %q has %d bytes, %d are the most", serverUID, t.Name, len(body), contract.MaxContract)
		}
		names, digests, bodies = append(names, t.Name), append(digests, digest), append(bodies, string(body))
	}
	var b pgx.Batch
	b.Queue(`
DELETE FROM ekiden.contracts WHERE namespace_uid = $1::uuid AND server_uid = $2::uuid AND generation = $3::bigint
  AND (name, digest, body) NOT IN (SELECT * FROM unnest($4::text[], $5::text[], $6::text[]))`, namespaceUID, serverUID, generation, names, digests, bodies)
	b.Queue(`
INSERT INTO ekiden.contracts (namespace_uid, server_uid, generation, name, digest, body)
SELECT $1::uuid, $2::uuid, $3::bigint, c.name, c.digest, c.body FROM unnest($4::text[], $5::text[], $6::text[]) AS c (name, digest, body)
ON CONFLICT DO NOTHING`, namespaceUID, serverUID, generation, names, digests, bodies)
	if err := l.send(ctx, &b); err != nil {
		return fmt.Errorf("keeping the contracts of tool server %s: %w", serverUID, err)
	}
	return nil
}

// Contracts are those of one generation.
func (l *Ledger) Contracts(ctx context.Context, namespaceUID, serverUID types.UID, generation int64) ([]contract.ToolContract, error) {
	var (
		b    pgx.Batch
		list []contract.ToolContract
	)
	b.Queue(`SELECT body FROM ekiden.contracts WHERE namespace_uid = $1::uuid AND server_uid = $2::uuid AND generation = $3::bigint ORDER BY name LIMIT $4::int`,
		namespaceUID, serverUID, generation, contract.MaxTools+1).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var body string
			if err := rows.Scan(&body); err != nil {
				return err
			}
			t, err := decodeContract(body)
			if err != nil {
				return err
			}
			list = append(list, t)
		}
		return rows.Err()
	})
	if err := l.send(ctx, &b); err != nil {
		return nil, fmt.Errorf("reading the contracts of tool server %s: %w", serverUID, err)
	}
	return list, nil
}

// Pinned are the contracts of the given digests. A namespace's login may add rows: one under a digest that is not its own is not
// looked at, and all others under a digest are equal.
func (l *Ledger) Pinned(ctx context.Context, namespaceUID types.UID, pins []ledger.Pin) (map[ledger.Pin]contract.ToolContract, error) {
	var servers, digests []string
	for _, p := range pins {
		servers, digests = append(servers, string(p.Server)), append(digests, p.Digest)
	}
	var b pgx.Batch
	found := map[ledger.Pin]contract.ToolContract{}
	b.Queue(`
SELECT p.server_uid::text, p.digest, c.body
FROM unnest($2::uuid[], $3::text[]) AS p (server_uid, digest)
CROSS JOIN LATERAL (
  SELECT body FROM ekiden.contracts WHERE namespace_uid = $1::uuid AND server_uid = p.server_uid AND digest = p.digest
    AND digest = 'sha256:' || encode(sha256(convert_to(body, 'UTF8')), 'hex') LIMIT 1) c`,
		namespaceUID, servers, digests).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var p ledger.Pin
			var body string
			if err := rows.Scan((*string)(&p.Server), &p.Digest, &body); err != nil {
				return err
			}
			if t, err := decodeContract(body); err == nil {
				found[p] = t
			}
		}
		return rows.Err()
	})
	if err := l.send(ctx, &b); err != nil {
		return nil, fmt.Errorf("reading pinned contracts of namespace %s: %w", namespaceUID, err)
	}
	return found, nil
}

func decodeContract(body string) (t contract.ToolContract, err error) {
	if err := json.Unmarshal([]byte(body), &t); err != nil {
		return t, fmt.Errorf("%w: the contract of a tool does not parse: %w", contract.ErrSchema, err)
	}
	return t, nil
}
