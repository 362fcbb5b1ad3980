package command

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/kubeletnode"
	"github.com/ekiden-dev/ekiden/hack/devcluster/processnode"
)

// The commands by which the supervisor starts the nodes. People have no use for them.

func processNodeCommand() *cobra.Command {
	var path string
	var config processnode.Config
	command := &cobra.Command{
		Use:    "process-node --dir DIRECTORY --port PORT --pod-net OCTET",
		Short:  "Be the node that runs pods as processes",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := cluster.Open(path)
			if err != nil {
				return err
			}
			config.Dir = dir
			return processnode.Run(command.Context(), config)
		},
	}
	dirFlag(command, &path)
	command.Flags().IntVar(&config.Port, "port", 0, "loopback `PORT` for logs")
	command.Flags().IntVar(&config.PodNet, "pod-net", 0, "`OCTET` of the pods' addresses, 127.OCTET.x.y")
	_ = command.MarkFlagRequired("port")
	_ = command.MarkFlagRequired("pod-net")
	return command
}

func kubeletNodeCommand() *cobra.Command {
	var path string
	var config kubeletnode.Config
	var booted bool
	command := &cobra.Command{
		Use:    "kubelet-node --dir DIRECTORY --pod-net OCTET",
		Short:  "Be the node that is a kubelet",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := cluster.Open(path)
			if err != nil {
				return err
			}
			config.Dir = dir
			if booted {
				return kubeletnode.Run(command.Context(), config)
			}
			executable, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this binary: %w", err)
			}
			return kubeletnode.Boot(executable, slices.Concat(os.Args[1:], []string{"--booted"})...)
		},
	}
	dirFlag(command, &path)
	command.Flags().IntVar(&config.Net, "pod-net", 0, "`OCTET` of the node's addresses")
	command.Flags().BoolVar(&booted, "booted", false, "what the first process of the node calls the rest by")
	_ = command.MarkFlagRequired("pod-net")
	return command
}
