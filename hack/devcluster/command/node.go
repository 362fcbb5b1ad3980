package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/supervisor"
)

// nodePatience is longer than the supervisor grants a node to stop.
const nodePatience = 20 * time.Second

func nodeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "node start|stop|kill --dir DIRECTORY",
		Short: "Stop the node of a cluster that runs, or pull its plug, and start it again",
		Args:  cobra.NoArgs,
	}
	for wanted, about := range map[string]string{
		supervisor.StartNode: "Start the node that was stopped or killed",
		supervisor.StopNode:  "Stop the node, and with it its pods; the control plane goes on",
		supervisor.KillNode:  "Pull the plug of the node: nothing of it can say goodbye",
	} {
		command.AddCommand(nodeVerb(wanted, about))
	}
	return command
}

func nodeVerb(wanted, about string) *cobra.Command {
	var path string
	command := &cobra.Command{
		Use:   wanted + " --dir DIRECTORY",
		Short: about,
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := cluster.Open(path)
			if err != nil {
				return err
			}
			return bringNode(command.Context(), dir, wanted)
		},
	}
	dirFlag(command, &path)
	return command
}

// bringNode tells the supervisor what is wanted and waits until it is so. A node that is started need not be Ready yet.
func bringNode(ctx context.Context, dir cluster.Dir, wanted string) error {
	pid, alive := dir.Supervisor()
	description, err := dir.Read()
	if !alive || err != nil {
		return errors.New("the cluster does not run")
	}
	if description.Node == nil {
		return errors.New("the cluster has no node")
	}
	if err := os.WriteFile(dir.NodeWanted(), []byte(wanted+"\n"), 0o600); err != nil {
		return fmt.Errorf("saying what is wanted: %w", err)
	}
	if err := syscall.Kill(pid, supervisor.NodeSignal); err != nil {
		return fmt.Errorf("telling supervisor %d: %w", pid, err)
	}
	state := cluster.NodeStopped
	if wanted == supervisor.StartNode {
		state = cluster.NodeRunning
	}
	ctx, cancel := context.WithTimeout(ctx, nodePatience)
	defer cancel()
	for {
		description, err := dir.Read()
		if err == nil && description.Node.State == state && (description.PIDs["node"] != 0) == (state == cluster.NodeRunning) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the node is not %s; see %s", state, dir.Log("node"))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
