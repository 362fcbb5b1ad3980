package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/kubeletnode"
	"github.com/ekiden-dev/ekiden/hack/devcluster/supervisor"
)

func upCommand() *cobra.Command {
	var flags clusterFlags
	command := &cobra.Command{
		Use:   "up --dir DIRECTORY",
		Short: "Start a cluster in the background and wait until it is ready",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			options, err := flags.options()
			if err != nil {
				return err
			}
			return up(command.Context(), options, command.OutOrStdout())
		},
	}
	flags.register(command)
	return command
}

func up(ctx context.Context, options supervisor.Options, output io.Writer) error {
	if err := options.Dir.Create(); err != nil {
		return err
	}
	if pid, alive := options.Dir.Supervisor(); alive {
		if err := options.Dir.AddImages(options.Images); err != nil {
			return err
		}
		fmt.Fprintf(output, "already running (supervisor %d)\n", pid)
		if err := untilReady(ctx, options.Dir); err != nil {
			return err
		}
		return load(ctx, options.Dir)
	}
	if options.Node == cluster.KubeletNode {
		if err := kubeletnode.Check(); err != nil {
			return err
		}
	}
	// A description left by a supervisor that was killed would look like readiness.
	_ = os.Remove(options.Dir.Description())

	log, err := os.OpenFile(options.Dir.Log("supervisor"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the supervisor's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	detached, err := detach(options, log)
	if err != nil {
		return err
	}
	return follow(ctx, options.Dir, detached, output)
}

// load gives a kubelet's node that runs the images; a process node reads them for each container.
func load(ctx context.Context, dir cluster.Dir) error {
	description, err := dir.Read()
	if err != nil {
		return err
	}
	if description.Node == nil || description.Node.Containerd == "" {
		return nil
	}
	return kubeletnode.Config{Dir: dir}.Import(ctx, description.Node.Containerd)
}

// detach starts `run` in a session of its own, so it outlives this terminal.
func detach(options supervisor.Options, log *os.File) (*exec.Cmd, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this binary: %w", err)
	}
	arguments := []string{"run", "--dir", string(options.Dir)}
	for name, binary := range options.Images {
		arguments = append(arguments, "--image", name+"="+binary)
	}
	if options.Node == "" {
		arguments = append(arguments, "--no-node")
	} else {
		arguments = append(arguments, "--node", options.Node)
	}
	if !options.Postgres {
		arguments = append(arguments, "--no-postgres")
	}
	detached := exec.Command(executable, arguments...)
	detached.Stdout, detached.Stderr = log, log
	detached.Dir = string(options.Dir) // Not where we happen to be: that folder may go.
	detached.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := detached.Start(); err != nil {
		return nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	return detached, nil
}

// follow shows what the supervisor says until the cluster is ready or it ended.
func follow(ctx context.Context, dir cluster.Dir, detached *exec.Cmd, output io.Writer) error {
	progress, err := os.Open(dir.Log("supervisor"))
	if err != nil {
		return err
	}
	defer func() { _ = progress.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- detached.Wait() }()

	for {
		_, readErr := dir.Read()
		_, _ = io.Copy(output, progress) // What has been written since.
		if readErr == nil {
			return nil
		}
		select {
		case <-ended:
			_, _ = io.Copy(output, progress)
			return errors.New("the cluster did not start")
		case <-ctx.Done():
			_ = detached.Process.Signal(syscall.SIGTERM)
			<-ended
			return errors.New("interrupted")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// untilReady waits for a cluster somebody else is starting.
func untilReady(ctx context.Context, dir cluster.Dir) error {
	for {
		if _, err := dir.Read(); err == nil {
			return nil
		}
		if _, alive := dir.Supervisor(); !alive {
			return errors.New("the cluster did not start")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
