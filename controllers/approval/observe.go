package approval

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/approval/decide"
)

// observation is what was gathered: the facts to decide by, and the run to tell, or nil if it is gone.
type observation struct {
	decide.Observed
	run *v1alpha1.AgentRun
}

func (r *Reconciler) observe(ctx context.Context, request *v1alpha1.ApprovalRequest) (*observation, error) {
	s := request.Spec
	o := &observation{Observed: decide.Observed{Request: request}}
	var err error
	if o.run, err = r.run(ctx, request); err != nil {
		return nil, fmt.Errorf("run %s: %w", s.RunRef.Name, err)
	}
	o.RunGone = o.run == nil
	if o.Question, err = r.Ledger.Question(ctx, s.RunRef.UID, number(s.Call.Turn), number(s.Call.Index), request.UID); err != nil {
		return nil, fmt.Errorf("asking the ledger: %w", err)
	}
	if o.Since, err = r.Guard.Since(ctx); err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	if open(request) && s.Decision.Verdict == v1alpha1.VerdictApproved {
		if o.Approvers, err = r.approvers(ctx, request); err != nil {
			return nil, fmt.Errorf("other seats: %w", err)
		}
	}
	return o, nil
}

// run is the run that asks, or nil if it is gone. That is final, so the cache's word is not enough for it.
func (r *Reconciler) run(ctx context.Context, request *v1alpha1.ApprovalRequest) (*v1alpha1.AgentRun, error) {
	ref := request.Spec.RunRef
	for _, reader := range []client.Reader{r.Client, r.Live} {
		var run v1alpha1.AgentRun
		err := reader.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: ref.Name}, &run)
		switch {
		case err == nil && run.UID == ref.UID:
			return &run, nil
		case err != nil && !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return nil, nil
}

// approvers are who has approved other seats of the call. They are read live, and requests are looked at one at a time, so that
// of two approvals by one person only the first counts.
func (r *Reconciler) approvers(ctx context.Context, request *v1alpha1.ApprovalRequest) ([]string, error) {
	var all v1alpha1.ApprovalRequestList
	if err := r.Live.List(ctx, &all, ofRun(request.Namespace, request.Spec.RunRef.UID)...); err != nil {
		return nil, err
	}
	var found []string
	for i := range all.Items {
		other := &all.Items[i]
		if other.UID != request.UID && sameCall(other.Spec, request.Spec) && other.Status.Phase == v1alpha1.ApprovalApproved {
			found = append(found, other.Spec.Decision.By)
		}
	}
	return found, nil
}

func sameCall(a, b v1alpha1.ApprovalRequestSpec) bool {
	return a.RunRef.UID == b.RunRef.UID && a.Call.Digest == b.Call.Digest &&
		number(a.Call.Turn) == number(b.Call.Turn) && number(a.Call.Index) == number(b.Call.Index)
}

// ask has the guard looked at. Without its answer nothing is honoured, and nothing is said against it either.
func (r *Reconciler) ask(ctx context.Context, o *observation) error {
	ok, why, err := r.Guard.Guarded(ctx, o.Request.Namespace)
	if err != nil {
		return err
	}
	o.Guard, o.Why = decide.Broken, why
	if ok {
		o.Guard = decide.Holds
	}
	return nil
}

// open reports whether the status says no end.
func open(request *v1alpha1.ApprovalRequest) bool {
	return request.Status.Phase == "" || request.Status.Phase == v1alpha1.ApprovalPending
}

func number(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}
