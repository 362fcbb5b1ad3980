package postgres

import (
	"context"
	"fmt"
	"strings"
)

// oldest is the oldest major version of Postgres that the suites have passed on.
const oldest = 15

// Fit says what keeps a database from carrying a ledger, and the cure, or nothing. It changes nothing, and does not look at the
// schema, which is not the manager's alone. Errors: ledger.ErrUnavailable.
func Fit(ctx context.Context, dsn string) (why string, err error) {
	l, err := Open(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer l.Close()
	var login, database string
	var major int
	var makesRoles, makesSchemas bool
	err = l.pool.QueryRow(ctx, `SELECT current_user, current_database(), current_setting('server_version_num')::int / 10000,
(SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user), has_database_privilege(current_database(), 'CREATE')`).
		Scan(&login, &database, &major, &makesRoles, &makesSchemas)
	if err != nil {
		return "", interpret(ctx, err)
	}
	var wrong []string
	if major < oldest {
		wrong = append(wrong, fmt.Sprintf("it is Postgres %d, the oldest supported is %d", major, oldest))
	}
	if !makesRoles {
		wrong = append(wrong, fmt.Sprintf("the login %s may not make a login for each namespace: ALTER ROLE %s CREATEROLE", login, login))
	}
	if !makesSchemas {
		wrong = append(wrong, fmt.Sprintf("the login %s may not make a schema: ALTER DATABASE %s OWNER TO %s", login, database, login))
	}
	return strings.Join(wrong, "; "), nil
}
