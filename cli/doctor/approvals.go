package doctor

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// decideWithin is how long people may take before somebody should remind them. It is what a rule gives them if it does not
// say otherwise.
const decideWithin = 24 * time.Hour

// approvals looks at open requests. Whether a pool has an approver at all it does not say: who holds a verb is in roles,
// groups and webhooks that nobody can list.
func approvals(f Facts) []Finding {
	what := "approval requests of " + f.everywhere()
	if f.Requests.Err != nil {
		return []Finding{unseen(what, f.Requests.Err)}
	}
	var out []Finding
	pending := 0
	for _, r := range f.Requests.Value {
		if open(r) {
			pending++
			out = append(out, approval(r, f.Now)...)
		}
	}
	if len(out) == 0 {
		out = append(out, ok(what, "%d are open, none of them for longer than a day", pending))
	}
	return out
}

// open reports whether a request may still be decided.
func open(r v1alpha1.ApprovalRequest) bool {
	decided := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionDecided)
	return decided == nil || decided.Status == metav1.ConditionUnknown
}

func approval(r v1alpha1.ApprovalRequest, now time.Time) []Finding {
	s := r.Spec
	found := Finding{Level: Fail, What: named("approval request", r.Namespace, r.Name), Cure: "see to the manager"}
	age, over := now.Sub(r.CreationTimestamp.Time), now.Sub(s.ExpiresAt.Time)
	guarded := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionApprovalsGuarded)
	switch {
	case guarded != nil && guarded.Status == metav1.ConditionFalse:
		by := s.Decision.By
		if by == "" {
			by = "somebody" // it is the stamp that is missing
		}
		found.Says = fmt.Sprintf("the decision of %s is not honoured, and run %s waits: %s: %s", by, s.RunRef.Name, guarded.Reason, guarded.Message)
		found.Cure = "do what the message says; the decision is void then, and a new request asks again"
	case over > settleWithin:
		found.Says = fmt.Sprintf("expired %s ago, and run %s has not been told", ago(over), s.RunRef.Name)
	case len(r.Status.Conditions) == 0 && age > settleWithin:
		found.Says = "no manager has looked at it for " + ago(age)
	case age > decideWithin:
		found.Level = Warn
		found.Says = fmt.Sprintf("run %s has waited %s for pool %s to decide on %s, and does so for another %s", s.RunRef.Name, ago(age), s.Pool, s.Call.Tool, ago(-over))
		found.Cure = fmt.Sprintf("remind the approvers of the pool: kubectl ekiden approve %s -n %s, or deny", r.Name, r.Namespace)
	default:
		return nil
	}
	return []Finding{found}
}

// asked finds what a run has asked people.
func (f Facts) asked() func(v1alpha1.AgentRun) Seen[[]v1alpha1.ApprovalRequest] {
	of := map[types.UID][]v1alpha1.ApprovalRequest{}
	for _, r := range f.Requests.Value {
		of[r.Spec.RunRef.UID] = append(of[r.Spec.RunRef.UID], r)
	}
	return func(r v1alpha1.AgentRun) Seen[[]v1alpha1.ApprovalRequest] {
		return Seen[[]v1alpha1.ApprovalRequest]{of[r.UID], f.Requests.Err}
	}
}

// waits reports whether a run waits for people.
func waits(r v1alpha1.AgentRun) bool {
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionSucceeded)
	return c != nil && c.Reason == v1alpha1.ReasonAwaitingApproval
}

// unasked says whether a run waits and nobody is asked. While a request is open it waits rightly, and what is wrong with
// that is said of the request.
func unasked(r v1alpha1.AgentRun, condition metav1.Condition, asked Seen[[]v1alpha1.ApprovalRequest], now time.Time) []Finding {
	since := changed(r)
	for _, a := range asked.Value {
		if open(a) {
			return nil
		}
		if a.Status.DecidedAt.After(since) {
			since = a.Status.DecidedAt.Time
		}
	}
	still := now.Sub(since)
	if asked.Err != nil || still <= settleWithin {
		return nil
	}
	return []Finding{{
		Level: Fail, What: named("run", r.Namespace, r.Name),
		Says: fmt.Sprintf("waits for people, and for %s none of its requests has been open: %s", ago(still), condition.Message),
		Cure: "see to what the message names, else to the manager: it makes the requests and starts the next segment",
	}}
}
