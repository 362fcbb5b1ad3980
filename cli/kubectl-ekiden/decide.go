package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/cli/terminal"
)

func (p program) approve(f *clusterFlags) *cobra.Command {
	return p.decide(f, new(v1alpha1.VerdictApproved), &cobra.Command{
		Use:   "approve REQUEST...",
		Short: "Approve tool calls",
		Long: `Approves tool calls that wait for a decision: each runs once every one of its seats has approved. A decision is final.

It is the same as
  kubectl patch areq REQUEST --type merge -p '{"spec":{"decision":{"verdict":"Approved"}}}'
and takes the verb approve on the request's approver pool, and not being the one the run acts for.`,
		Example: `  kubectl ekiden approvals
  kubectl ekiden approve triage-4711-1f3a9c0d-t3c0-gate --reason "known customer"`,
	})
}

func (p program) deny(f *clusterFlags) *cobra.Command {
	return p.decide(f, new(v1alpha1.VerdictDenied), &cobra.Command{
		Use:   "deny REQUEST...",
		Short: "Deny tool calls",
		Long: `Denies tool calls that wait for a decision: they do not run. The model is told, with the reason, and may propose
something else. A decision is final.`,
		Example: `  kubectl ekiden deny triage-4711-1f3a9c0d-t3c0-gate --reason "the order was never delivered"`,
	})
}

func (p program) resolve(f *clusterFlags) *cobra.Command {
	verdicts := map[string]v1alpha1.Verdict{"happened": v1alpha1.VerdictHappened, "not-happened": v1alpha1.VerdictNotHappened, "retry": v1alpha1.VerdictRetry}
	var happened, not, retry bool
	var chosen v1alpha1.Verdict
	cmd := p.decide(f, &chosen, &cobra.Command{
		Use:   "resolve REQUEST... --happened|--not-happened|--retry",
		Short: "Say what came of tool calls that nobody knows about",
		Long: `Says what came of calls that were sent and of which nobody knows whether they took effect. Look first: the run goes on by
your word, and the model is told it, with the reason. A decision is final.

It is the same as
  kubectl patch areq REQUEST --type merge -p '{"spec":{"decision":{"verdict":"Happened"}}}'
with the verdict Happened, NotHappened or Retry, and takes the verb approve on the request's approver pool, and not being the one
the run acts for. --retry has the call made again with the same Idempotency-Key.`,
		Example: `  kubectl ekiden resolve triage-4711-1f3a9c0d-t3c0-ask1 --happened --reason "booked as R-17"
  kubectl ekiden resolve triage-4711-1f3a9c0d-t3c0-ask1 --retry`,
	})
	cmd.Flags().BoolVar(&happened, "happened", false, "the call took effect")
	cmd.Flags().BoolVar(&not, "not-happened", false, "the call did not take effect, and is not made again")
	cmd.Flags().BoolVar(&retry, "retry", false, "the call is to be made again")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		n := 0
		for name, verdict := range verdicts {
			if set, err := cmd.Flags().GetBool(name); err == nil && set {
				n, chosen = n+1, verdict
			}
		}
		if n != 1 {
			return misused(cmd, errors.New("say one of --happened, --not-happened and --retry"))
		}
		return nil
	}
	return cmd
}

// decide is what the commands that decide share. The verdict is read when the command runs.
func (p program) decide(f *clusterFlags, verdict *v1alpha1.Verdict, cmd *cobra.Command) *cobra.Command {
	var reason string
	cmd.Args = usage(cobra.MinimumNArgs(1))
	cmd.Flags().StringVar(&reason, "reason", "", "why, in words, up to 1024 characters; the model is told the reason of a denial, and of what is said of a call that was sent")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		c, err := p.connect(p, *f)
		if err != nil {
			return err
		}
		var problems []error
		for _, name := range names {
			problems = append(problems, p.decideOne(cmd.Context(), c, name, v1alpha1.Decision{Verdict: *verdict, Reason: reason}))
		}
		return errors.Join(problems...)
	}
	return cmd
}

// decideOne decides on one request and says on what.
func (p program) decideOne(ctx context.Context, c *cluster, name string, d v1alpha1.Decision) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	r := &v1alpha1.ApprovalRequest{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, r)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no approval request %q in namespace %s: kubectl ekiden approvals lists those there are", name, c.Namespace)
	case err != nil:
		return c.explain("reading approval request "+name, err)
	case r.Spec.Decision.Verdict == d.Verdict:
		p.sayOf(r, fmt.Sprintf("was %s already, by %s", lower[d.Verdict], r.Spec.Decision.By))
		return nil
	case r.Spec.Decision.Verdict != "":
		return fmt.Errorf("approval request %s was %s by %s: a decision is final", name, lower[r.Spec.Decision.Verdict], r.Spec.Decision.By)
	case !fits(r.Spec.Type, d.Verdict) && r.Spec.Type == v1alpha1.ApprovalIndeterminate:
		return fmt.Errorf("approval request %s asks what came of a call that was sent: kubectl ekiden resolve %s --happened, --not-happened or --retry", name, name)
	case !fits(r.Spec.Type, d.Verdict):
		return fmt.Errorf("approval request %s asks whether a call may run: kubectl ekiden approve %s, or deny", name, name)
	case !open(r):
		return fmt.Errorf("approval request %s is no longer open: it is %s", name, r.Status.Phase)
	}
	decision, err := json.Marshal(d)
	if err != nil {
		return err
	}
	// The UID makes it this request and not a later one of the same name, about other arguments.
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"decision":%s}}`, r.UID, decision)
	if err := c.Patch(ctx, r, client.RawPatch(types.MergePatchType, patch)); err != nil {
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // the API server's sentence says it all
			return fmt.Errorf("deciding on %s: %w", name, err)
		}
		return c.explain("deciding on "+name, err)
	}
	p.sayOf(r, lower[d.Verdict]+": "+question(r))
	return nil
}

// fits reports whether a verdict answers a question of the type.
func fits(t v1alpha1.ApprovalType, v v1alpha1.Verdict) bool {
	return (t == v1alpha1.ApprovalIndeterminate) == (v != v1alpha1.VerdictApproved && v != v1alpha1.VerdictDenied)
}

// lower are verdicts as a clause goes on after "was".
var lower = map[v1alpha1.Verdict]string{
	v1alpha1.VerdictApproved: "approved", v1alpha1.VerdictDenied: "denied",
	v1alpha1.VerdictHappened: "said to have taken effect", v1alpha1.VerdictNotHappened: "said not to have taken effect", v1alpha1.VerdictRetry: "said to be made again",
}

func open(r *v1alpha1.ApprovalRequest) bool {
	return r.Spec.Decision.Verdict == "" && (r.Status.Phase == "" || r.Status.Phase == v1alpha1.ApprovalPending)
}

// question is what a request asks, on one line.
func question(r *v1alpha1.ApprovalRequest) string {
	arguments := r.Spec.Call.Arguments
	if arguments == "" {
		arguments = r.Spec.Call.Digest
	}
	return fmt.Sprintf("%s (%s) %s for run %s", r.Spec.Call.Tool, r.Spec.Call.Effect, arguments, r.Spec.RunRef.Name)
}

func (p program) sayOf(r *v1alpha1.ApprovalRequest, what string) {
	fmt.Fprintf(p.Out, "approvalrequest.ekiden.dev/%s %s\n", r.Name, terminal.Line(what))
}
