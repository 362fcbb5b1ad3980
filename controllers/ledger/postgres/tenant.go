package postgres

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
)

const (
	// tenants is the role whose members logins are; the migrations make it.
	tenants = "ekiden_tenant"

	// connectionLimit is for all pods of a namespace together.
	connectionLimit = 200
)

// settings of a login. A process that is paused or mad must not hold a lock for longer.
var settings = [][2]string{
	{"statement_timeout", "10s"},
	{"lock_timeout", "5s"},
	{"idle_in_transaction_session_timeout", "10s"},
}

var loginPattern = regexp.MustCompile(`^ekiden_[0-9a-f]{32}(_[ab])?$`)

// Provision makes sure that the namespace's login exists with the password. If it does, that is one read.
func (l *Ledger) Provision(ctx context.Context, t ledger.Tenant) error {
	if err := l.provision(ctx, t); err != nil {
		return fmt.Errorf("provisioning the login of namespace %s: %w", t.Namespace, err)
	}
	return nil
}

func (l *Ledger) provision(ctx context.Context, t ledger.Tenant) error {
	login := t.Login()
	if !loginPattern.MatchString(login) {
		return fmt.Errorf("%q is not the UID of a namespace", t.NamespaceUID)
	}
	if err := t.CheckPassword(); err != nil {
		return err
	}
	secret, err := verifier(t.Password)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(t.Password))
	password := hex.EncodeToString(sum[:])

	// The role is looked for as well: a backup of the database does not hold it.
	var b pgx.Batch
	done := false
	b.Queue(`
SELECT EXISTS (SELECT FROM ekiden.tenants WHERE namespace_uid = $1 AND namespace = $2 AND password_sum = $3 AND slot = $6)
  AND EXISTS (SELECT FROM pg_roles WHERE rolname = $4 AND rolcanlogin AND pg_has_role(oid, $5, 'MEMBER'))`,
		t.NamespaceUID, t.Namespace, password, login, tenants, string(t.Slot)).QueryRow(known(&done))
	if err := l.send(ctx, &b); err != nil || done {
		return err
	}
	return l.transact(ctx, func(tx pgx.Tx) error {
		// The row is the lock under which managers take turns.
		if _, err := tx.Exec(ctx, `
INSERT INTO ekiden.tenants AS t (namespace_uid, namespace, password_sum, slot) VALUES ($1, $2, $3, $4)
ON CONFLICT (namespace_uid) DO UPDATE SET namespace = excluded.namespace, password_sum = excluded.password_sum, slot = excluded.slot,
  slot_since = CASE WHEN t.slot = excluded.slot THEN t.slot_since ELSE now() END, retiring = t.retiring OR t.slot <> excluded.slot`,
			t.NamespaceUID, t.Namespace, password, string(t.Slot)); err != nil {
			return err
		}
		there, err := find(ctx, tx, []string{login})
		if err != nil {
			return err
		}
		verb, role := "CREATE", pgx.Identifier{login}.Sanitize()
		if len(there) > 0 {
			verb = "ALTER"
		}
		// The verifier is of base64 and $, so it needs no escaping; the password itself never gets into a statement or a log.
		for _, sql := range append([]string{
			fmt.Sprintf("%s ROLE %s LOGIN CONNECTION LIMIT %d PASSWORD '%s'", verb, role, connectionLimit, secret),
			fmt.Sprintf("GRANT %s TO %s", tenants, role),
		}, configure(ctx, tx, role)...) {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

func configure(ctx context.Context, tx pgx.Tx, role string) []string {
	all := settings
	var number int
	// Since Postgres 17 a transaction as a whole can be bounded.
	if err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&number); err == nil && number >= 170000 {
		all = append(all[:len(all):len(all)], [2]string{"transaction_timeout", "20s"})
	}
	var out []string
	for _, kv := range all {
		out = append(out, fmt.Sprintf("ALTER ROLE %s SET %s = '%s'", role, kv[0], kv[1]))
	}
	return out
}

// find tells which of the logins are there.
func find(ctx context.Context, tx pgx.Tx, logins []string) ([]login, error) {
	rows, err := tx.Query(ctx, `SELECT rolname::text FROM pg_roles WHERE rolname = ANY ($1::text[]) ORDER BY rolname`, logins)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (l login, err error) {
		err = row.Scan(&l.name)
		l.role = pgx.Identifier{l.name}.Sanitize()
		return l, err
	})
}

// Tenants lists the namespaces that have a login. Passwords are not known here.
func (l *Ledger) Tenants(ctx context.Context) ([]ledger.Tenant, error) {
	var b pgx.Batch
	var out []ledger.Tenant
	b.Queue(`SELECT namespace, namespace_uid::text, slot, retiring FROM ekiden.tenants ORDER BY since, namespace_uid`).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var t ledger.Tenant
			if err := rows.Scan(&t.Namespace, (*string)(&t.NamespaceUID), (*string)(&t.Slot), &t.Retiring); err != nil {
				return err
			}
			out = append(out, t)
		}
		return rows.Err()
	})
	if err := l.send(ctx, &b); err != nil {
		return nil, fmt.Errorf("listing tenants: %w", err)
	}
	return out, nil
}

// Unprovision drops the logins of a namespace that is gone and ends its unfinished runs. Each step is committed before the
// next one begins: a login that is shut out stays so although a lock, or what it owns elsewhere, delays the rest.
func (l *Ledger) Unprovision(ctx context.Context, namespace types.UID) error {
	if err := l.steps(ctx, namespace, shutOut, endRuns, dropLogins, forget); err != nil {
		return fmt.Errorf("dropping the login of namespace %s: %w", namespace, err)
	}
	return nil
}

// A step is done to a namespace under the lock of its row.
type step func(context.Context, pgx.Tx, tenant) error

func (l *Ledger) steps(ctx context.Context, namespace types.UID, steps ...step) error {
	if !loginPattern.MatchString(ledger.LoginOf(namespace)) {
		return fmt.Errorf("%q is not the UID of a namespace", namespace)
	}
	for _, s := range steps {
		if err := l.transact(ctx, func(tx pgx.Tx) error { return withTenant(ctx, tx, namespace, s) }); err != nil {
			return err
		}
	}
	return nil
}

// tenant is a namespace and those of its logins that exist.
type tenant struct {
	namespace types.UID
	logins    []login
}

// login is the name of a role, and the same as an identifier.
type login struct{ name, role string }

func (n tenant) names() []string {
	names := []string{}
	for _, l := range n.logins {
		names = append(names, l.name)
	}
	return names
}

// withTenant does something while it holds the namespace's row, under which managers take turns.
func withTenant(ctx context.Context, tx pgx.Tx, namespace types.UID, do step) error {
	if _, err := tx.Exec(ctx, `SELECT FROM ekiden.tenants WHERE namespace_uid = $1 FOR UPDATE`, namespace); err != nil {
		return err
	}
	logins, err := find(ctx, tx, ledger.LoginsOf(namespace))
	if err != nil {
		return err
	}
	return do(ctx, tx, tenant{namespace, logins})
}

// join makes the manager a member of the logins' roles: only such a one may end their connections, see since when their
// transactions last, and drop what they own.
func join(ctx context.Context, tx pgx.Tx, n tenant) error {
	for _, l := range n.logins {
		if err := perhaps(ctx, tx, "GRANT "+l.role+" TO CURRENT_USER"); err != nil {
			return err
		}
	}
	return nil
}

// shutOut lets nobody log in any more.
func shutOut(ctx context.Context, tx pgx.Tx, n tenant) error {
	for _, l := range n.logins {
		if err := perhaps(ctx, tx, "ALTER ROLE "+l.role+" NOLOGIN"); err != nil {
			return err
		}
	}
	return nil
}

// cut ends the connections of the logins.
func cut(ctx context.Context, tx pgx.Tx, n tenant) error {
	if err := join(ctx, tx, n); err != nil {
		return err
	}
	return perhaps(ctx, tx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ANY ($1::text[])`, n.names())
}

// endRuns ends the connections of the logins and then the runs: one of them may hold a lock that is needed for it.
func endRuns(ctx context.Context, tx pgx.Tx, n tenant) error {
	if err := cut(ctx, tx, n); err != nil {
		return err
	}
	// In the order of the keys, so that two managers do not wait for each other.
	if _, err := tx.Exec(ctx, `
UPDATE ekiden.claims c SET final_at = now(), generation = generation + 1, holder = NULL, lease_until = NULL
FROM (SELECT run_uid, lane FROM ekiden.claims WHERE namespace_uid = $1 AND final_at IS NULL ORDER BY run_uid, lane FOR NO KEY UPDATE) open
WHERE c.run_uid = open.run_uid AND c.lane = open.lane`, n.namespace); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
UPDATE ekiden.runs SET ended_at = now(), end_phase = $2, end_code = $3, end_message = 'the namespace is gone'
WHERE namespace_uid = $1 AND ended_at IS NULL`, n.namespace, string(v1alpha1.RunCancelled), v1alpha1.ReasonCancelled)
	return err
}

// dropLogins drops the roles.
func dropLogins(ctx context.Context, tx pgx.Tx, n tenant) error {
	for _, l := range n.logins {
		if err := perhaps(ctx, tx, "DROP OWNED BY "+l.role); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DROP ROLE "+l.role)
		if state(err) == dependentsStillThere {
			return fmt.Errorf("%w: %s: as a superuser carry out DROP OWNED BY %s in every other database of this server", ledger.ErrOwns, l.name, l.role)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forget comes last: while the namespace's row is there the next sweep tries again.
func forget(ctx context.Context, tx pgx.Tx, n tenant) error {
	_, err := tx.Exec(ctx, `DELETE FROM ekiden.tenants WHERE namespace_uid = $1`, n.namespace)
	return err
}

// showOutOf ends the connections of the run's namespace whose transactions have lasted for too long.
func (l *Ledger) showOutOf(ctx context.Context, run types.UID) error {
	return l.transact(ctx, func(tx pgx.Tx) error {
		var namespace types.UID
		err := tx.QueryRow(ctx, `SELECT namespace_uid::text FROM ekiden.runs WHERE run_uid = $1`, run).Scan((*string)(&namespace))
		if err != nil {
			return err
		}
		return withTenant(ctx, tx, namespace, l.showOut)
	})
}

// showOut ends the connections of the logins whose transactions have lasted for too long.
func (l *Ledger) showOut(ctx context.Context, tx pgx.Tx, n tenant) error {
	if err := join(ctx, tx, n); err != nil {
		return err
	}
	return perhaps(ctx, tx, `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE usename = ANY ($1::text[]) AND xact_start < clock_timestamp() - $2::bigint * interval '1 ms'`, n.names(), l.overstay.Milliseconds())
}

// perhaps carries out a statement for which the manager may lack the permission.
func perhaps(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	_, err = inner.Exec(ctx, sql, args...)
	if err == nil {
		return inner.Commit(ctx)
	}
	if rolledBack := inner.Rollback(ctx); rolledBack != nil {
		return errors.Join(err, rolledBack)
	}
	if state(err) == insufficient {
		return nil
	}
	return err
}

func (l *Ledger) transact(ctx context.Context, f func(pgx.Tx) error) error {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := pgx.BeginTxFunc(within, l.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(within, impatient); err != nil {
			return err
		}
		return f(tx)
	})
	shed(l.pool, err)
	return interpret(ctx, err)
}

// verifier is what Postgres stores of a password, as of RFC 5803.
func verifier(password string) (string, error) {
	const iterations = 4096
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("hashing the password: %w", err)
	}
	keyed := func(what string) []byte {
		h := hmac.New(sha256.New, salted)
		_, _ = h.Write([]byte(what)) // never fails
		return h.Sum(nil)
	}
	stored := sha256.Sum256(keyed("Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, text(salt), text(stored[:]), text(keyed("Server Key"))), nil
}
