// Package command is the command line of devcluster.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/supervisor"
)

// errNotReady makes `status` fail without saying more than it has printed.
var errNotReady = errors.New("not ready")

// Execute runs the command line and returns the exit code.
func Execute(components []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	// The components have put flags of theirs here, which cobra would show as ours.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
	root := &cobra.Command{
		Use:   "devcluster",
		Short: "A Kubernetes cluster of local processes, for development and tests",
		Long: "A Kubernetes cluster of local processes, for development and tests.\n\n" +
			"With the name of a component as first argument, or called by that name,\n" +
			"it is that component: " + strings.Join(components, ", ") + ".",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), upCommand(), downCommand(), statusCommand(), nodeCommand(), checkCommand(), processNodeCommand(), kubeletNodeCommand())
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNotReady):
		return 1
	default:
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		return 1
	}
}

// clusterFlags are those of `run` and `up`.
type clusterFlags struct {
	dir        string
	images     []string
	node       string
	noNode     bool
	noPostgres bool
}

func (f *clusterFlags) register(command *cobra.Command) {
	dirFlag(command, &f.dir)
	flags := command.Flags()
	flags.StringArrayVar(&f.images, "image", nil, "`NAME=FILE`: pods of this image run that binary; for a kubelet, an archive with the image (repeatable)")
	flags.StringVar(&f.node, "node", cluster.ProcessNode, "`KIND` of the node: process (pods are processes of this machine) or kubelet (wants root and containerd)")
	flags.BoolVar(&f.noNode, "no-node", false, "start no node: pods stay Pending")
	flags.BoolVar(&f.noPostgres, "no-postgres", false, "start no PostgreSQL")
}

func (f *clusterFlags) options() (supervisor.Options, error) {
	dir, err := cluster.Open(f.dir)
	if err != nil {
		return supervisor.Options{}, err
	}
	images, err := cluster.ParseImages(f.images)
	if err != nil {
		return supervisor.Options{}, err
	}
	switch {
	case f.node != cluster.ProcessNode && f.node != cluster.KubeletNode:
		return supervisor.Options{}, fmt.Errorf("--node is %s or %s, not %q", cluster.ProcessNode, cluster.KubeletNode, f.node)
	case f.noNode:
		f.node = ""
	}
	return supervisor.Options{Dir: dir, Images: images, Node: f.node, Postgres: !f.noPostgres}, nil
}

func dirFlag(command *cobra.Command, dir *string) {
	command.Flags().StringVar(dir, "dir", "", "`DIRECTORY` everything of the cluster is in")
	_ = command.MarkFlagRequired("dir")
}

func runCommand() *cobra.Command {
	var flags clusterFlags
	command := &cobra.Command{
		Use:   "run --dir DIRECTORY",
		Short: "Run a cluster in the foreground until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			options, err := flags.options()
			if err != nil {
				return err
			}
			return supervisor.Run(command.Context(), options)
		},
	}
	flags.register(command)
	return command
}
