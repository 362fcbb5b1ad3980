package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connectTimeout holds unless the DSN says otherwise.
	connectTimeout = 5 * time.Second
	// A segment appends and beats at the same time, and does nothing else.
	maxConns = 2
)

// database is a pool of connections with one way to use it.
type database struct {
	pool *pgxpool.Pool
	// answerWithin is the constant, but in tests.
	answerWithin time.Duration
}

// open makes a pool. It does not connect yet.
func open(ctx context.Context, dsn string) (database, error) {
	c, err := configure(dsn)
	if err != nil {
		return database{}, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return database{}, interpret(ctx, err)
	}
	return database{pool, answerWithin}, nil
}

// Close ends the connections.
func (d database) Close() { d.pool.Close() }

// configure reads a DSN. Statements are sent with text parameters and nothing prepared, and everything else is without
// session state too, so that the DSN may lead to pgbouncer in transaction mode.
func configure(dsn string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading the DSN: %w", err)
	}
	c.MaxConns = maxConns
	c.MinConns = 0
	c.MaxConnIdleTime = 30 * time.Second
	// No ping before use: it would double the transactions. A dead connection is an error like any other.
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	direct(c.ConnConfig)
	return c, nil
}

func direct(c *pgx.ConnConfig) {
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.StatementCacheCapacity = 0
	c.DescriptionCacheCapacity = 0
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "ekiden"
	}
}

// answerWithin bounds the wait for an answer: a server whose host is gone sends none, not even a refusal. It is longer
// than every timeout that the server keeps itself.
const answerWithin = 20 * time.Second

// send carries out b as one transaction in one round trip. No BEGIN is needed: the server takes everything up to the
// batch's end as one transaction, each statement with a fresh view of what others have committed.
func (d database) send(ctx context.Context, b *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, d.answerWithin)
	defer cancel()
	err := d.pool.SendBatch(ctx, b).Close()
	shed(d.pool, err)
	return err
}
