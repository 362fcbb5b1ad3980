package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/cli/terminal"
)

func (p program) cancel(f *clusterFlags) *cobra.Command {
	var (
		wait  bool
		bound time.Duration
	)
	cmd := &cobra.Command{
		Use:   "cancel RUN...",
		Short: "Cancel runs",
		Long: `Cancels runs. A cancel is final and may be repeated. Once a run's condition CancelRequested is True nothing new begins in it;
a model call that is under way is cut.`,
		Example: `  kubectl ekiden cancel triage-4711
  kubectl ekiden cancel triage-4711 triage-4712 --wait`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := p.connect(p, *f)
			if err != nil {
				return err
			}
			var asked []*v1alpha1.AgentRun
			var problems []error
			for _, name := range names {
				run, err := p.cancelOne(cmd.Context(), c, name)
				problems = append(problems, err)
				if err == nil && !finished(run) {
					asked = append(asked, run)
				}
			}
			if wait {
				problems = append(problems, p.awaitAll(cmd.Context(), c, asked, bound))
			}
			return errors.Join(problems...)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the runs have finished")
	cmd.Flags().DurationVar(&bound, "timeout", 0, "how long --wait waits, such as 2m; 0 means for ever")
	return cmd
}

// cancelOne asks for the end of one run and says what that did.
func (p program) cancelOne(ctx context.Context, c *cluster, name string) (*v1alpha1.AgentRun, error) {
	run, err := c.run(ctx, name)
	if err != nil {
		return nil, err
	}
	switch {
	case finished(run):
		p.say(run, "was already over: "+standing(run))
		return run, nil
	case run.Spec.DesiredState == v1alpha1.DesiredCancelled:
		p.say(run, "is already being cancelled")
		return run, nil
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	// The UID makes it this run and not a later one of the same name.
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"desiredState":%q}}`, run.UID, v1alpha1.DesiredCancelled)
	err = c.Patch(ctx, run, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("run %s was deleted meanwhile, which cancels it too", name)
	}
	if err != nil {
		return nil, c.explain("cancelling run "+name, err)
	}
	p.say(run, "is being cancelled")
	return run, nil
}

func (p program) awaitAll(ctx context.Context, c *cluster, runs []*v1alpha1.AgentRun, bound time.Duration) error {
	deadline := time.Now().Add(bound)
	for _, run := range runs {
		left := bound
		if bound > 0 {
			left = max(time.Until(deadline), time.Millisecond)
		}
		end, err := c.finish(ctx, run, left)
		if errors.Is(err, errGone) {
			p.say(run, "is gone")
			continue
		}
		if err != nil {
			return err
		}
		if stateOf(end) == cancelled {
			p.say(end, "is cancelled")
		} else {
			p.say(end, "ended before the cancel reached it: "+standing(end))
		}
	}
	return nil
}

func (p program) say(run *v1alpha1.AgentRun, what string) {
	fmt.Fprintf(p.Out, "agentrun.ekiden.dev/%s %s\n", run.Name, terminal.Line(what))
}
