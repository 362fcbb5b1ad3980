package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// ErrSchemaBehind is returned for a database whose newest migration is older than this binary needs.
var ErrSchemaBehind = errors.New("the database's schema is behind: run the migrations")

//go:embed migrations/*.sql
var migrations embed.FS

// Tables of the migrations themselves.
const (
	versionTable = "ekiden.schema_version"
	lockTable    = "ekiden.schema_lock"
)

// Migrate brings the database up to this binary's schema. It only ever goes forward; a schema that is ahead is left
// as it is. Several may call it at once. The login becomes the owner of the tables: it is the manager's, with CREATEROLE
// and the right to create a schema (or a schema ekiden of its own). Errors: segment.ErrUnavailable.
func Migrate(ctx context.Context, dsn string) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("reading the DSN: %w", err)
	}
	direct(config)
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()

	if err := makeSchema(ctx, db); err != nil {
		return fmt.Errorf("making the schema ekiden: %w", interpret(ctx, err))
	}
	// A lock in a table, with a lease: advisory locks of a session do not survive a pooler.
	locker, err := lock.NewPostgresTableLocker(
		lock.WithTableName(lockTable), lock.WithTableLockTimeout(500*time.Millisecond, 600), lock.WithTableLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		return fmt.Errorf("preparing the lock of the migrations: %w", err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(versionTable), goose.WithLocker(locker), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()),
	)
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrating: %w", interpret(ctx, err))
	}
	return nil
}

// makeSchema makes the schema unless it is there. Of several who make it at once all but one get an error that is none.
func makeSchema(ctx context.Context, db *sql.DB) error {
	there := func() (yes bool, err error) {
		err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'ekiden')`).Scan(&yes)
		return yes, err
	}
	if yes, err := there(); err != nil || yes {
		return err
	}
	_, made := db.ExecContext(ctx, `CREATE SCHEMA ekiden`)
	if made == nil {
		return nil
	}
	if yes, err := there(); err == nil && yes {
		return nil
	}
	return made
}

// CheckSchema reports whether the database's schema is at least this binary's. Errors: ErrSchemaBehind, segment.ErrUnavailable.
func CheckSchema(ctx context.Context, dsn string) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("reading the DSN: %w", err)
	}
	direct(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return interpret(ctx, err)
	}
	defer func() { _ = conn.Close(ctx) }()

	var is int64
	err = conn.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable+` WHERE is_applied`).Scan(&is)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42P01" { // no such table
		return fmt.Errorf("%w: it has none", ErrSchemaBehind)
	}
	if err != nil {
		return interpret(ctx, err)
	}
	want, err := SchemaVersion()
	if err != nil {
		return err
	}
	if is < want {
		return fmt.Errorf("%w: it is at %d, this binary needs %d", ErrSchemaBehind, is, want)
	}
	return nil
}

// SchemaVersion is the number of this binary's newest migration.
func SchemaVersion() (int64, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, fmt.Errorf("reading the migrations: %w", err)
	}
	var newest int64
	for _, name := range names {
		v, err := goose.NumericComponent(path.Base(name))
		if err != nil {
			return 0, fmt.Errorf("reading the migrations: %w", err)
		}
		newest = max(newest, v)
	}
	return newest, nil
}
