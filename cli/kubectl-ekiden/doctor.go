package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/ekiden-dev/ekiden/cli/doctor"
)

func (p program) doctor(f *clusterFlags) *cobra.Command {
	var (
		all     bool
		manager string
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with an installation",
		Long: `Looks for what is wrong with an installation, and says one line a check:

  ok    nothing is wrong
  warn  somebody should look
  fail  something does not work
  skip  could not be checked, mostly because you may not see it

What is wrong comes with what to do about it. Nothing is changed: runs that are created to see whether admission is in
force are dry runs. The exit code is 1 if a check fails.`,
		Example: `  kubectl ekiden doctor
  kubectl ekiden doctor --all-namespaces
  kubectl ekiden doctor -n support --as dana --as-group support    # what another user would be told`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all && f.namespace != "" {
				return misused(cmd, errors.New("--namespace and --all-namespaces exclude each other"))
			}
			c, err := p.connect(p, *f)
			if err != nil {
				return err
			}
			scope := doctor.Scope{Namespace: c.Namespace, ProbeNamespace: c.Namespace, ManagerNamespace: manager}
			if all {
				scope.Namespace = ""
			}
			now := func() time.Time { return time.Now().Add(c.Skew()) }
			findings := doctor.Judge(doctor.Gather(cmd.Context(), doctor.Cluster{Client: c, Discovery: c.Discovery, Server: c.Server, Now: now}, scope))
			if cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			if err := doctor.Print(p.Out, findings); err != nil {
				return err
			}
			if doctor.Failed(findings) {
				return errSaid
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "look at all namespaces")
	cmd.Flags().StringVar(&manager, "manager-namespace", "ekiden-system", "namespace of the manager")
	return cmd
}
