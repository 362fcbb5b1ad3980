// Package request turns the asks of a run that waits into ApprovalRequests. It is pure.
package request

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
)

// Name is the name of a request. It is a function of the run, the call, the seat and how often the seat was asked before, so
// that asking twice is a conflict and not a second question.
func Name(run *v1alpha1.AgentRun, k lifecycle.RequestKey) string {
	name := fmt.Sprintf("%s-t%dc%d-gate", lifecycle.Stem(run.Name, run.UID), k.Turn, k.Index)
	if k.Seat > 1 {
		name += fmt.Sprintf("-s%d", k.Seat)
	}
	if k.Ordinal > 0 {
		name += fmt.Sprintf("-r%d", k.Ordinal)
	}
	return name
}

// Build is the request for one seat of a call that a run asks about. asked is when the run began to wait.
func Build(run *v1alpha1.AgentRun, principal v1alpha1.Principal, r lifecycle.Raise, asked time.Time) *v1alpha1.ApprovalRequest {
	turn, index := int32(r.Ask.Turn), int32(r.Ask.Index) //nolint:gosec // bounded by limits.turns and the calls of an answer
	return &v1alpha1.ApprovalRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(run, r.Key()),
			Namespace:       run.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(run, v1alpha1.GroupVersion.WithKind("AgentRun"))},
			Labels: map[string]string{
				v1alpha1.LabelRunUID:           string(run.UID),
				v1alpha1.LabelRootUID:          string(run.UID),
				"app.kubernetes.io/managed-by": "ekiden",
			},
		},
		Spec: v1alpha1.ApprovalRequestSpec{
			Type: v1alpha1.ApprovalCall,
			Call: v1alpha1.ApprovalRequestCall{
				Turn: &turn, Index: &index, Tool: r.Ask.Tool, Effect: r.Ask.Effect, Arguments: r.Ask.Arguments, Digest: r.Ask.Digest,
			},
			RunRef:    v1alpha1.RunReference{Name: run.Name, UID: run.UID},
			Requester: principal,
			Policy:    r.Ask.Policy,
			Pool:      r.Ask.Pool,
			Seat:      r.Seat,
			Seats:     r.Ask.Seats,
			ExpiresAt: metav1.NewTime(asked.Add(time.Duration(r.Ask.ExpiresSeconds) * time.Second).Truncate(time.Second)),
		},
	}
}

// Same reports whether what exists is the request for r, whatever became of it: it is the run's own and about the same call
// with the same arguments. When it was first asked, and of whom, stands.
func Same(existing *v1alpha1.ApprovalRequest, run *v1alpha1.AgentRun, r lifecycle.Raise) bool {
	s := existing.Spec
	return metav1.IsControlledBy(existing, run) && s.RunRef.UID == run.UID && s.Call.Digest == r.Ask.Digest && s.Call.Tool == r.Ask.Tool &&
		s.Call.Turn != nil && int(*s.Call.Turn) == r.Ask.Turn && s.Call.Index != nil && int(*s.Call.Index) == r.Ask.Index && s.Seat == r.Seat
}

// Read is what an existing request tells; ok is false for one that is not the run's.
func Read(existing *v1alpha1.ApprovalRequest, run *v1alpha1.AgentRun) (_ lifecycle.Request, ok bool) {
	s := existing.Spec
	if !metav1.IsControlledBy(existing, run) || s.Call.Turn == nil || s.Call.Index == nil || !existing.DeletionTimestamp.IsZero() {
		return lifecycle.Request{}, false
	}
	return lifecycle.Request{
		Turn: int(*s.Call.Turn), Index: int(*s.Call.Index), Digest: s.Call.Digest, Seat: s.Seat,
		Withdrawn: existing.Status.Phase == v1alpha1.ApprovalWithdrawn, Until: s.ExpiresAt.Time,
	}, true
}
