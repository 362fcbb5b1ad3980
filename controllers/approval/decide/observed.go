// Package decide decides what becomes of an ApprovalRequest. It is pure: it imports neither a client nor a clock, and every
// input is a field of Observed.
package decide

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Observed is everything a decision may depend on.
type Observed struct {
	Question
	// Request is the request as it was read.
	Request *v1alpha1.ApprovalRequest
	// RunGone says that there is no run of the UID that the request names.
	RunGone bool
	// Approvers are who has approved other seats of the same call.
	Approvers []string
	// Guard is what the guard said, and Why what is wrong if it does not hold.
	Guard Guard
	Why   string
	// Since is when the newest of the policies was made. It is zero while one is missing.
	Since time.Time
}

// Question is how the ledger stands to a request.
type Question struct {
	// Now is the time of Postgres: a request expires by it.
	Now time.Time
	// Known says that the run is in the ledger, Over that it is final or cancelled, Settled that the call is settled.
	Known, Over, Settled bool
	// Delivered is what was delivered to the run of this very request, or nil.
	Delivered *contract.Delivery
}

// Guard is what is known of the policies that say who may decide.
type Guard string

const (
	// Unasked means that nobody has looked: it costs a request to the API server, and most looks do without.
	Unasked Guard = ""
	// Holds means that the API server lets nobody decide who may not.
	Holds Guard = "Holds"
	// Broken means that it may have let anybody decide.
	Broken Guard = "Broken"
)

// recorded is the final phase that the status shows, or empty. One that its own decision does not bear out is none: somebody
// has written it by hand.
func (o Observed) recorded() v1alpha1.ApprovalPhase {
	phase, d := o.Request.Status.Phase, o.Request.Spec.Decision
	switch phase {
	case v1alpha1.ApprovalApproved, v1alpha1.ApprovalDenied, v1alpha1.ApprovalHappened, v1alpha1.ApprovalNotHappened, v1alpha1.ApprovalRetry:
		if string(d.Verdict) != string(phase) || d.By == "" || !answers(o.Request.Spec.Type, d.Verdict) {
			return ""
		}
		return phase
	case v1alpha1.ApprovalExpired, v1alpha1.ApprovalWithdrawn:
		return phase
	default:
		return ""
	}
}

// moot says why the question no longer stands, or nothing.
func (o Observed) moot() string {
	switch run := o.Request.Spec.RunRef.Name; {
	case o.RunGone:
		return "run " + run + " is gone"
	case !o.Known:
		return "Postgres does not know run " + run
	case o.Over:
		return "run " + run + " has ended or is cancelled"
	case o.Settled:
		return "the call is settled"
	default:
		return ""
	}
}

func (o Observed) decided() bool { return o.Request.Spec.Decision.Verdict != "" }

func (o Observed) late() bool { return !o.Now.Before(o.Request.Spec.ExpiresAt.Time) }

// older reports whether a policy that says who decides was made after the request. In between anybody may have decided, also
// while no manager looked.
func (o Observed) older() bool { return o.Request.CreationTimestamp.Time.Before(o.Since) }

// unguarded says why a decision may not have been given under the guard, though the guard holds by now; or nothing. Once a
// decision was seen without the guard, the guard's return proves nothing about it.
func (o Observed) unguarded() string {
	tool, by := o.Request.Spec.Call.Tool, o.Request.Spec.Decision.By
	doubted := meta.IsStatusConditionFalse(o.Request.Status.Conditions, v1alpha1.ConditionApprovalsGuarded)
	switch {
	case !o.decided() && o.older():
		return "the admission policies ekiden-approval-decision were made anew after " + tool + " was asked about"
	case !o.decided():
		return ""
	case by == "":
		return "the decision on " + tool + " does not say who gave it and is void: MutatingAdmissionPolicy ekiden-approval-decision was not in force"
	case by == o.Request.Spec.Requester.User:
		return "the decision of " + by + ", for whom the run acts, on " + tool + " is void: ValidatingAdmissionPolicy ekiden-approval-decision was not in force"
	case doubted || o.older():
		return "the decision of " + by + " on " + tool + " is void: the admission policies ekiden-approval-decision were not in force, so that anybody could give it"
	default:
		return ""
	}
}

// again reports whether the decider has approved another seat of the call already.
func (o Observed) again() bool {
	d := o.Request.Spec.Decision
	return d.Verdict == v1alpha1.VerdictApproved && slices.Contains(o.Approvers, d.By)
}
