package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/cli/session"
	"github.com/ekiden-dev/ekiden/cli/session/postgres"
)

func (p program) transcript(f *clusterFlags) *cobra.Command {
	var (
		pg          postgresFlags
		output, uid string
	)
	cmd := &cobra.Command{
		Use:   "transcript RUN",
		Short: "Print the session of a run: the task, each turn and its calls, and how its segments ended",
		Long: `Prints the session of a run: the task, each turn's answer with its tokens and cost, tries that failed, and how each
segment ended. Of each tool call it tells who approved it, whether it was sent, what came of it, and the beginning of what the
model read. A call that waited for people is told in the segment that went on with it, and each decision by its time.

Sessions are in Postgres. They are read with the login of the run's namespace, which sees that namespace alone. Text is
shown without control sequences; -o json holds it as it was written.`,
		Example: `  kubectl ekiden transcript triage-4711
  kubectl ekiden transcript triage-4711 -o json | jq '.segments[].steps[].answered.text'
  kubectl ekiden transcript triage-4711 -o json | jq '.segments[].steps[].calls[]? | {tool, approvedBy, result}'
  kubectl port-forward -n databases service/postgres 15432:5432 &
  kubectl ekiden transcript triage-4711 --postgres-address localhost:15432
  kubectl ekiden transcript --uid 0f2b6d1e-5a0b-4f5e-9d55-1f4f3b8f0a11   # of a run whose object is gone`,
		Args: func(cmd *cobra.Command, given []string) error {
			if uid != "" {
				return usage(cobra.NoArgs)(cmd, given)
			}
			return usage(cobra.ExactArgs(1))(cmd, given)
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			if output != "text" && output != "json" {
				return misused(cmd, fmt.Errorf("-o %s is neither text nor json", output))
			}
			if uid != "" && uuid.Validate(uid) != nil {
				return misused(cmd, fmt.Errorf("--uid %q is no UID", uid))
			}
			c, err := p.connect(p, *f)
			if err != nil {
				return err
			}
			s, err := p.read(cmd.Context(), c, pg, names, types.UID(uid))
			if err != nil {
				return err
			}
			return p.printSession(s, output)
		},
	}
	pg.bind(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.Flags().StringVar(&uid, "uid", "", "UID of the run, instead of its name: for a run whose object was deleted")
	return cmd
}

// read finds the run's session: by the UID, or by that of the run so named.
func (p program) read(ctx context.Context, c *cluster, f postgresFlags, names []string, uid types.UID) (session.Session, error) {
	waiting := ""
	if uid == "" {
		run, err := c.run(ctx, names[0])
		if err != nil {
			return session.Session{}, err
		}
		uid = run.UID
		if run.Status.SnapshotDigest == "" {
			waiting = standing(run)
		}
	}
	from, err := p.source(ctx, c, f)
	if err != nil {
		return session.Session{}, err
	}
	rows, err := postgres.Read(ctx, from.dsn, uid)
	if errors.Is(err, postgres.ErrUnknown) && waiting != "" {
		return session.Session{}, fmt.Errorf("run %s has no session yet, because it is not admitted: %s", names[0], waiting)
	}
	if errors.Is(err, postgres.ErrUnknown) {
		return session.Session{}, fmt.Errorf("no session of run %s: %w, or does not show it to this login", uid, err)
	}
	if err != nil {
		return session.Session{}, fmt.Errorf("reading the session: %w", from.explain(c.Namespace, err))
	}
	return session.Fold(rows), nil
}

func (p program) printSession(s session.Session, output string) error {
	if output == "text" {
		_, err := fmt.Fprint(p.Out, session.Text(s))
		return err
	}
	e := json.NewEncoder(p.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(s)
}
