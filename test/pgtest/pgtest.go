// Package pgtest gives tests a real Postgres: one server per test binary, a migrated database per test.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestX(t *testing.T) {
//		db := pgtest.New(t)
//		store, err := postgres.Open(t.Context(), db.Tenant(t, namespace))
//		…
//
// The server is the one that EKIDEN_TEST_DSN names (the DSN of a superuser), else one that is started from the binaries
// in EKIDEN_POSTGRES_BIN or on this machine. Where there is none, tests fail: they never skip. Only a pooler is no condition.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
)

// password is that of every login this package makes: of a server on loopback that lives as long as the test.
const password = "test"

// shared is the server of this test binary, made when the first test asks for it.
var shared struct {
	once     sync.Once
	server   *Server
	template string
	manager  string
	err      error
	database struct {
		once sync.Once
		made *Database
		err  error
	}
}

// Main runs the tests and ends the server after them.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		clean()
		shared.server.Stop()
	}
	os.Exit(code)
}

// Database is a migrated database of a test's own.
type Database struct {
	Name   string
	Server *Server
	// Superuser is the DSN of a superuser. Manager is that of the manager's login: it has CREATEROLE, is no superuser,
	// and owns the tables.
	Superuser, Manager string
	// ManagerLogin is the name of the manager's login.
	ManagerLogin string
}

// New makes a database. It is dropped when the test ends.
func New(t testing.TB) *Database {
	t.Helper()
	ready(t)
	return own(t, shared.template)
}

// Shared is one database for all tests of this binary that ask for it. It costs nothing more than New does once; rows of
// different namespaces do not meet.
func Shared(t testing.TB) *Database {
	t.Helper()
	ready(t)
	shared.database.once.Do(func() {
		shared.database.made, shared.database.err = create(context.Background(), shared.template)
	})
	if shared.database.err != nil {
		t.Fatal(shared.database.err)
	}
	return shared.database.made
}

// Empty makes a database without tables, owned by the manager's login. It is dropped when the test ends.
func Empty(t testing.TB) *Database {
	t.Helper()
	ready(t)
	return own(t, "template0")
}

func ready(t testing.TB) {
	t.Helper()
	shared.once.Do(func() { shared.err = prepare() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
}

func own(t testing.TB, from string) *Database {
	t.Helper()
	d, err := create(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.drop(); err != nil {
			t.Logf("dropping the database: %v", err)
		}
	})
	return d
}

func create(ctx context.Context, from string) (*Database, error) {
	s, name := shared.server, unique("test")
	if err := Exec(ctx, s.DSN("postgres", "", ""), fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s OWNER %s", name, from, shared.manager)); err != nil {
		return nil, fmt.Errorf("making a database: %w", err)
	}
	return &Database{
		Name: name, Server: s, Superuser: s.DSN(name, "", ""),
		Manager: s.DSN(name, shared.manager, password), ManagerLogin: shared.manager,
	}, nil
}

func (d *Database) drop() error {
	return Exec(context.Background(), d.Server.DSN("postgres", "", ""), "DROP DATABASE IF EXISTS "+d.Name+" WITH (FORCE)")
}

// DSN is the DSN of a login to this database.
func (d *Database) DSN(login, password string) string { return d.Server.DSN(d.Name, login, password) }

// Tenant makes the login of a namespace, as the manager would, and returns its DSN.
func (d *Database) Tenant(t testing.TB, namespace types.UID) string {
	t.Helper()
	login := "ekiden_" + strings.ReplaceAll(string(namespace), "-", "")
	if err := Exec(t.Context(), d.Superuser, fmt.Sprintf(`
CREATE ROLE %[1]s LOGIN PASSWORD '%[2]s' IN ROLE ekiden_tenant;
ALTER ROLE %[1]s SET statement_timeout = '10s';
ALTER ROLE %[1]s SET lock_timeout = '5s';
ALTER ROLE %[1]s SET idle_in_transaction_session_timeout = '10s';`, login, password)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Exec(context.Background(), d.Server.DSN("postgres", "", ""), "DROP ROLE IF EXISTS "+login); err != nil {
			t.Logf("dropping the login: %v", err)
		}
	})
	return d.DSN(login, password)
}

// Connect opens a connection until the test ends. It prepares no statements, so that every one is sent as it stands, through a pooler too.
func Connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := Try(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Try is Connect for a login that may be refused. The caller closes the connection.
func Try(ctx context.Context, dsn string) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgx.ConnectConfig(ctx, c)
}

// Exec carries out statements without parameters.
func Exec(ctx context.Context, dsn, sql string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// QueryRow reads the first row of a query.
func QueryRow(ctx context.Context, dsn, sql string, args []any, into ...any) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.QueryRow(ctx, sql, args...).Scan(into...)
}

// prepare makes the server, the manager's login, and a migrated database to copy.
func prepare() error {
	s, err := Start(Options{})
	if err != nil {
		return err
	}
	shared.server, shared.manager, shared.template = s, unique("manager"), unique("template")
	ctx, admin := context.Background(), s.DSN("postgres", "", "")
	if err := Exec(ctx, admin, fmt.Sprintf("CREATE ROLE %s LOGIN CREATEROLE PASSWORD '%s'", shared.manager, password)); err != nil {
		return fmt.Errorf("making the manager's login: %w", err)
	}
	if err := Exec(ctx, admin, fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 OWNER %s", shared.template, shared.manager)); err != nil {
		return fmt.Errorf("making the template: %w", err)
	}
	if err := postgres.Migrate(ctx, s.DSN(shared.template, shared.manager, password)); err != nil {
		return fmt.Errorf("making the template: %w", err)
	}
	// On a server that has seen other tests the role ekiden_tenant belongs to their manager.
	if err := Exec(ctx, admin, fmt.Sprintf("GRANT ekiden_tenant TO %s WITH ADMIN OPTION", shared.manager)); os.Getenv("EKIDEN_TEST_DSN") != "" && err != nil {
		return fmt.Errorf("making the manager's login: %w", err)
	}
	return nil
}

// clean removes from a server that goes on what Stop does not.
func clean() {
	if os.Getenv("EKIDEN_TEST_DSN") == "" || shared.err != nil {
		return
	}
	if d := shared.database.made; d != nil {
		if err := d.drop(); err != nil {
			fmt.Fprintln(os.Stderr, "cleaning up:", err)
		}
	}
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + shared.template + " WITH (FORCE)", "DROP OWNED BY " + shared.manager + " CASCADE", "DROP ROLE IF EXISTS " + shared.manager,
	} {
		if err := Exec(context.Background(), shared.server.DSN("postgres", "", ""), sql); err != nil {
			fmt.Fprintln(os.Stderr, "cleaning up:", err)
		}
	}
}

func unique(what string) string { return what + "_" + strings.ToLower(rand.Text()[:10]) }
