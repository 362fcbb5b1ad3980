package approval

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/approval/decide"
	"github.com/ekiden-dev/ekiden/controllers/metrics"
)

// record writes the status, once, and then tells people.
func (r *Reconciler) record(ctx context.Context, o *observation, rep decide.Report) error {
	if rep == (decide.Report{}) {
		return nil
	}
	request := o.Request
	before := request.DeepCopy()
	report(request, o, rep)
	if equality.Semantic.DeepEqual(before.Status, request.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, request, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	if rep.Final() {
		metrics.ApprovalDecided(rep.Reason)
	}
	r.tell(before, o, rep)
	return nil
}

func report(request *v1alpha1.ApprovalRequest, o *observation, rep decide.Report) {
	s := &request.Status
	set := func(condition string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message, ObservedGeneration: request.Generation})
	}
	s.ObservedGeneration = request.Generation
	s.Phase = rep.Phase
	if !rep.Final() {
		s.DecidedAt = metav1.Time{}
	} else if s.DecidedAt.IsZero() {
		s.DecidedAt = metav1.NewTime(o.Now.Truncate(1e9))
	}
	set(v1alpha1.ConditionDecided, decided(rep.Phase), rep.Reason, rep.Message)
	switch rep.Guard {
	case decide.Holds:
		set(v1alpha1.ConditionApprovalsGuarded, metav1.ConditionTrue, v1alpha1.ReasonGuarded, "")
	case decide.Broken:
		set(v1alpha1.ConditionApprovalsGuarded, metav1.ConditionFalse, v1alpha1.ReasonNotGuarded, rep.Why)
	case decide.Unasked:
	}
}

func decided(phase v1alpha1.ApprovalPhase) metav1.ConditionStatus {
	switch phase {
	case v1alpha1.ApprovalApproved, v1alpha1.ApprovalDenied, v1alpha1.ApprovalHappened, v1alpha1.ApprovalNotHappened, v1alpha1.ApprovalRetry:
		return metav1.ConditionTrue
	case v1alpha1.ApprovalExpired, v1alpha1.ApprovalWithdrawn:
		return metav1.ConditionFalse
	default:
		return metav1.ConditionUnknown
	}
}

// tell emits an event for a change of reason, in the words of the condition: on the request, and of what was decided on the
// run too. A run that is over does not need to hear that its question no longer stands.
func (r *Reconciler) tell(before *v1alpha1.ApprovalRequest, o *observation, rep decide.Report) {
	request := o.Request
	if changed(before, request, v1alpha1.ConditionApprovalsGuarded) && rep.Guard == decide.Broken {
		r.Events.Eventf(request, nil, corev1.EventTypeWarning, v1alpha1.ReasonNotGuarded, "Guard", "%s", rep.Why)
	}
	if !changed(before, request, v1alpha1.ConditionDecided) {
		return
	}
	kind := corev1.EventTypeNormal
	if rep.Reason == v1alpha1.ReasonTooLate || rep.Reason == v1alpha1.ReasonSamePerson || rep.Reason == v1alpha1.ReasonNotGuarded {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(request, nil, kind, rep.Reason, "Decide", "%s", rep.Message)
	if rep.Final() && rep.Reason != v1alpha1.ReasonWithdrawn && o.run != nil {
		r.Events.Eventf(o.run, request, kind, rep.Reason, "Decide", "%s", rep.Message)
	}
}

// changed reports whether a condition says something else than before.
func changed(before, after *v1alpha1.ApprovalRequest, condition string) bool {
	a, b := meta.FindStatusCondition(before.Status.Conditions, condition), meta.FindStatusCondition(after.Status.Conditions, condition)
	if a == nil || b == nil {
		return a != b
	}
	return a.Status != b.Status || a.Reason != b.Reason || a.Message != b.Message
}
