package postgres_test

import (
	"errors"
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
