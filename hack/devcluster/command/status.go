package command

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/kubeletnode"
)

func statusCommand() *cobra.Command {
	var path string
	command := &cobra.Command{
		Use:   "status --dir DIRECTORY",
		Short: "Say whether a cluster runs; exit 0 when it is ready",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := cluster.Open(path)
			if err != nil {
				return err
			}
			output := command.OutOrStdout()
			if _, alive := dir.Supervisor(); !alive {
				fmt.Fprintln(output, "not running")
				return errNotReady
			}
			description, err := dir.Read()
			if err != nil {
				fmt.Fprintln(output, "starting or stopping; see", dir.Log("supervisor"))
				return errNotReady
			}
			fmt.Fprintf(output, "ready\nserver      %s\nkubeconfig  %s\n", description.Server, description.Kubeconfig)
			if description.Postgres != nil {
				fmt.Fprintf(output, "postgres    %s\n", description.Postgres.SuperuserDSN)
			}
			for _, name := range slices.Sorted(maps.Keys(description.PIDs)) {
				fmt.Fprintf(output, "%8d    %s\n", description.PIDs[name], name)
			}
			return nil
		},
	}
	dirFlag(command, &path)
	return command
}

// checkCommand is for scripts that would rather skip than fail.
func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say whether a kubelet's node can run on this machine, and what it lacks",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return kubeletnode.Check() },
	}
}
