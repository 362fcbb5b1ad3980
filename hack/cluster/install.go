package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// ManagerNamespace is where config/ puts the manager.
	ManagerNamespace = "ekiden-system"
	managerLogin     = "ekiden_manager"
	database         = "ekiden"
)

// Install installs Ekiden as any user does: with Helm on a kubelet's node, with kubectl on others. It waits until the manager is
// available and runs can be created.
func (c *Cluster) Install(ctx context.Context) error {
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	apply := c.applied
	if c.Node == NodeKubelet {
		apply = c.charted
	}
	if err := apply(ctx); err != nil {
		return err
	}
	for _, wait := range [][]string{
		{"wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/name=ekiden", "--timeout=60s"},
		{"-n", ManagerNamespace, "rollout", "status", "deployment/ekiden-manager", "--timeout=120s"},
	} {
		if _, err := c.Kubectl(ctx, wait...); err != nil {
			return err
		}
	}
	return c.admitting(ctx)
}

func (c *Cluster) applied(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "apply", "-k", filepath.Join(c.Repo, "config", "devcluster"))
	return err
}

func (c *Cluster) charted(ctx context.Context) error {
	_, err := c.Helm(ctx, "install", "ekiden", filepath.Join(c.Repo, "charts", "ekiden"),
		"--set", "manager.image.repository=ekiden/manager", "--set", "manager.image.tag=dev",
		"--set", "segment.image.repository=ekiden/segment", "--set", "segment.image.tag=dev")
	return err
}

// Helm runs Helm in the manager's namespace and returns what it prints.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Repo, "bin", "helm"), append(args, "--kubeconfig", c.Kubeconfig(), "--namespace", ManagerNamespace)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("helm %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// probe is a run that is never stored.
const probe = `{"apiVersion": "ekiden.dev/v1alpha1", "kind": "AgentRun", "metadata": {"name": "probe", "namespace": "default"},
"spec": {"definitionRef": {"kind": "AgentDefinition", "name": "probe"}, "input": {"text": "probe"}}}`

// admittingWithin is how long admission may take to learn about a kind that is new.
const admittingWithin = time.Minute

// admitting waits until runs can be created: the policy that stamps them refuses all with ServiceUnavailable for some
// seconds after the kind was made, because the API server looks for new schemas only now and then.
func (c *Cluster) admitting(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, admittingWithin)
	defer cancel()
	for {
		_, err := c.KubectlIn(ctx, probe, "create", "--dry-run=server", "-f", "-")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no run can be created: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// database makes the manager's login and database and is the DSN. The login may create roles and is no superuser.
func (c *Cluster) database(ctx context.Context) (string, error) {
	d, err := c.Describe()
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, d.Postgres.SuperuserDSN)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to lose
	password := rand.Text()
	exists := false
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", managerLogin).Scan(&exists); err != nil {
		return "", err
	}
	statements := []string{
		"CREATE ROLE " + managerLogin + " LOGIN CREATEROLE PASSWORD '" + password + "'",
		"CREATE DATABASE " + database + " OWNER " + managerLogin,
	}
	if exists { // a cluster that was kept: the password is not, so it gets another one
		statements = []string{"ALTER ROLE " + managerLogin + " PASSWORD '" + password + "'"}
	}
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return "", err
		}
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(managerLogin, password), Path: database, RawQuery: "sslmode=disable",
		Host: net.JoinHostPort(d.Postgres.Host, strconv.Itoa(d.Postgres.Port)),
	}
	return u.String(), nil
}
