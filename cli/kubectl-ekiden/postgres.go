package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/cli/session"
	"github.com/ekiden-dev/ekiden/cli/session/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// dsnVariable names the environment variable that holds a DSN. Other processes can read flags, not this.
const dsnVariable = "EKIDEN_DSN"

// postgresFlags say where sessions are.
type postgresFlags struct{ dsn, address string }

func (f *postgresFlags) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.dsn, "dsn", "", "DSN of Postgres; empty means "+dsnVariable+", then the key "+contract.PostgresKey+" of the namespace's Secret "+contract.PostgresSecret)
	set.StringVar(&f.address, "postgres-address", "", "host:port to use instead of the address in the Secret, such as localhost:15432 for the near end of kubectl port-forward")
}

// source is a DSN and where it came from.
type source struct {
	dsn string
	// secret is the DSN as the namespace's Secret holds it; empty if it came from elsewhere.
	secret, address string
}

// source finds the DSN for a namespace.
func (p program) source(ctx context.Context, c *cluster, f postgresFlags) (source, error) {
	given, from := f.dsn, "--dsn"
	if given == "" {
		given, from = p.Getenv(dsnVariable), dsnVariable
	}
	if given != "" {
		if f.address != "" {
			return source{}, exitf(exitUsage, "--postgres-address changes the DSN of the Secret, but %s gives another one: leave out one of them", from)
		}
		return source{dsn: given}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	secret := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: contract.PostgresSecret}, secret)
	where := fmt.Sprintf("the Secret %s of namespace %s", contract.PostgresSecret, c.Namespace)
	switch {
	case apierrors.IsNotFound(err):
		return source{}, fmt.Errorf("%s does not exist: the manager makes it when it admits the first run there. Give a DSN with --dsn or %s if sessions are elsewhere", where, dsnVariable)
	case apierrors.IsForbidden(err):
		return source{}, fmt.Errorf("you may not read %s, and sessions are read with the login it holds: have somebody grant you get on it, or give a DSN with --dsn or %s", where, dsnVariable)
	case err != nil:
		return source{}, c.explain("reading "+where, err)
	}
	s := source{secret: string(secret.Data[contract.PostgresKey]), address: f.address}
	if s.dsn, err = session.Tenant(s.secret, f.address); err != nil {
		return source{}, fmt.Errorf("%s, key %s: %w", where, contract.PostgresKey, err)
	}
	return s, nil
}

// explain says what an error of Postgres means for who asked.
func (s source) explain(namespace string, err error) error {
	switch {
	case errors.Is(err, postgres.ErrNotReached) && s.address != "":
		return fmt.Errorf("%w\nNothing answers at %s: does kubectl port-forward still run there?", err, s.address)
	case errors.Is(err, postgres.ErrNotReached) && s.secret != "":
		return fmt.Errorf("%w\n%s", err, session.Reach(s.secret, namespace))
	case errors.Is(err, postgres.ErrLogin) && s.secret != "":
		return fmt.Errorf("%w\nThe manager may be giving the namespace a new password: try again in a minute", err)
	default:
		return err
	}
}
