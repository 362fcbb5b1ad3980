package postgres_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestSeveralMayMigrateAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	if err := postgres.CheckSchema(t.Context(), db.Manager); !errors.Is(err, postgres.ErrSchemaBehind) {
		t.Errorf("got error %v, want ErrSchemaBehind", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := postgres.Migrate(t.Context(), db.Manager); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := postgres.CheckSchema(t.Context(), db.Manager); err != nil {
		t.Error(err)
	}
	if err := postgres.Migrate(t.Context(), db.Manager); err != nil {
		t.Errorf("migrating again: %v", err)
	}
}

func TestAnOlderBinaryAcceptsANewerSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := pgtest.Exec(t.Context(), db.Manager, `INSERT INTO ekiden.schema_version (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), db.Manager); err != nil {
		t.Errorf("migrating: %v", err)
	}
	if err := postgres.CheckSchema(t.Context(), db.Manager); err != nil {
		t.Errorf("checking: %v", err)
	}
}

func TestAnOlderSchemaIsBehind(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := pgtest.Exec(t.Context(), db.Manager, `DELETE FROM ekiden.schema_version WHERE version_id > 0`); err != nil {
		t.Fatal(err)
	}
	if err := postgres.CheckSchema(t.Context(), db.Manager); !errors.Is(err, postgres.ErrSchemaBehind) {
		t.Errorf("got error %v, want ErrSchemaBehind", err)
	}
}

// TestAMigrationQueuesBrieflyForATableThatIsRead: whoever else wants the table waits behind it.
func TestAMigrationQueuesBrieflyForATableThatIsRead(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, back := range []string{`ALTER TABLE ekiden.tenants DROP COLUMN slot, DROP COLUMN slot_since, DROP COLUMN retiring`, `DELETE FROM ekiden.schema_version WHERE version_id > 4`} {
		if err := pgtest.Exec(t.Context(), db.Manager, back); err != nil {
			t.Fatal(err)
		}
	}
	reader := pgtest.Connect(t, db.Superuser)
	if _, err := reader.Exec(t.Context(), `BEGIN; SELECT FROM ekiden.tenants`); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), db.Manager); err == nil || !strings.Contains(err.Error(), "lock timeout") {
		t.Errorf("while it is read: %v", err)
	}
	if _, err := reader.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), db.Manager); err != nil {
		t.Errorf("once it is not: %v", err)
	}
}

// TestEveryMigrationQueuesBriefly of those that may meet a database in use.
func TestEveryMigrationQueuesBriefly(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("migrations", "*.sql"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d migrations: %v", len(files), err)
	}
	for _, file := range files[1:] {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		statement := regexp.MustCompile(`(?m)^[A-Z].*$`).FindString(string(body))
		if statement != `SELECT set_config('lock_timeout', '5s', true);` {
			t.Errorf("%s begins with %s", file, statement)
		}
	}
}

func TestADatabaseThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	p := pgtest.NewProxy(t, db.Manager)
	p.Refuse(true)
	for name, err := range map[string]error{
		"migrating": postgres.Migrate(t.Context(), p.DSN), "checking": postgres.CheckSchema(t.Context(), p.DSN),
		"with another password": postgres.CheckSchema(t.Context(), db.DSN(db.ManagerLogin, "wrong")),
	} {
		if !errors.Is(err, segment.ErrUnavailable) {
			t.Errorf("%s: got error %v, want ErrUnavailable", name, err)
		}
	}
}
