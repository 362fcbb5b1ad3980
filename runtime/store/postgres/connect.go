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
