package postgres_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

// nothing is what an attack gets that is not refused: no row.
const nothing = "nothing"

// TestWhatALoginTries is the list of attacks by somebody who has the login of a namespace and any client: a sentence, what is
// tried, and what Postgres says. The tables' own rights are in TestATenantsRightsToCalls and beside the ledger.
func TestWhatALoginTries(t *testing.T) {
	t.Parallel()
	w, v := newWorld(t), newWorld(t)
	w.furnish(t)
	v.furnish(t)
	w.exec(t, `ANALYZE`)
	foreign := pgtest.Connect(t, v.tenant)
	names := strings.NewReplacer(
		"{theirs}", string(v.namespace), "{own login}", loginOf(t, w.tenant), "{their login}", loginOf(t, v.tenant), "{manager}", w.ManagerLogin,
		"{their backend}", fmt.Sprint(foreign.PgConn().PID()), "{manager's backend}", fmt.Sprint(pgtest.Connect(t, w.Manager).PgConn().PID()),
	)
	const (
		unsupported = "0A000"
		disabled    = "55000"
		unknownRole = "22023"
	)
	for sentence, a := range map[string]struct{ try, says string }{
		"it becomes the superuser":                    {`SET ROLE postgres`, refused},
		"it becomes the manager":                      {`SET ROLE {manager}`, refused},
		"it becomes another namespace":                {`SET ROLE "{their login}"`, refused},
		"it begins its session anew as another":       {`SET SESSION AUTHORIZATION "{their login}"`, refused},
		"it makes itself a member of another":         {`GRANT "{their login}" TO "{own login}"`, refused},
		"it makes itself a member of the manager":     {`GRANT {manager} TO "{own login}"`, refused},
		"it takes another's password":                 {`ALTER ROLE "{their login}" PASSWORD 'x'`, refused},
		"it gives itself rights that roles have":      {`ALTER ROLE "{own login}" CREATEROLE`, refused},
		"it takes more connections":                   {`ALTER ROLE "{own login}" CONNECTION LIMIT 10000`, refused},
		"it takes another's name":                     {`ALTER ROLE "{own login}" RENAME TO ekiden_x`, unsupported},
		"it says that row-level security is off":      {`SET row_security = off; SELECT FROM ekiden.claims`, refused},
		"it turns row-level security off":             {`ALTER TABLE ekiden.claims DISABLE ROW LEVEL SECURITY`, refused},
		"it adds a policy":                            {`CREATE POLICY mine ON ekiden.claims USING (true)`, refused},
		"it drops a policy":                           {`DROP POLICY own_namespace ON ekiden.claims`, refused},
		"it says itself whose login is whose":         {`CREATE OR REPLACE FUNCTION ekiden.tenant() RETURNS uuid LANGUAGE sql AS $$ SELECT '{theirs}'::uuid $$`, refused},
		"it has others run its function":              {`CREATE FUNCTION public.f() RETURNS void LANGUAGE sql SECURITY DEFINER AS ''`, refused},
		"it puts a trigger before others' writes":     {`CREATE TRIGGER t BEFORE UPDATE ON ekiden.claims EXECUTE FUNCTION suppress_redundant_updates_trigger()`, refused},
		"it puts a rule before others' writes":        {`CREATE RULE r AS ON UPDATE TO ekiden.claims DO INSTEAD NOTHING`, refused},
		"it makes a view for others":                  {`CREATE VIEW public.v AS SELECT * FROM ekiden.claims`, refused},
		"it makes a schema":                           {`CREATE SCHEMA mine`, refused},
		"it loads an extension":                       {`CREATE EXTENSION dblink`, refused},
		"it runs a program":                           {`COPY (SELECT 1) TO PROGRAM 'true'`, refused},
		"it writes a file":                            {`COPY (SELECT 1) TO '/tmp/x'`, refused},
		"it reads a file":                             {`SELECT pg_read_file('postgresql.conf')`, refused},
		"it reads a file as a large object":           {`SELECT lo_import('/etc/passwd')`, refused},
		"it copies rows in past row-level security":   {`COPY ekiden.usage FROM STDIN`, unsupported},
		"it looks for rows by an error":               {`SELECT FROM ekiden.snapshots WHERE namespace_uid = '{theirs}' AND body::int = 1`, nothing},
		"it looks for rows by what the planner knows": {`SELECT FROM pg_stats WHERE schemaname = 'ekiden'`, nothing},
		"it reads what the planner knows":             {`SELECT FROM pg_statistic`, refused},
		"it reads passwords":                          {`SELECT FROM pg_authid`, refused},
		"it reads what others ask":                    {`SELECT FROM pg_stat_activity WHERE usename <> current_user AND query <> '<insufficient privilege>' AND query <> ''`, nothing},
		"it sees when others began":                   {`SELECT FROM pg_stat_activity WHERE usename <> current_user AND xact_start IS NOT NULL`, nothing},
		"it ends another's connection":                {`SELECT pg_terminate_backend({their backend})`, refused},
		"it ends the manager's connection":            {`SELECT pg_terminate_backend({manager's backend})`, refused},
		"it cancels another's statement":              {`SELECT pg_cancel_backend({their backend})`, refused},
		"it keeps a lock beyond its connection":       {`BEGIN; UPDATE ekiden.claims SET beat = now(); PREPARE TRANSACTION 'x'`, disabled},
		"it changes the server":                       {`ALTER SYSTEM SET fsync = off`, refused},
		"it reads the settings of the server's files": {`SHOW hba_file`, refused},
		"it ends the server's log":                    {`SELECT pg_rotate_logfile()`, refused},
		"it forges what the manager measures time by": {`SET ekiden.now = '2000-01-01'; SELECT FROM ekiden.claims WHERE namespace_uid = '{theirs}'`, nothing},
		"it calls itself somebody else":               {`SET application_name = 'ekiden-manager'; SELECT FROM ekiden.claims WHERE namespace_uid = '{theirs}'`, nothing},
		"it defers what is checked":                   {`SET CONSTRAINTS ALL DEFERRED; INSERT INTO ekiden.usage (run_uid, namespace_uid, turn, try, generation, input, cache_read, output, estimated, cost_micros) SELECT '{theirs}', namespace_uid, 9, 1, 0, 0, 0, 0, false, 0 FROM ekiden.claims LIMIT 1`, reference},
		"it switches triggers and keys off":           {`SET session_replication_role = replica`, refused},
		"it stops the tables' upkeep":                 {`REINDEX TABLE ekiden.claims`, refused},
		"it gives a role that is none":                {`SET ROLE none_such`, unknownRole},
	} {
		conn := pgtest.Connect(t, w.tenant)
		results, err := conn.PgConn().Exec(t.Context(), names.Replace(a.try)).ReadAll()
		var said *pgconn.PgError
		switch {
		case errors.As(err, &said):
			if said.Code != a.says {
				t.Errorf("%s: %v, want %s", sentence, said, a.says)
			}
		case err != nil || a.says != nothing:
			t.Errorf("%s: got error %v, want %s", sentence, err, a.says)
		default:
			if n := results[len(results)-1].CommandTag.RowsAffected(); n != 0 {
				t.Errorf("%s: it has %d rows", sentence, n)
			}
		}
	}
}

// TestEveryTableIsClosed asks the database itself which tables there are, so that none is forgotten, and what may be written of each.
func TestEveryTableIsClosed(t *testing.T) {
	t.Parallel()
	w, v := newWorld(t), newWorld(t)
	w.furnish(t)
	v.furnish(t)
	conn := pgtest.Connect(t, w.tenant)
	list := func(sql string) []string {
		t.Helper()
		rows, err := w.super.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	closed := 0
	for _, table := range list(`SELECT tablename::text FROM pg_tables WHERE schemaname = 'ekiden'`) {
		var foreign int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM ekiden.`+table+` WHERE namespace_uid <> $1`, w.namespace).Scan(&foreign)
		var said *pgconn.PgError
		if errors.As(err, &said) && (said.Code == refused || said.Code == "42703") { // no such column: tables of the migrations have none
			_, err := conn.Exec(t.Context(), `SELECT FROM ekiden.`+table)
			if errors.As(err, &said) && said.Code == refused {
				closed++
			} else { // of some of its columns something may be read: of the namespace's own runs
				err = conn.QueryRow(t.Context(), `SELECT count(*) FROM ekiden.`+table+` a WHERE NOT EXISTS (SELECT FROM ekiden.runs r WHERE r.run_uid = a.run_uid)`).Scan(&foreign)
				if err != nil || foreign != 0 {
					t.Errorf("%s shows %d rows of others, error %v", table, foreign, err)
				}
			}
		} else if err != nil || foreign != 0 {
			t.Errorf("%s shows %d rows of others, error %v", table, foreign, err)
		}
		for _, sql := range []string{`DELETE FROM ekiden.` + table, `TRUNCATE ekiden.` + table} {
			if _, err := conn.Exec(t.Context(), sql); !errors.As(err, &said) || said.Code != refused {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
	if closed < 3 {
		t.Errorf("only %d tables are closed altogether", closed)
	}
	if open := list(`SELECT relname::text FROM pg_class WHERE relnamespace = 'ekiden'::regnamespace AND relkind = 'r' AND NOT relrowsecurity AND has_table_privilege('ekiden_tenant', oid, 'SELECT')`); len(open) != 0 {
		t.Errorf("without row-level security: %v", open)
	}
	if functions := list(`SELECT proname::text FROM pg_proc WHERE pronamespace = 'ekiden'::regnamespace AND prosecdef`); len(functions) != 0 {
		t.Errorf("functions that run as their owner: %v", functions)
	}
	may := map[string]bool{}
	for _, right := range list(`SELECT DISTINCT privilege_type || ' ' || table_name FROM information_schema.column_privileges WHERE grantee = 'ekiden_tenant' AND table_schema = 'ekiden' AND privilege_type <> 'SELECT'`) {
		may[right] = true
	}
	want := []string{"INSERT calls", "INSERT contracts", "INSERT outcomes", "INSERT transcript", "INSERT usage", "UPDATE calls", "UPDATE claims"}
	if got := slices.Sorted(maps.Keys(may)); !slices.Equal(got, want) {
		t.Errorf("a login may %v", got)
	}
}

// TestMigrationsDoNotWaitForAdvisoryLocks which anybody may take: here the one that the tool for migrations would take by itself.
func TestMigrationsDoNotWaitForAdvisoryLocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := pgtest.Connect(t, w.tenant).Exec(t.Context(), `SELECT pg_advisory_lock(4097083626)`); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), w.Manager); err != nil {
		t.Error(err)
	}
}
