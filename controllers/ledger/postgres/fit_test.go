package postgres_test

import (
	"strings"
	"testing"

	ledgerpostgres "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestFit(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if why, err := ledgerpostgres.Fit(t.Context(), db.Manager); why != "" || err != nil {
		t.Errorf("a database in use: %q (%v)", why, err)
	}
	why, err := ledgerpostgres.Fit(t.Context(), db.Tenant(t, "a-namespace"))
	for _, want := range []string{"CREATEROLE", "may not make a schema"} {
		if err != nil || !strings.Contains(why, want) {
			t.Errorf("a login without rights: %q (%v), want something about %s", why, err, want)
		}
	}
}
