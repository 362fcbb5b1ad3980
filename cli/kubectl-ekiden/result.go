package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/cli/session/postgres"
	"github.com/ekiden-dev/ekiden/cli/terminal"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

func (p program) result(f *clusterFlags) *cobra.Command {
	var (
		pg    postgresFlags
		wait  bool
		bound time.Duration
	)
	cmd := &cobra.Command{
		Use:   "result RUN",
		Short: "Print the whole result of a run, and nothing else",
		Long: `Prints the whole result of a run to standard output, and nothing else; everything else goes to standard error.

A result that the run's status shows whole is taken from there. A longer one is read from Postgres and compared with the
digest in the status. To a file or pipe the result goes byte by byte; a terminal is spared its control sequences.

` + exitCodes,
		Example: `  kubectl ekiden result triage-4711 > answer.md
  kubectl ekiden result triage-4711 --wait --timeout 10m`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := p.connect(p, *f)
			if err != nil {
				return err
			}
			run, err := c.run(cmd.Context(), names[0])
			if err != nil {
				return err
			}
			if wait {
				if run, err = c.finish(cmd.Context(), run, bound); err != nil {
					return err
				}
			}
			if err := verdict(run); err != nil {
				return err
			}
			text, err := p.whole(cmd.Context(), c, pg, run)
			if err != nil {
				return err
			}
			if why := run.Status.Result.PartialReason; why != "" {
				fmt.Fprintf(p.Err, "The result is partial: %s\n", terminal.Line(standing(run)))
			}
			return p.printResult(text)
		},
	}
	pg.bind(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the run has finished")
	cmd.Flags().DurationVar(&bound, "timeout", 0, "how long --wait waits, such as 10m; 0 means for ever")
	return cmd
}

// verdict is an error for a run that has no result to show, with the exit code that says why.
func verdict(run *v1alpha1.AgentRun) error {
	switch stateOf(run) {
	case succeeded:
		return nil
	case cancelled:
		return exitf(exitCancelled, "run %s was cancelled: it has no result", run.Name)
	case failed:
		code, message := run.Status.Error.Code, run.Status.Error.Message
		todo := ""
		if r := remedies[code]; r != "" {
			todo = "\nWhat to do: " + r
		}
		if of := run.Status.DuplicateOf.Name; of != "" {
			todo += "\nThe other run: " + of
		}
		return exitf(exitFailed, "run %s failed: %s: %s%s", run.Name, code, message, todo)
	default:
		return exitf(exitUnfinished, "run %s has not finished: %s\nWait for it with --wait", run.Name, standing(run))
	}
}

// whole is the result, from the status if it is whole there, else from Postgres, and the one that the status vouches for.
func (p program) whole(ctx context.Context, c *cluster, f postgresFlags, run *v1alpha1.AgentRun) (string, error) {
	r := run.Status.Result
	text := r.Text
	if r.Completeness == v1alpha1.Truncated {
		from, err := p.source(ctx, c, f)
		if err != nil {
			return "", fmt.Errorf("the status shows only the beginning of the result (%d bytes): %w", r.Bytes, err)
		}
		if text, err = postgres.Result(ctx, from.dsn, run.UID); err != nil {
			return "", fmt.Errorf("the status shows only the beginning of the result (%d bytes); reading the rest: %w", r.Bytes, from.explain(c.Namespace, err))
		}
	}
	if got := contract.Digest([]byte(text)); r.Digest != "" && got != r.Digest {
		return "", fmt.Errorf("the stored result is not the one that the run ended with: its digest is %s, the status says %s. "+
			"Another database, or somebody has changed one of them", got, r.Digest)
	}
	return text, nil
}

func (p program) printResult(text string) error {
	if onTerminal(p.Out) {
		text = terminal.Clean(text)
		if text == "" || text[len(text)-1] != '\n' {
			text += "\n"
		}
	}
	_, err := io.WriteString(p.Out, text)
	return err
}

func onTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	is, err := file.Stat()
	return err == nil && is.Mode()&os.ModeCharDevice != 0
}
