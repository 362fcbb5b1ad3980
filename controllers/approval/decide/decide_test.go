package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

var (
	noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	one  = noon.Add(time.Hour)
	// made is when requests were.
	made = noon.Add(-time.Minute)
)

const digest = "sha256:d"

// request is open, asks the pool finance until one o'clock, and is seat 1 of 2.
func request(change ...func(*v1alpha1.ApprovalRequest)) *v1alpha1.ApprovalRequest {
	turn, index := int32(3), int32(1)
	r := &v1alpha1.ApprovalRequest{ObjectMeta: metav1.ObjectMeta{Name: "areq", UID: "request", CreationTimestamp: metav1.NewTime(made)}, Spec: v1alpha1.ApprovalRequestSpec{
		Type:      v1alpha1.ApprovalCall,
		Call:      v1alpha1.ApprovalRequestCall{Turn: &turn, Index: &index, Tool: "payments/refund", Effect: v1alpha1.EffectSend, Arguments: `{"iban":"secret"}`, Digest: digest},
		RunRef:    v1alpha1.RunReference{Name: "triage", UID: "run"},
		Requester: v1alpha1.Principal{User: "dana"},
		Pool:      "finance", Seat: 1, Seats: 2, ExpiresAt: metav1.NewTime(one),
	}}
	for _, c := range change {
		c(r)
	}
	return r
}

func decidedBy(verdict v1alpha1.Verdict, by string) func(*v1alpha1.ApprovalRequest) {
	return func(r *v1alpha1.ApprovalRequest) {
		r.Spec.Decision = v1alpha1.Decision{Verdict: verdict, By: by, Reason: "known customer"}
	}
}

// unsure asks what came of the call.
func unsure(r *v1alpha1.ApprovalRequest) {
	r.Spec.Type, r.Spec.Seats = v1alpha1.ApprovalIndeterminate, 1
}

func at(phase v1alpha1.ApprovalPhase) func(*v1alpha1.ApprovalRequest) {
	return func(r *v1alpha1.ApprovalRequest) { r.Status.Phase = phase }
}

// observed is a request of a run that waits, at noon.
func observed(r *v1alpha1.ApprovalRequest, change ...func(*Observed)) Observed {
	o := Observed{Question: Question{Now: noon, Known: true}, Request: r}
	for _, c := range change {
		c(&o)
	}
	return o
}

func guarded(o *Observed) { o.Guard = Holds }
func late(o *Observed)    { o.Now = one }

// anew is that the policies were made after the request.
func anew(o *Observed) { o.Since = made.Add(time.Second) }

// doubted is a request whose decision was seen while the guard did not hold.
func doubted(r *v1alpha1.ApprovalRequest) {
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionApprovalsGuarded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotGuarded}}
}

func delivered(phase v1alpha1.ApprovalPhase, by, reason string) *contract.Delivery {
	return &contract.Delivery{Request: "request", Turn: 3, Index: 1, Digest: digest, Seat: 1, Seats: 2, Phase: phase, By: by, Reason: reason}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const (
		approved = v1alpha1.VerdictApproved
		denied   = v1alpha1.VerdictDenied
		open     = "pool finance decides on payments/refund by 2026-01-01T13:00:00Z, seat 1 of 2"
		alone    = "pool finance decides on payments/refund by 2026-01-01T13:00:00Z"
		anybody  = "the admission policies ekiden-approval-decision were not in force, so that anybody could give it: a new request asks again"
	)
	void := func(message string) Decision {
		return Decision{Report: Report{Phase: v1alpha1.ApprovalWithdrawn, Reason: v1alpha1.ReasonNotGuarded, Message: message, Guard: Holds}, Poke: true}
	}
	told := func(phase v1alpha1.ApprovalPhase, message string) Decision {
		d := delivered(phase, "alice", "known customer")
		d.Type, d.Seats = v1alpha1.ApprovalIndeterminate, 1
		return Decision{Report: Report{Phase: phase, Reason: string(phase), Message: message, Guard: Holds}, Deliver: d, Poke: true}
	}
	withdrawn := func(message string) Decision {
		return Decision{Report: Report{Phase: v1alpha1.ApprovalWithdrawn, Reason: v1alpha1.ReasonWithdrawn, Message: message}}
	}
	for name, tc := range map[string]struct {
		given Observed
		want  Decision
	}{
		"a request that nobody has decided on stays open until it expires": {
			observed(request()),
			Decision{Report: Report{Phase: v1alpha1.ApprovalPending, Reason: v1alpha1.ReasonAwaitingDecision, Message: open}, Wake: one},
		},
		"before a decision is honoured the guard is asked": {
			observed(request(decidedBy(approved, "alice"))), Decision{AskGuard: true},
		},
		"before a denial is honoured the guard is asked": {
			observed(request(decidedBy(denied, "alice"))), Decision{AskGuard: true},
		},
		"an approval under the guard is taken up and delivered": {
			observed(request(decidedBy(approved, "alice")), guarded),
			Decision{
				Report:  Report{Phase: v1alpha1.ApprovalApproved, Reason: v1alpha1.ReasonApproved, Message: "alice approved payments/refund: known customer", Guard: Holds},
				Deliver: delivered(v1alpha1.ApprovalApproved, "alice", "known customer"), Poke: true,
			},
		},
		"what somebody says came of a call is taken up and delivered": {
			observed(request(unsure, decidedBy(v1alpha1.VerdictHappened, "alice")), guarded),
			told(v1alpha1.ApprovalHappened, "alice says that the call of payments/refund took effect: known customer"),
		},
		"so is that it did not happen": {
			observed(request(unsure, decidedBy(v1alpha1.VerdictNotHappened, "alice")), guarded),
			told(v1alpha1.ApprovalNotHappened, "alice says that the call of payments/refund did not take effect: known customer"),
		},
		"so is that it is to be made again": {
			observed(request(unsure, decidedBy(v1alpha1.VerdictRetry, "alice")), guarded),
			told(v1alpha1.ApprovalRetry, "alice wants the call of payments/refund made again: known customer"),
		},
		"whom the run acts for does not say what came of a call": {
			observed(request(unsure, decidedBy(v1alpha1.VerdictRetry, "dana")), guarded),
			void("the decision of dana, for whom the run acts, on payments/refund is void: ValidatingAdmissionPolicy ekiden-approval-decision was not in force: a new request asks again"),
		},
		"an approval is no answer to what came of a call": {
			observed(request(unsure, decidedBy(approved, "alice")), guarded),
			Decision{Report: Report{Phase: v1alpha1.ApprovalPending, Reason: v1alpha1.ReasonAwaitingDecision, Message: alone, Guard: Holds}, Wake: one},
		},
		"that it happened is no answer to whether a call may run": {
			observed(request(decidedBy(v1alpha1.VerdictHappened, "alice")), guarded),
			Decision{Report: Report{Phase: v1alpha1.ApprovalPending, Reason: v1alpha1.ReasonAwaitingDecision, Message: open, Guard: Holds}, Wake: one},
		},
		"a denial under the guard is taken up and delivered": {
			observed(request(decidedBy(denied, "alice")), guarded),
			Decision{
				Report:  Report{Phase: v1alpha1.ApprovalDenied, Reason: v1alpha1.ReasonDenied, Message: "alice denied payments/refund: known customer", Guard: Holds},
				Deliver: delivered(v1alpha1.ApprovalDenied, "alice", "known customer"), Poke: true,
			},
		},
		"a decision that the guard does not cover stays where it is": {
			observed(request(decidedBy(approved, "alice")), func(o *Observed) { o.Guard, o.Why = Broken, "the binding is missing" }),
			Decision{
				Report: Report{Phase: v1alpha1.ApprovalPending, Reason: v1alpha1.ReasonAwaitingDecision, Message: open, Guard: Broken, Why: "the binding is missing"},
				Wake:   noon.Add(recheck),
			},
		},
		"a decision that the guard does not cover expires as every other": {
			observed(request(decidedBy(approved, "alice")), func(o *Observed) { o.Guard, o.Why, o.Now = Broken, "the binding is missing", one.Add(-time.Second) }),
			Decision{
				Report: Report{Phase: v1alpha1.ApprovalPending, Reason: v1alpha1.ReasonAwaitingDecision, Message: open, Guard: Broken, Why: "the binding is missing"},
				Wake:   one,
			},
		},
		"a decision that was seen without the guard is void, though the guard is back: somebody is asked again": {
			observed(request(decidedBy(approved, "carol"), doubted), guarded), void("the decision of carol on payments/refund is void: " + anybody),
		},
		"a denial that was seen without the guard is void as well": {
			observed(request(decidedBy(denied, "carol"), doubted), guarded), void("the decision of carol on payments/refund is void: " + anybody),
		},
		"a decision on a request that is older than the policies may have been given while there were none": {
			observed(request(decidedBy(approved, "carol")), guarded, anew), void("the decision of carol on payments/refund is void: " + anybody),
		},
		"a request that is older than the policies is asked again before anybody decides": {
			observed(request(), guarded, anew), void("the admission policies ekiden-approval-decision were made anew after payments/refund was asked about: a new request asks again"),
		},
		"before a request is asked again the guard is asked": {
			observed(request(), anew), Decision{AskGuard: true},
		},
		"a request that is older than the policies waits until they hold": {
			observed(request(), anew, func(o *Observed) { o.Guard, o.Why = Broken, "it is not heeded" }),
			Decision{Report: Report{Phase: v1alpha1.ApprovalPending, Reason: v1alpha1.ReasonAwaitingDecision, Message: open}, Wake: noon.Add(recheck)},
		},
		"a request that is as old as the policies is as good as a younger one": {
			observed(request(decidedBy(approved, "alice")), guarded, func(o *Observed) { o.Since = made }),
			Decision{
				Report:  Report{Phase: v1alpha1.ApprovalApproved, Reason: v1alpha1.ReasonApproved, Message: "alice approved payments/refund: known customer", Guard: Holds},
				Deliver: delivered(v1alpha1.ApprovalApproved, "alice", "known customer"), Poke: true,
			},
		},
		"at the instant of expiry nobody can decide any more": {
			observed(request(), late),
			Decision{
				Report:  Report{Phase: v1alpha1.ApprovalExpired, Reason: v1alpha1.ReasonExpired, Message: "nobody of pool finance decided on payments/refund by 2026-01-01T13:00:00Z"},
				Deliver: delivered(v1alpha1.ApprovalExpired, "", ""), Poke: true,
			},
		},
		"a decision that is first seen after the expiry is worth nothing, and the model does not read it": {
			observed(request(decidedBy(approved, "alice")), late, guarded),
			Decision{
				Report: Report{
					Phase: v1alpha1.ApprovalExpired, Reason: v1alpha1.ReasonTooLate,
					Message: "the decision of alice on payments/refund was seen after the request had expired at 2026-01-01T13:00:00Z and is worth nothing: if the agent proposes the call again, a new request comes",
				},
				Deliver: delivered(v1alpha1.ApprovalExpired, "", ""), Poke: true,
			},
		},
		"who has approved another seat is not heard twice": {
			observed(request(decidedBy(approved, "alice")), guarded, func(o *Observed) { o.Approvers = []string{"bob", "alice"} }),
			Decision{
				Report: Report{
					Phase: v1alpha1.ApprovalWithdrawn, Reason: v1alpha1.ReasonSamePerson, Guard: Holds,
					Message: "alice has already approved another seat of payments/refund: a new request asks somebody else of pool finance",
				},
				Poke: true,
			},
		},
		"who has approved another seat may still deny this one": {
			observed(request(decidedBy(denied, "alice")), guarded, func(o *Observed) { o.Approvers = []string{"alice"} }),
			Decision{
				Report:  Report{Phase: v1alpha1.ApprovalDenied, Reason: v1alpha1.ReasonDenied, Message: "alice denied payments/refund: known customer", Guard: Holds},
				Deliver: delivered(v1alpha1.ApprovalDenied, "alice", "known customer"), Poke: true,
			},
		},
		"a request of a run that is gone is withdrawn": {
			observed(request(decidedBy(approved, "alice")), func(o *Observed) { o.RunGone = true }), withdrawn("withdrawn: run triage is gone"),
		},
		"a request of a run that Postgres has lost is withdrawn": {
			observed(request(), func(o *Observed) { o.Known = false }), withdrawn("withdrawn: Postgres does not know run triage"),
		},
		"a request of a run that is over is withdrawn, whenever it would have expired": {
			observed(request(), late, func(o *Observed) { o.Over = true }), withdrawn("withdrawn: run triage has ended or is cancelled"),
		},
		"a request about a call that is settled is withdrawn": {
			observed(request(), func(o *Observed) { o.Settled = true }),
			Decision{Report: withdrawn("withdrawn: the call is settled").Report, Poke: true},
		},
		"an approval that was recorded and not delivered is delivered, even too late": {
			observed(request(decidedBy(approved, "alice"), at(v1alpha1.ApprovalApproved)), late),
			Decision{Deliver: delivered(v1alpha1.ApprovalApproved, "alice", "known customer"), Poke: true},
		},
		"an approval that was delivered wakes its run again, for that may not have happened": {
			observed(request(decidedBy(approved, "alice"), at(v1alpha1.ApprovalApproved)), func(o *Observed) {
				o.Delivered = delivered(v1alpha1.ApprovalApproved, "alice", "")
			}),
			Decision{Poke: true},
		},
		"a withdrawal is not delivered": {
			observed(request(at(v1alpha1.ApprovalWithdrawn))), Decision{Poke: true},
		},
		"what the run was told counts, when the status has lost it": {
			observed(request(), late, func(o *Observed) {
				o.Delivered = delivered(v1alpha1.ApprovalApproved, "alice", "known customer")
			}),
			Decision{Report: Report{Phase: v1alpha1.ApprovalApproved, Reason: v1alpha1.ReasonApproved, Message: "alice approved payments/refund: known customer"}, Poke: true},
		},
		"an expiry that the run was told counts as well": {
			observed(request(decidedBy(approved, "alice")), guarded, func(o *Observed) {
				o.Delivered = delivered(v1alpha1.ApprovalExpired, "", "")
			}),
			Decision{Report: Report{Phase: v1alpha1.ApprovalExpired, Reason: v1alpha1.ReasonExpired, Message: "nobody of pool finance decided on payments/refund by 2026-01-01T13:00:00Z"}, Poke: true},
		},
		"an approval that somebody wrote into the status by hand is none": {
			observed(request(at(v1alpha1.ApprovalApproved))),
			Decision{Report: Report{Phase: v1alpha1.ApprovalPending, Reason: v1alpha1.ReasonAwaitingDecision, Message: open}, Wake: one},
		},
		"an approval in the status over a denial in the spec is none": {
			observed(request(decidedBy(denied, "alice"), at(v1alpha1.ApprovalApproved))), Decision{AskGuard: true},
		},
		"a verdict of a later version decides nothing": {
			observed(request(decidedBy("Retry", "alice")), guarded),
			Decision{Report: Report{Phase: v1alpha1.ApprovalPending, Reason: v1alpha1.ReasonAwaitingDecision, Message: open, Guard: Holds}, Wake: one},
		},
	} {
		if diff := cmp.Diff(tc.want, Decide(tc.given)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestADecisionThatNobodyCanHaveGivenUnderTheGuardIsNotHonoured(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ by, want string }{
		"it does not say by whom":    {"", "the decision on payments/refund does not say who gave it and is void"},
		"whom the run acts for says": {"dana", "the decision of dana, for whom the run acts, on payments/refund is void"},
	} {
		for _, verdict := range []v1alpha1.Verdict{v1alpha1.VerdictApproved, v1alpha1.VerdictDenied} {
			d := Decide(observed(request(decidedBy(verdict, tc.by)), guarded))
			if d.Report.Phase != v1alpha1.ApprovalWithdrawn || d.Report.Reason != v1alpha1.ReasonNotGuarded || d.Deliver != nil || !strings.HasPrefix(d.Report.Message, tc.want) {
				t.Errorf("%s: got %+v", name, d)
			}
			d = Decide(observed(request(decidedBy(verdict, tc.by)), func(o *Observed) { o.Guard, o.Why = Broken, "it is gone" }))
			if d.Report.Phase != v1alpha1.ApprovalPending || d.Report.Guard != Broken || d.Deliver != nil || d.Report.Why != "it is gone" {
				t.Errorf("%s, without the guard: got %+v", name, d)
			}
		}
	}
}
