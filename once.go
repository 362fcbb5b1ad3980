package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/install"
	ledgerpostgres "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
)

// pause lies between two looks at what somebody waits for.
const pause = 500 * time.Millisecond

// once are the settings of commands that do one thing and end.
type once struct {
	namespace  string
	deployment string
	timeout    time.Duration
}

func (o *once) register(cmd *cobra.Command, timeout time.Duration) {
	cmd.Args, cmd.SilenceUsage = cobra.NoArgs, true
	cmd.Flags().StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the manager's own namespace; defaults to POD_NAMESPACE")
	cmd.Flags().DurationVar(&o.timeout, "timeout", timeout, "how long to wait for what is not so yet")
}

// bounded is the context and the access of a command that ends by itself.
func (o *once) bounded(cmd *cobra.Command) (context.Context, context.CancelFunc, client.Client, error) {
	if o.namespace == "" {
		return nil, nil, nil, errors.New("--namespace is missing and POD_NAMESPACE is not set")
	}
	scheme, err := scheme()
	if err != nil {
		return nil, nil, nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	return ctx, cancel, c, nil
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

func uninstallCommand() *cobra.Command {
	var o once
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the manager and let go of all runs, so that what is deleted next goes",
		Long: `Scales the manager's Deployment to 0, waits until nobody holds the manager's lease, and takes Ekiden's finalizer off
every run. Without it, a run that is deleted after the manager is gone would stay for ever, and its namespace with it.

Nothing is deleted. Runs and the data in Postgres stay; a pod that works goes on until its segment has ended. A manager
that is installed again takes up every run where it stands. It may be run again after a failure.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel, c, err := o.bounded(cmd)
			if err != nil {
				return err
			}
			defer cancel()
			return install.Uninstall{Namespace: o.namespace, Deployment: o.deployment, Say: say(cmd.OutOrStdout()), Pause: pause}.Run(ctx, c)
		},
	}
	o.register(cmd, 2*time.Minute)
	cmd.Flags().StringVar(&o.deployment, "deployment", "ekiden-manager", "the manager's Deployment; empty if the manager was stopped otherwise")
	return cmd
}

func checkCommand(dsnFile *string) *cobra.Command {
	var o once
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look whether all that Ekiden needs is in place",
		Long: `Looks at Postgres, the kinds, the admission policies and the manager's lease, and prints a line each. What is not in
place is looked at again until the timeout: policies that were just applied take some seconds. Nothing is changed. The exit
code is 1 if something is missing.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel, c, err := o.bounded(cmd)
			if err != nil {
				return err
			}
			defer cancel()
			dsn, err := readDSN(*dsnFile)
			if err != nil {
				return err
			}
			fit := func(ctx context.Context) (string, error) {
				if why, err := ledgerpostgres.Fit(ctx, dsn); why != "" || err != nil {
					return why, err
				}
				return "", postgres.CheckSchema(ctx, dsn)
			}
			if err := (install.Check{Namespace: o.namespace, Database: fit, Say: say(cmd.OutOrStdout()), Pause: pause}).Run(ctx, c); err != nil {
				return errors.New("something is missing, as said above")
			}
			return nil
		},
	}
	o.register(cmd, time.Minute)
	return cmd
}

// say writes a line to a person.
func say(out io.Writer) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
}
