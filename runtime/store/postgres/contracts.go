package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Contracts keeps what tools are told to be.
type Contracts struct{ database }

// OpenContracts makes Contracts. It does not connect yet. The DSN is that of a namespace.
func OpenContracts(ctx context.Context, dsn string) (*Contracts, error) {
	db, err := open(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("opening the contracts: %w", err)
	}
	return &Contracts{db}, nil
}

// keepContracts adds nothing to what was kept of a generation before: its contracts are those of one answer of the server.
const keepContracts = `
INSERT INTO ekiden.contracts (namespace_uid, server_uid, generation, name, digest, body)
SELECT $1::uuid, $2::uuid, $3::bigint, c.name, c.digest, c.body FROM unnest($4::text[], $5::text[], $6::text[]) AS c (name, digest, body)
WHERE NOT EXISTS (SELECT FROM ekiden.contracts WHERE (namespace_uid, server_uid, generation) = ($1::uuid, $2::uuid, $3::bigint))`

// Keep keeps the contracts of a server's tools under the generation of its spec, all or none. The first that are kept of a
// generation stay: of another try nothing is kept, and that is no error. Errors: contract.ErrJSON, segment.ErrUnavailable.
func (c *Contracts) Keep(ctx context.Context, namespace, server types.UID, generation int64, tools []contract.ToolContract) error {
	if err := c.keep(ctx, namespace, server, generation, tools); err != nil {
		return fmt.Errorf("keeping the contracts of server %s: %w", server, err)
	}
	return nil
}

func (c *Contracts) keep(ctx context.Context, namespace, server types.UID, generation int64, tools []contract.ToolContract) error {
	var names, digests, bodies []string
	seen := map[string]bool{}
	for _, t := range tools {
		t.Name, t.Description = contract.Clean(t.Name), contract.Clean(t.Description)
		if seen[t.Name] {
			return fmt.Errorf("there are two tools %q", t.Name)
		}
		seen[t.Name] = true
		body, digest, err := t.Encode()
		if err != nil {
			return err
		}
		names, digests, bodies = append(names, t.Name), append(digests, digest), append(bodies, string(body))
	}
	if len(names) == 0 {
		return errors.New("there are none")
	}
	var b pgx.Batch
	b.Queue(keepContracts, namespace, server, generation, names, digests, bodies)
	err := c.send(ctx, &b)
	if duplicate(err) {
		return nil // another process has just kept them
	}
	return interpret(ctx, err)
}
