package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// The stories that take the guard of decisions away are not parallel: everybody's decisions depend on it.

const (
	guardPolicy  = "validatingadmissionpolicy/ekiden-approval-decision"
	guardBinding = "validatingadmissionpolicybinding/ekiden-approval-decision"
	stampPolicy  = "mutatingadmissionpolicy/ekiden-approval-decision"
	stampBinding = "mutatingadmissionpolicybinding/ekiden-approval-decision"
)

// meddle runs kubectl as the administrator.
func meddle(args ...string) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		if _, err := shared.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
}

// applied does what the sentence says that cures all of it.
func applied(t *testing.T) {
	t.Helper()
	// t.Context() has ended when this is called for cleaning up.
	if _, err := shared.Kubectl(context.WithoutCancel(t.Context()), "apply", "-k", filepath.Join(shared.Repo, "config", "admission")); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutItsPoliciesNoDecisionIsHonoured takes away, in flight, each of the things that say who decides. What is decided in
// the meantime is worth nothing, then and later: a new request comes once the policies are back.
func TestWithoutItsPoliciesNoDecisionIsHonoured(t *testing.T) {
	both := func(fs ...func(*testing.T)) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			for _, f := range fs {
				f(t)
			}
		}
	}
	for name, tc := range map[string]struct {
		broken func(*testing.T)
		// by is who decides, and claimed whom the decision names.
		by, claimed string
		// stored is who is stored as the one who decided.
		stored string
		says   string
	}{
		"the binding of the guard is deleted": {
			broken: meddle("delete", guardBinding), by: "mallory", claimed: "carol", stored: "mallory",
			says: "ValidatingAdmissionPolicyBinding ekiden-approval-decision is missing: apply config/admission",
		},
		"the guard is deleted": {
			broken: meddle("delete", guardPolicy), by: "mallory", claimed: "carol", stored: "mallory",
			says: "ValidatingAdmissionPolicy ekiden-approval-decision is missing: apply config/admission",
		},
		"all of it is deleted": {
			broken: meddle("delete", guardPolicy, guardBinding, stampPolicy, stampBinding), by: "mallory", claimed: "carol", stored: "carol",
			says: "is missing: apply config/admission",
		},
		"the stamp is deleted": {
			broken: meddle("delete", stampPolicy), by: "alice", claimed: "alice", stored: "alice",
			says: "MutatingAdmissionPolicy ekiden-approval-decision is missing: apply config/admission",
		},
		"the guard only audits": {
			broken: meddle("patch", guardBinding, "--type=merge", "-p", `{"spec":{"validationActions":["Audit"]}}`), by: "mallory", claimed: "carol", stored: "mallory",
			says: "spec.validationActions of ValidatingAdmissionPolicyBinding ekiden-approval-decision is not as this version of the manager has it: apply config/admission",
		},
		"an expression of the guard is changed, and the stamp is unbound": {
			broken: both(
				meddle("delete", stampBinding),
				meddle("patch", guardPolicy, "--type=json", "-p", `[{"op":"replace","path":"/spec/validations","value":[{"expression":"request.operation != 'CREATE' || !has(object.spec.decision)","message":"An approval request is created open."}]}]`),
			), by: "mallory", claimed: "carol", stored: "carol",
			says: "ekiden-approval-decision is",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { applied(t) })
			d := open(t, wants(refunds(120)), answer("Paid."))
			d.approvers("finance", "alice", "carol")
			d.patchers("mallory", "alice")
			d.start("refund")
			asked := d.requested(1, v1alpha1.ApprovalPending)[0]
			d.parked()

			tc.broken(t)
			decision := fmt.Sprintf(`{"verdict":"Approved","by":%q,"groups":["system:authenticated"]}`, tc.claimed)
			d.eventually("the API server has noticed, and takes the decision", func() bool { return d.says(tc.by, asked.Name, decision) == "" })
			forged := d.doubted(asked.Name)
			if by := forged.Spec.Decision.By; by != tc.stored {
				t.Fatalf("decided by %q, want %q: nothing was tried", by, tc.stored)
			}
			if c := meta.FindStatusCondition(forged.Status.Conditions, v1alpha1.ConditionApprovalsGuarded); !strings.Contains(c.Message, tc.says) {
				t.Errorf("says %q, want %q", c.Message, tc.says)
			}
			d.told(asked.Name, v1alpha1.ReasonNotGuarded)
			d.eventually("the metric tells", func() bool { return leaderShows(t, "ekiden_approvals_guarded 0") })
			d.unheard(asked.Name)

			applied(t)
			again := d.askedAnew(asked.UID)
			if again.Spec.Decision.Verdict != "" || again.Spec.Call.Digest != asked.Spec.Call.Digest {
				t.Errorf("asks again with %+v", again.Spec)
			}
			old := d.requested(1, v1alpha1.ApprovalWithdrawn)[0]
			if c := meta.FindStatusCondition(old.Status.Conditions, v1alpha1.ConditionDecided); c.Reason != v1alpha1.ReasonNotGuarded || !strings.Contains(c.Message, tc.stored) {
				t.Errorf("withdrawn with %s: %s", c.Reason, c.Message)
			}
			d.eventually("the metric tells that all is well", func() bool { return leaderShows(t, "ekiden_approvals_guarded 1") })
			d.unheard(again.Name)
			d.eventually("a stranger is refused again", func() bool {
				return strings.Contains(d.says("mallory", again.Name, `{"verdict":"Approved"}`), "mallory is no approver")
			})
			d.eventually("an approver decides", func() bool { return d.says("alice", again.Name, `{"verdict":"Approved"}`) == "" })
			r := d.finished("refund")
			d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
			d.balanced(r, 1)
			if by := d.journal(r)[0].By; len(by) != 1 || by[0] != "alice" {
				t.Errorf("the journal says that %v approved", by)
			}
		})
	}
}

// TestADecisionWithoutItsPoliciesThatNobodySaw is decided and the policies are back before any manager looks: what is stored
// looks as if it had been given under them.
func TestADecisionWithoutItsPoliciesThatNobodySaw(t *testing.T) {
	t.Cleanup(func() { applied(t); staff(t, 2) })
	d := open(t, wants(refunds(120)), answer("Paid."))
	d.approvers("finance", "alice", "carol")
	d.patchers("mallory")
	d.start("refund")
	asked := d.requested(1, v1alpha1.ApprovalPending)[0]
	d.parked()
	staff(t, 0)
	meddle("delete", guardPolicy, guardBinding, stampPolicy, stampBinding)(t)
	d.eventually("the API server has noticed, and takes the decision", func() bool {
		return d.says("mallory", asked.Name, `{"verdict":"Approved","by":"carol","groups":["system:authenticated"]}`) == ""
	})
	applied(t)
	staff(t, 2)
	again := d.askedAnew(asked.UID)
	d.unheard(again.Name)
	d.eventually("an approver decides", func() bool { return d.says("alice", again.Name, `{"verdict":"Approved"}`) == "" })
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 1)
	if by := d.journal(r)[0].By; len(by) != 1 || by[0] != "alice" {
		t.Errorf("the journal says that %v approved", by)
	}
}

// askedAnew waits for the one open request, once it is another one than before.
func (s *story) askedAnew(before types.UID) v1alpha1.ApprovalRequest {
	s.Helper()
	var again v1alpha1.ApprovalRequest
	s.eventually("somebody is asked again", func() bool {
		again = s.requested(1, v1alpha1.ApprovalPending)[0]
		return again.UID != before
	})
	return again
}

// patchers may read and patch requests, which by itself decides nothing.
func (s *story) patchers(people ...string) {
	s.Helper()
	var subjects []rbacv1.Subject
	for _, p := range people {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: p})
	}
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "patch"}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ekiden-approver"},
	})
}

// doubted waits until a request says that its decision is not honoured.
func (s *story) doubted(name string) *v1alpha1.ApprovalRequest {
	s.Helper()
	var q v1alpha1.ApprovalRequest
	s.eventually(name+" says that it is not guarded", func() bool {
		if api.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &q) != nil {
			return false
		}
		c := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionApprovalsGuarded)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonNotGuarded
	})
	return &q
}

// unheard checks that nothing has come of what was decided so far.
func (d *desk) unheard(request string) {
	d.Helper()
	var q v1alpha1.ApprovalRequest
	if err := api.Get(d.Context(), client.ObjectKey{Namespace: d.namespace, Name: request}, &q); err != nil {
		d.Fatal(err)
	}
	if q.Status.Phase != v1alpha1.ApprovalPending {
		d.Errorf("%s is %s", request, q.Status.Phase)
	}
	if r := d.get("refund"); r.Status.Phase != v1alpha1.RunWaiting {
		d.Errorf("the run is %s", r.Status.Phase)
	}
	if c := d.tools.Counts(); c.Effects != 0 || c.Requests[toolserver.Refund] != 0 {
		d.Errorf("the tool server counted %+v", c)
	}
	var delivered int
	if err := superuser(d.T).QueryRow(d.Context(), `SELECT count(*) FROM ekiden.inbox i JOIN ekiden.runs r USING (run_uid) WHERE r.namespace_uid = $1::uuid`, d.uid()).Scan(&delivered); err != nil {
		d.Fatal(err)
	}
	if delivered != 0 {
		d.Errorf("the run was told of %d decisions", delivered)
	}
}

// leaderShows reports whether the manager that works shows a line of metrics.
func leaderShows(t *testing.T, line string) bool {
	t.Helper()
	var pods corev1.PodList
	if api.List(t.Context(), &pods, client.InNamespace(cluster.ManagerNamespace)) != nil {
		return false
	}
	for _, p := range pods.Items {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Status.PodIP+":8080/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil { // this one is dead or coming up
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if strings.Contains(string(body), line+"\n") {
			return true
		}
	}
	return false
}

// staff has so many managers run, and waits for it.
func staff(t *testing.T, n int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // which has ended when this is called for cleaning up
	if _, err := shared.Kubectl(ctx, "-n", cluster.ManagerNamespace, "scale", "deployment/ekiden-manager", "--replicas="+itoa(n)); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		kill(t, managers(t)...)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for len(managers(t)) != n {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %d managers run", n)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
