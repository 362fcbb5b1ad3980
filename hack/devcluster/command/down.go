package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/kubeletnode"
	"github.com/ekiden-dev/ekiden/hack/devcluster/launch"
	"github.com/ekiden-dev/ekiden/hack/devcluster/postgres"
)

// stopPatience is longer than the sum of what the supervisor grants its processes.
const stopPatience = 40 * time.Second

func downCommand() *cobra.Command {
	var path string
	command := &cobra.Command{
		Use:   "down --dir DIRECTORY",
		Short: "Stop a cluster; its directory stays and can be started again",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := cluster.Open(path)
			if err != nil {
				return err
			}
			return down(command.Context(), dir, command.OutOrStdout())
		},
	}
	dirFlag(command, &path)
	return command
}

func down(ctx context.Context, dir cluster.Dir, output io.Writer) error {
	if pid, alive := dir.Supervisor(); alive {
		if err := end(ctx, dir, pid); err != nil {
			return err
		}
		fmt.Fprintln(output, "stopped")
	} else {
		fmt.Fprintln(output, "not running")
	}
	// What a supervisor that was killed could not clear away.
	launch.EndLeftovers(dir.Pods())
	if err := (kubeletnode.Config{Dir: dir}).RemoveCgroup(); err != nil {
		return fmt.Errorf("removing the control groups of pods: %w", err)
	}
	_ = os.Remove(dir.Description())
	_ = os.Remove(dir.PID())
	if err := postgres.RemoveOutside(dir); err != nil {
		return fmt.Errorf("removing Postgres' data outside the directory: %w", err)
	}
	return nil
}

// end asks the supervisor to stop and waits; its children never outlive it.
func end(ctx context.Context, dir cluster.Dir, pid int) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping supervisor %d: %w", pid, err)
	}
	deadline := time.Now().Add(stopPatience)
	for {
		if now, alive := dir.Supervisor(); !alive || now != pid {
			return nil
		}
		if time.Now().After(deadline) {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
