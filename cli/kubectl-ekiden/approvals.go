package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/cli/terminal"
)

func (p program) approvals(f *clusterFlags) *cobra.Command {
	var (
		all, everywhere bool
		run, pool       string
	)
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List tool calls that wait for a decision",
		Long: `Lists the tool calls that wait for a decision, the most urgent first, each with its exact arguments.

Approve or deny one with kubectl ekiden approve or deny, or with kubectl patch. Of a call that was sent and of which nobody knows
what came of it the tool ends in a question mark: look what happened, and say so with kubectl ekiden resolve.`,
		Example: `  kubectl ekiden approvals
  kubectl ekiden approvals --pool finance --all-namespaces
  kubectl ekiden approvals --run triage-4711 --all`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.connect(p, *f)
			if err != nil {
				return err
			}
			namespace := c.Namespace
			if everywhere {
				namespace = ""
			}
			requests, err := c.requests(cmd.Context(), namespace, func(r *v1alpha1.ApprovalRequest) bool {
				return (all || open(r)) && (run == "" || r.Spec.RunRef.Name == run) && (pool == "" || r.Spec.Pool == pool)
			})
			if err != nil {
				return err
			}
			p.list(requests, everywhere, namespace, time.Now().Add(c.Skew()))
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list decided, expired and withdrawn requests too")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "list the requests of every namespace")
	cmd.Flags().StringVar(&run, "run", "", "list only the requests of this run")
	cmd.Flags().StringVar(&pool, "pool", "", "list only the requests for this pool of approvers")
	return cmd
}

// requests are the wanted requests of a namespace, or of all, those that expire first first.
func (c *cluster) requests(ctx context.Context, namespace string, wanted func(*v1alpha1.ApprovalRequest) bool) ([]v1alpha1.ApprovalRequest, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var list v1alpha1.ApprovalRequestList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, c.explain("listing approval requests", err)
	}
	out := slices.DeleteFunc(list.Items, func(r v1alpha1.ApprovalRequest) bool { return !wanted(&r) })
	slices.SortFunc(out, func(a, b v1alpha1.ApprovalRequest) int {
		return cmp.Or(a.Spec.ExpiresAt.Compare(b.Spec.ExpiresAt.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

func (p program) list(requests []v1alpha1.ApprovalRequest, everywhere bool, namespace string, now time.Time) {
	if len(requests) == 0 {
		where := "namespace " + namespace
		if everywhere {
			where = "any namespace"
		}
		fmt.Fprintf(p.Err, "No call waits for a decision in %s.\n", where)
		return
	}
	w := tabwriter.NewWriter(p.Out, 0, 0, 3, ' ', 0)
	header := "NAME\tRUN\tFOR\tPOOL\tSEAT\tPHASE\tEXPIRES\tTOOL\tARGUMENTS"
	if everywhere {
		header = "NAMESPACE\t" + header
	}
	fmt.Fprintln(w, header)
	for i := range requests {
		r := &requests[i]
		if everywhere {
			fmt.Fprintf(w, "%s\t", r.Namespace)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\t%s\t%s\n", r.Name, r.Spec.RunRef.Name, terminal.Line(r.Spec.Requester.User), r.Spec.Pool,
			r.Spec.Seat, r.Spec.Seats, cmp.Or(r.Status.Phase, v1alpha1.ApprovalPending), expires(r, now), terminal.Line(r.Spec.Call.Tool)+mark(r),
			terminal.Line(cmp.Or(r.Spec.Call.Arguments, "(digest only) "+r.Spec.Call.Digest)))
	}
	_ = w.Flush()
}

// mark tells a call that was sent from one that may yet be.
func mark(r *v1alpha1.ApprovalRequest) string {
	if r.Spec.Type == v1alpha1.ApprovalIndeterminate {
		return " ?"
	}
	return ""
}

// expires is how long there is to decide.
func expires(r *v1alpha1.ApprovalRequest, now time.Time) string {
	switch left := r.Spec.ExpiresAt.Sub(now); {
	case !open(r):
		return "-"
	case left <= 0:
		return "now"
	default:
		return "in " + duration.HumanDuration(left)
	}
}
