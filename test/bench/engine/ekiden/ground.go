package ekiden

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	manager "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/test/bench/machine"
	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// Ground is a migrated database with the two logins of production: the manager's, which is no superuser, and that of a namespace.
type Ground struct {
	Postgres  *machine.Postgres
	Database  string
	namespace types.UID
	manager   string
	tenant    string
}

// allowed is the policy of the bench. Without one each call that writes would wait for a person.
var allowed = contract.PolicySet{Sources: []contract.PolicySource{{Namespace: "bench", Name: "default", Rules: []v1alpha1.PolicyRule{{
	Name: "act", Match: v1alpha1.PolicyMatch{Tools: []string{"world/" + world.Tool}}, Action: v1alpha1.PolicyAllow,
}}}}}

// Prepare makes the ground.
func Prepare(ctx context.Context, p *machine.Postgres, database string) (*Ground, error) {
	if _, err := p.Database(ctx, database); err != nil {
		return nil, err
	}
	login := "manager_" + database
	if err := p.Exec(
		ctx, database, fmt.Sprintf("CREATE ROLE %s LOGIN CREATEROLE PASSWORD 'bench'", login),
		fmt.Sprintf("ALTER DATABASE %s OWNER TO %s", database, login), "DO $$ BEGIN CREATE ROLE ekiden_tenant; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
		fmt.Sprintf("GRANT ekiden_tenant TO %s WITH ADMIN OPTION", login),
	); err != nil {
		return nil, fmt.Errorf("making the manager's login: %w", err)
	}
	g := &Ground{Postgres: p, Database: database, namespace: types.UID(uuid.NewString()), manager: p.DSN(database, login, "bench")}
	if err := postgres.Migrate(ctx, g.manager); err != nil {
		return nil, err
	}
	l, err := manager.Open(ctx, g.manager)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	t := ledger.Tenant{Namespace: "bench", NamespaceUID: g.namespace, Password: "bench"}
	g.tenant = p.DSN(database, t.Login(), t.Password)
	if err := l.Provision(ctx, t); err != nil {
		return nil, err
	}
	return g, l.Project(ctx, g.namespace, allowed)
}
