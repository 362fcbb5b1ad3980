package growth

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Checkpoints is the floor of every engine that saves its whole state: one row, written whole at each turn, and nothing else. An
// engine that does so writes at least this much; one that keeps earlier states stores them besides.
type Checkpoints struct {
	dsn string
	Options
}

// NewCheckpoints is the floor in a database of its own.
func NewCheckpoints(ctx context.Context, dsn string, o Options) (*Checkpoints, error) {
	c := &Checkpoints{dsn: dsn, Options: o}
	return c, c.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `CREATE TABLE checkpoint (run int PRIMARY KEY, turn int NOT NULL, state text NOT NULL)`)
		return err
	})
}

// Name is who keeps it and how.
func (c *Checkpoints) Name() string { return "whole-state checkpoints" }

// Keep writes the whole conversation at each turn.
func (c *Checkpoints) Keep(ctx context.Context, turned func(context.Context, int, int) error) error {
	return c.with(ctx, func(conn *pgx.Conn) error {
		var state strings.Builder
		for turn := range c.Turns {
			said := Text(uint64(2*turn), c.Words()) + Text(uint64(2*turn+1), c.Words())
			state.WriteString(said)
			if _, err := conn.Exec(ctx, `
INSERT INTO checkpoint VALUES (1, $1, $2) ON CONFLICT (run) DO UPDATE SET turn = excluded.turn, state = excluded.state`, turn, state.String()); err != nil {
				return err
			}
			if err := turned(ctx, turn+1, len(said)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Stored is how many bytes the table takes.
func (c *Checkpoints) Stored(ctx context.Context) (bytes int64, err error) {
	err = c.with(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT pg_total_relation_size('checkpoint')`).Scan(&bytes)
	})
	return bytes, err
}

func (c *Checkpoints) with(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, c.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return do(conn)
}
