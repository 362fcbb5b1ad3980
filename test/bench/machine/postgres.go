// Package machine is the ground all engines of a bench stand on: one Postgres, and what is known of the computer.
package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ekiden-dev/ekiden/test/pgtest"
)

// settings of the server. What the background does by its own clock would be counted for whoever happens to run: no engine runs
// long enough to need it.
var settings = [][2]string{
	{"autovacuum", "off"},
	{"checkpoint_timeout", "1h"},
	{"max_wal_size", "8GB"},
	{"shared_buffers", "128MB"},
}

// Shown are the settings that a reader of the numbers wants to know.
var Shown = []string{"fsync", "synchronous_commit", "full_page_writes", "wal_level", "autovacuum", "checkpoint_timeout", "max_wal_size", "shared_buffers"}

// Postgres is a server that syncs what it commits.
type Postgres struct {
	server *pgtest.Server
	// admin is a connection to a database in which nothing is measured, so that asking is not counted.
	admin *pgx.Conn

	// Version and Settings are the server's own words.
	Version  string
	Settings map[string]string
}

// StartPostgres starts a server of the bench's own.
func StartPostgres(ctx context.Context) (*Postgres, error) {
	s, err := pgtest.Start(pgtest.Options{Durable: true, Settings: settings})
	if err != nil {
		return nil, err
	}
	p := &Postgres{server: s, Settings: map[string]string{}}
	if err := p.introduce(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return p, nil
}

func (p *Postgres) introduce(ctx context.Context) error {
	var err error
	if p.admin, err = pgx.Connect(ctx, p.server.DSN("postgres", "", "")); err != nil {
		return err
	}
	for _, name := range append([]string{"server_version"}, Shown...) {
		var value string
		if err := p.admin.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return fmt.Errorf("reading the setting %s: %w", name, err)
		}
		p.Settings[name] = value
	}
	p.Version = p.Settings["server_version"]
	delete(p.Settings, "server_version")
	for _, name := range []string{"fsync", "synchronous_commit"} {
		if p.Settings[name] != "on" {
			return fmt.Errorf("%s is %s: what is not durable is not measured", name, p.Settings[name])
		}
	}
	return nil
}

// Stop ends the server and removes its data.
func (p *Postgres) Stop() {
	_ = p.admin.Close(context.Background()) // the server goes
	p.server.Stop()
}

// Database is a new database and its superuser's DSN.
func (p *Postgres) Database(ctx context.Context, name string) (string, error) {
	if _, err := p.admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0"); err != nil {
		return "", fmt.Errorf("making the database %s: %w", name, err)
	}
	return p.server.DSN(name, "", ""), nil
}

// DSN is the DSN of a login to a database.
func (p *Postgres) DSN(database, login, password string) string {
	return p.server.DSN(database, login, password)
}

// Exec carries out statements as the superuser, in the database.
func (p *Postgres) Exec(ctx context.Context, database string, sql ...string) error {
	return pgtest.Exec(ctx, p.server.DSN(database, "", ""), strings.Join(sql, ";\n"))
}

// Written is where the server's log of writes has come to, in bytes.
func (p *Postgres) Written(ctx context.Context) (int64, error) {
	var at int64
	err := p.admin.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&at)
	return at, err
}

// Reading is what a database has cost so far.
type Reading struct {
	// Transactions are those that ended, however.
	Transactions int64
	// Written is the server's log of writes, in bytes.
	Written int64
}

// Read waits until nobody is connected to the database, for a connection tells what it did at its end, and reads.
func (p *Postgres) Read(ctx context.Context, database string) (Reading, error) {
	within, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for left := 1; left > 0; {
		if err := p.admin.QueryRow(within, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1`, database).Scan(&left); err != nil {
			return Reading{}, fmt.Errorf("waiting for the last connection to %s to end: %w", database, err)
		}
		if left > 0 {
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // there is nobody who would tell
		}
	}
	var r Reading
	err := p.admin.QueryRow(within, `SELECT xact_commit + xact_rollback, (pg_current_wal_insert_lsn() - '0/0')::bigint FROM pg_stat_database WHERE datname = $1`,
		database).Scan(&r.Transactions, &r.Written)
	return r, err
}
