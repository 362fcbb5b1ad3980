package command

import (
	"github.com/spf13/cobra"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/processnode"
)

func nodeCommand() *cobra.Command {
	var path string
	var config processnode.Config
	command := &cobra.Command{
		Use:   "node --dir DIRECTORY --port PORT --pod-net OCTET",
		Short: "Be the node that runs pods as processes (normally started by run)",
		Args:  cobra.NoArgs,
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
