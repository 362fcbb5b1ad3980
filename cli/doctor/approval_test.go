package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// TestJudgeToolsAndApprovals breaks one thing at a time, and wants these lines and no other that is not ok.
func TestJudgeToolsAndApprovals(t *testing.T) {
	t.Parallel()
	admitted := func(breaks func(*Admission)) func(*Facts) {
		return func(f *Facts) {
			a := f.Admission["ekiden-approval-decision"]
			breaks(&a)
			f.Admission["ekiden-approval-decision"] = a
		}
	}
	ready := func(status metav1.ConditionStatus, reason, message string, age time.Duration) func(*Facts) {
		return func(f *Facts) {
			f.Tools.Value[0].Status.Conditions[0] = metav1.Condition{
				Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: 2, LastTransitionTime: before(age),
			}
		}
	}
	secret := func(seen Seen[map[string]bool]) func(*Facts) {
		return func(f *Facts) { f.Secrets[types.NamespacedName{Namespace: "team", Name: "crm"}] = seen }
	}
	request := func(change func(*v1alpha1.ApprovalRequest)) func(*Facts) {
		return func(f *Facts) { change(&f.Requests.Value[0]) }
	}
	decided := func(age time.Duration) func(*Facts) {
		return request(func(r *v1alpha1.ApprovalRequest) {
			r.Status.Conditions[0].Status, r.Status.DecidedAt = metav1.ConditionTrue, before(age)
		})
	}
	for name, tc := range map[string]struct {
		given func(*Facts)
		want  string
	}{
		"the stamp of decisions is missing": {
			admitted(func(a *Admission) { a.Stamp.Err = missing }),
			"fail  MutatingAdmissionPolicy ekiden-approval-decision: is missing: the manager honours no decision on a call | to do: apply config/admission of this version\n",
		},
		"the guard of decisions is of another version": {
			admitted(func(a *Admission) { a.Guard.Value.Spec.Validations[5].Expression = "true" }),
			"fail  ValidatingAdmissionPolicy ekiden-approval-decision: differs from that of this version in spec.validations[5].expression: the manager honours no decision on a call | to do: apply config/admission of the manager's version, and ask with the kubectl-ekiden of that version\n",
		},
		"the guard of decisions has fewer rules": {
			admitted(func(a *Admission) { a.Guard.Value.Spec.Validations = a.Guard.Value.Spec.Validations[1:] }),
			"fail  ValidatingAdmissionPolicy ekiden-approval-decision: differs from that of this version in spec.validations: the manager honours no decision on a call | to do: apply config/admission of the manager's version, and ask with the kubectl-ekiden of that version\n",
		},
		"the guard of decisions is narrowed": {
			admitted(func(a *Admission) {
				a.Guard.Value.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "never", Expression: "false"}}
			}),
			"fail  ValidatingAdmissionPolicy ekiden-approval-decision: differs from that of this version in spec.matchConditions: the manager honours no decision on a call | to do: apply config/admission of the manager's version, and ask with the kubectl-ekiden of that version\n",
		},
		"the stamp of decisions differs in many ways": {
			admitted(func(a *Admission) { a.Stamp.Value.Spec = admissionregistrationv1.MutatingAdmissionPolicySpec{} }),
			"fail  MutatingAdmissionPolicy ekiden-approval-decision: differs from that of this version in spec.failurePolicy, spec.matchConditions, spec.matchConstraints and 3 more: the manager honours no decision on a call | to do: apply config/admission of the manager's version, and ask with the kubectl-ekiden of that version\n",
		},
		"the guard of decisions can be passed": {
			admitted(func(a *Admission) { a.Guard.Value.Spec.FailurePolicy = ptr(admissionregistrationv1.Ignore) }),
			"fail  ValidatingAdmissionPolicy ekiden-approval-decision: lets approval requests pass where it cannot be evaluated (failurePolicy Ignore) | to do: apply config/admission of this version\n",
		},
		"the guard of decisions only audits": {
			admitted(func(a *Admission) {
				a.GuardBinding.Value.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
			}),
			"fail  ValidatingAdmissionPolicyBinding ekiden-approval-decision: does not bind the policy to all approval requests with the action Deny | to do: apply config/admission of this version\n",
		},
		"the stamp of decisions is bound to some": {
			admitted(func(a *Admission) {
				a.StampBinding.Value.Spec.MatchResources = &admissionregistrationv1.MatchResources{}
			}),
			"fail  MutatingAdmissionPolicyBinding ekiden-approval-decision: does not bind the policy to all approval requests | to do: apply config/admission of this version\n",
		},
		"the guard of decisions goes": {
			admitted(func(a *Admission) { a.Guard.Value.DeletionTimestamp = ptr(before(0)) }),
			"fail  ValidatingAdmissionPolicy ekiden-approval-decision: is being deleted: then the manager honours no decision on a call | to do: apply config/admission of this version once it is gone\n",
		},
		"an installer's labels are no difference": {
			admitted(func(a *Admission) { a.Guard.Value.Labels = map[string]string{"a": "b"} }), "",
		},
		"the guard of decisions may not be read": {
			admitted(func(a *Admission) { a.Guard.Err = forbidden }),
			"skip  ValidatingAdmissionPolicy ekiden-approval-decision: not checked: you may not read it | to do: ask somebody who may, or use --as\n",
		},

		"a tool server cannot be asked": {
			ready(metav1.ConditionFalse, v1alpha1.ReasonDiscoveryFailed, "connection refused", time.Minute),
			"fail  tool server team/crm: is not ready, and no edit of a definition that uses it compiles: DiscoveryFailed: connection refused | to do: see to what the message names; the server is asked again by itself, and at once when spec.release changes\n",
		},
		"a tool server is not valid": {
			ready(metav1.ConditionFalse, v1alpha1.ReasonInvalid, "spec.egress.allow", time.Minute),
			"fail  tool server team/crm: is not ready, and no edit of a definition that uses it compiles: Invalid: spec.egress.allow | to do: correct the field that the message names\n",
		},
		"a tool server's Job has a name that is taken": {
			ready(metav1.ConditionFalse, v1alpha1.ReasonNameTaken, "a Job named x exists", time.Minute),
			"fail  tool server team/crm: is not ready, and no edit of a definition that uses it compiles: NameTaken: a Job named x exists | to do: remove what holds the name\n",
		},
		"a tool server is being asked": {
			ready(metav1.ConditionUnknown, v1alpha1.ReasonDiscovering, "Job x asks", time.Minute),
			"warn  tool server team/crm: is not ready, and no edit of a definition that uses it compiles: Discovering: Job x asks | to do: ask again; if this stays, see to the Job that the message names\n",
		},
		"a tool server is being asked for long": {
			ready(metav1.ConditionUnknown, v1alpha1.ReasonDiscovering, "Job x has not started: no image", 6*time.Minute),
			"fail  tool server team/crm: is not ready, and no edit of a definition that uses it compiles: Discovering: Job x has not started: no image | to do: ask again; if this stays, see to the Job that the message names\n",
		},
		"an edit of a tool server was not looked at": {
			func(f *Facts) { f.Tools.Value[0].Generation = 3 },
			"warn  tool server team/crm: its newest edit has not been looked at yet | to do: ask again; if this stays, see to the manager\n",
		},
		"a tool server that nobody looks at": {
			func(f *Facts) { f.Tools.Value[0].Status.Conditions = nil },
			"fail  tool server team/crm: no manager has looked at it | to do: see to the manager\n",
		},
		"a tool server's Secret is missing": {
			secret(Seen[map[string]bool]{Err: missing}), "fail  tool server team/crm: its Secret crm is missing | to do: create it with the key token\n",
		},
		"a tool server's key is missing": {
			secret(Seen[map[string]bool]{}), "fail  tool server team/crm: its Secret crm has no key token, or nothing in it | to do: put the key that the server wants there\n",
		},
		"Secrets of tool servers may not be read": {
			secret(Seen[map[string]bool]{Err: forbidden}), "skip  Secrets of 1 tool servers in namespace team: not checked: you may not read Secrets there\n",
		},

		"a policy was never in force": {
			func(f *Facts) { f.Policies.Value[0].Status = v1alpha1.AgentPolicyStatus{} },
			"fail  agent policy team/default: is not in force: calls go by no rule of it | to do: see to the manager and the Postgres it writes policies to: its logs say what keeps it\n",
		},
		"an edit of a policy is not in force": {
			func(f *Facts) { f.Policies.Value[0].Generation = 3 },
			"fail  agent policy team/default: its newest edit is not in force: calls go by generation 2, and it is at 3 | to do: see to the manager and the Postgres it writes policies to: its logs say what keeps it\n",
		},
		"an edit of a policy that was made just now": {
			func(f *Facts) {
				f.Policies.Value[0].Generation, f.Policies.Value[0].ManagedFields[0].Time = 3, ptr(before(30*time.Second))
			},
			"warn  agent policy team/default: its newest edit is not in force: calls go by generation 2, and it is at 3 | to do: ask again; if this stays, see to the manager\n",
		},

		"a request is old": {
			request(func(r *v1alpha1.ApprovalRequest) { r.CreationTimestamp = before(25 * time.Hour) }),
			"warn  approval request team/w-0-0: run w has waited 25h0m for pool finance to decide on crm/refund, and does so for another 45h0m | to do: remind the approvers of the pool: kubectl ekiden approve w-0-0 -n team, or deny\n",
		},
		"an old request is over": {
			func(f *Facts) {
				decided(time.Second)(f)
				f.Requests.Value[0].CreationTimestamp = before(25 * time.Hour)
			}, "",
		},
		"a decision is not honoured": {
			request(func(r *v1alpha1.ApprovalRequest) {
				r.Spec.Decision = v1alpha1.Decision{Verdict: v1alpha1.VerdictApproved, By: "dana\x1b[2J"}
				r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{
					Type: v1alpha1.ConditionApprovalsGuarded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotGuarded, Message: "a policy is missing: apply config/admission",
				})
			}),
			"fail  approval request team/w-0-0: the decision of dana is not honoured, and run w waits: NotGuarded: a policy is missing: apply config/admission | to do: do what the message says; the decision is void then, and a new request asks again\n",
		},
		"a request has expired and nobody said so": {
			request(func(r *v1alpha1.ApprovalRequest) { r.Spec.ExpiresAt = before(2 * time.Minute) }),
			"fail  approval request team/w-0-0: expired 2m ago, and run w has not been told | to do: see to the manager\n",
		},
		"a request that nobody looks at": {
			request(func(r *v1alpha1.ApprovalRequest) { r.Status = v1alpha1.ApprovalRequestStatus{} }),
			"fail  approval request team/w-0-0: no manager has looked at it for 3h0m | to do: see to the manager\n",
		},
		"requests may not be read": {
			func(f *Facts) { f.Requests = Seen[[]v1alpha1.ApprovalRequest]{Err: forbidden} },
			"skip  approval requests of namespace team: not checked: you may not read it | to do: ask somebody who may, or use --as\n",
		},
		"requests cannot be read": {
			func(f *Facts) { f.Requests = Seen[[]v1alpha1.ApprovalRequest]{Err: errors.New("broken")} },
			"fail  approval requests of namespace team: cannot be read: broken\n",
		},

		"a run waits and nobody is asked": {
			func(f *Facts) { f.Requests.Value = nil },
			"fail  run team/w: waits for people, and for 3h0m none of its requests has been open: crm/refund wants a decision of pool finance (no event is kept) | to do: see to what the message names, else to the manager: it makes the requests and starts the next segment\n",
		},
		"a run waits although it was decided": {
			decided(2 * time.Minute),
			"fail  run team/w: waits for people, and for 2m none of its requests has been open: crm/refund wants a decision of pool finance (no event is kept) | to do: see to what the message names, else to the manager: it makes the requests and starts the next segment\n",
		},
		"a run that was decided on has a moment to go on": {decided(50 * time.Second), ""},
		"a run that has waited may be older than its limits": {
			func(f *Facts) {
				decided(time.Hour)(f)
				f.Runs.Value[1].Status.Conditions[0].Reason, f.Runs.Value[1].ManagedFields[0].Time = v1alpha1.ReasonRunning, ptr(before(time.Second))
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			tc.given(&f)
			var out, got strings.Builder
			if err := Print(&out, Judge(f)); err != nil {
				t.Fatal(err)
			}
			for l := range strings.Lines(out.String()) {
				if !strings.HasPrefix(l, "ok") {
					got.WriteString(l)
				}
			}
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
