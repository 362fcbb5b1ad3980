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
	return p.decide(f, v1alpha1.VerdictApproved, &cobra.Command{
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
	return p.decide(f, v1alpha1.VerdictDenied, &cobra.Command{
		Use:   "deny REQUEST...",
		Short: "Deny tool calls",
		Long: `Denies tool calls that wait for a decision: they do not run. The model is told, with the reason, and may propose
something else. A decision is final.`,
		Example: `  kubectl ekiden deny triage-4711-1f3a9c0d-t3c0-gate --reason "the order was never delivered"`,
	})
}

// decide is what approve and deny share.
func (p program) decide(f *clusterFlags, verdict v1alpha1.Verdict, cmd *cobra.Command) *cobra.Command {
	var reason string
	cmd.Args = usage(cobra.MinimumNArgs(1))
	cmd.Flags().StringVar(&reason, "reason", "", "why, in words, up to 1024 characters; the model is told the reason of a denial")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		c, err := p.connect(p, *f)
		if err != nil {
			return err
		}
		var problems []error
		for _, name := range names {
			problems = append(problems, p.decideOne(cmd.Context(), c, name, v1alpha1.Decision{Verdict: verdict, Reason: reason}))
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

var lower = map[v1alpha1.Verdict]string{v1alpha1.VerdictApproved: "approved", v1alpha1.VerdictDenied: "denied"}

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
