// Command kubectl-ekiden is the kubectl plugin of Ekiden: it prints sessions and results of runs, decides on tool calls,
// cancels runs, and looks for what is wrong with an installation.
//
// Kubectl finds it by its name anywhere in PATH, and runs it as kubectl ekiden.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// version is set when a release is built.
var version = "dev"

func main() {
	// What the library would log is said in errors, in words of our own.
	logf.SetLogger(logr.Discard())

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends the process at once
	}()
	os.Exit(execute(ctx, program{Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, connect: connect}, os.Args[1:]))
}

// program is what the commands share: where they print, and how they come to a cluster.
type program struct {
	Out, Err io.Writer
	Getenv   func(string) string
	connect  func(p program, f clusterFlags) (*cluster, error)
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, p program, arguments []string) int {
	root := p.root() //nolint:contextcheck // Commands get theirs from ExecuteContext.
	root.SetArgs(arguments)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	return p.conclude(ctx, root.ExecuteContext(ctx))
}

func (p program) root() *cobra.Command {
	root := &cobra.Command{
		Use:         "kubectl-ekiden",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl ekiden"},
		Short:       "Read sessions and results of agent runs, decide on tool calls, cancel runs, check an installation",
		Long: `Reads sessions and results of agent runs, decides on tool calls, cancels runs, and checks an installation of Ekiden.

Everything else is plain kubectl: apply an AgentRun to start it, and watch it with kubectl get agentruns --watch.

` + exitCodes,
		Example: `  kubectl ekiden result triage-4711 --wait
  kubectl ekiden transcript triage-4711
  kubectl ekiden approvals
  kubectl ekiden approve triage-4711-1f3a9c0d-t3c0-gate
  kubectl ekiden cancel triage-4711
  kubectl ekiden doctor --all-namespaces`,
		Version:       version,
		Args:          usage(cobra.NoArgs),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f clusterFlags
	f.bind(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misused(cmd, err) })
	root.AddCommand(p.transcript(&f), p.result(&f), p.approvals(&f), p.approve(&f), p.deny(&f), p.resolve(&f), p.cancel(&f), p.doctor(&f))
	return root
}
