package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// TestApproved is the main job: a read runs by itself, a refund waits without a pod and without a connection, a person says yes,
// the refund is paid once, and the answer comes.
func TestApproved(t *testing.T) {
	t.Parallel()
	d := open(t, wants(reads("4711")), wants(refunds(120)), answer("Your money is on its way."))
	d.approvers("finance", "alice")
	d.start("refund")
	r := d.parked()
	areq := d.requested(1, v1alpha1.ApprovalPending)[0]
	if w := r.Status.WaitingOn; len(w) != 1 || w[0].Kind != v1alpha1.WaitApproval || w[0].Count != 1 || len(w[0].Names) != 1 || w[0].Names[0] != areq.Name || w[0].Until.IsZero() {
		t.Errorf("waitingOn is %+v, want %s", w, areq.Name)
	}
	if reason(r) != v1alpha1.ReasonAwaitingApproval {
		t.Errorf("reason %s", reason(r))
	}
	want := v1alpha1.ApprovalRequestCall{Turn: ptr(int32(1)), Index: new(int32), Tool: "crm/refund", Effect: v1alpha1.EffectSend, Arguments: `{"amount":"120","id":"4711"}`, Digest: areq.Spec.Call.Digest}
	same(t, want, areq.Spec.Call)
	if areq.Spec.Requester.User != r.Spec.Principal.User || areq.Spec.Pool != "finance" || areq.Spec.Policy.Rule != "money" || areq.Spec.RunRef.UID != r.UID {
		t.Errorf("asks %+v", areq.Spec)
	}
	d.eventually("no pod is left while the run waits", func() bool {
		for _, p := range d.pods() {
			if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodPending {
				return false
			}
		}
		return true
	})
	super := superuser(t)
	d.eventually("no connection of the namespace's login is open while the run waits", func() bool {
		var n int
		err := super.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'ekiden_' || replace($1, '-', '') || '%'`, d.uid()).Scan(&n)
		return err == nil && n == 0
	})
	if c := d.tools.Counts(); c.Effects != 0 {
		t.Errorf("paid before anybody said so: %+v", c)
	}

	d.approves("alice", areq.Name)
	r = d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if r.Status.Result.Text != "Your money is on its way." || r.Status.Usage.ToolCalls != 2 || r.Status.Usage.Turns != 3 || len(r.Status.WaitingOn) != 0 {
		t.Errorf("status %+v", r.Status)
	}
	if c := d.tools.Counts(); c.Effects != 1 || c.Calls[toolserver.GetCustomer] != 1 {
		t.Errorf("the tool server counted %+v", c)
	}
	d.wantRequests(3)
	d.balanced(r, 2)
	decided := d.requested(1, v1alpha1.ApprovalApproved)[0]
	if decided.Spec.Decision.By != "alice" || decided.Status.DecidedAt.IsZero() {
		t.Errorf("decided %+v, %+v", decided.Spec.Decision, decided.Status)
	}
	d.told("refund", v1alpha1.ReasonAwaitingApproval)
	d.told(areq.Name, v1alpha1.ReasonApproved)
	if by := d.journal(r)[1].By; len(by) != 1 || by[0] != "alice" {
		t.Errorf("the journal says that %v approved", by)
	}
}

// TestNotApproved tells the model why a call was not made, and the run goes on.
func TestNotApproved(t *testing.T) {
	t.Parallel()
	t.Run("denied with a reason", func(t *testing.T) {
		t.Parallel()
		d := open(t, wants(refunds(120)), answer("Sorry."))
		d.approvers("finance", "alice")
		d.start("refund")
		if refusal := d.says("alice", d.requested(1, v1alpha1.ApprovalPending)[0].Name, `{"verdict":"Denied","reason":"never delivered"}`); refusal != "" {
			t.Fatal(refusal)
		}
		d.notPaid(`alice`, `never delivered`)
	})
	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		d := open(t, wants(refunds(120)), answer("Sorry."))
		d.rule(asking(func(a *v1alpha1.PolicyApproval) { a.ExpiresSeconds = 2 }))
		d.start("refund")
		areq := d.requested(1, v1alpha1.ApprovalExpired)[0]
		d.notPaid(`nobody`)
		d.approvers("finance", "alice")
		if refusal := d.says("alice", areq.Name, `{"verdict":"Approved"}`); !strings.Contains(refusal, "no longer open") {
			t.Errorf("a late decision reads %q", refusal)
		}
	})
	t.Run("denied by policy", func(t *testing.T) {
		t.Parallel()
		d := open(t, wants(refunds(120)), answer("Sorry."))
		d.rule(v1alpha1.PolicyRule{Name: "no-money", Match: v1alpha1.PolicyMatch{Tools: []string{"*/refund"}}, Action: v1alpha1.PolicyDeny})
		d.start("refund")
		d.notPaid(d.namespace + "/default/no-money")
		d.requested(0, v1alpha1.ApprovalPending)
	})
}

// notPaid checks that the run ended well without its refund, and that the model was told these words.
func (d *desk) notPaid(words ...string) {
	d.Helper()
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	rows := d.journal(r)
	if len(rows) != 1 || rows[0].Kind != "refused" || rows[0].Begun {
		d.Fatalf("the journal says %+v", rows)
	}
	for _, w := range words {
		if !strings.Contains(strings.ToLower(rows[0].Text), strings.ToLower(w)) {
			d.Errorf("the model was told %q, want %q", rows[0].Text, w)
		}
	}
	if c := d.tools.Counts(); c.Effects != 0 || c.Requests[toolserver.Refund] != 0 {
		d.Errorf("the tool server counted %+v", c)
	}
}

// TestDecidedEarly decides on the second of two calls before the first, and on the first while a segment starts.
func TestDecidedEarly(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(1), refunds(2), refunds(3)), answer("All paid."))
	d.approvers("finance", "alice")
	d.start("refund")
	areqs := d.requested(3, v1alpha1.ApprovalPending)
	if r := d.parked(); r.Status.WaitingOn[0].Count != 3 {
		t.Errorf("waits for %+v", r.Status.WaitingOn)
	}
	// The last one first: nothing starts for it.
	d.approves("alice", areqs[2].Name)
	d.requested(1, v1alpha1.ApprovalApproved)
	if n := len(d.segments()); n != 1 {
		t.Errorf("%d segments although the first call is not decided", n)
	}
	// Both others at once: one of them arrives while the next segment starts or works.
	d.approves("alice", areqs[0].Name)
	d.approves("alice", areqs[1].Name)
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if c := d.tools.Counts(); c.Effects != 3 {
		t.Errorf("the tool server counted %+v", c)
	}
	d.wantRequests(2)
	d.balanced(r, 3)
}

// TestTwoSeats wants two different people.
func TestTwoSeats(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(5000)), answer("Paid."))
	d.rule(asking(func(a *v1alpha1.PolicyApproval) { a.Seats = 2 }))
	d.approvers("finance", "alice", "carol")
	d.start("refund")
	areqs := d.requested(2, v1alpha1.ApprovalPending)
	d.approves("alice", areqs[0].Name)
	d.requested(1, v1alpha1.ApprovalApproved)
	d.approves("alice", areqs[1].Name)
	// Her second yes is void, and somebody else is asked anew.
	d.requested(1, v1alpha1.ApprovalWithdrawn)
	again := d.requested(1, v1alpha1.ApprovalPending)[0]
	if again.Name == areqs[1].Name || again.Spec.Seat != areqs[1].Spec.Seat {
		t.Errorf("asked again with %s for seat %d", again.Name, again.Spec.Seat)
	}
	if c := d.tools.Counts(); c.Effects != 0 {
		t.Errorf("paid with one yes: %+v", c)
	}
	d.approves("carol", again.Name)
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 1)
	if by := d.journal(r)[0].By; len(by) != 2 {
		t.Errorf("approved by %v", by)
	}
}

// TestWhoMayNotDecide has everybody try who must not, with the sentence they read.
func TestWhoMayNotDecide(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(120)), answer("Paid."))
	d.approvers("finance", "alice", "dana")
	d.approvers("legal", "larry")
	d.start("refund", func(r *v1alpha1.AgentRun) { r.Spec.Principal = v1alpha1.Principal{User: "dana"} })
	areq := d.requested(1, v1alpha1.ApprovalPending)[0].Name
	for name, tc := range map[string]struct{ person, decision, want string }{
		"the one the run acts for":            {"dana", `{"verdict":"Approved"}`, "the run acts for you, dana"},
		"an approver of another pool":         {"larry", `{"verdict":"Approved"}`, "larry is no approver of pool finance"},
		"a stranger":                          {"mallory", `{"verdict":"Approved"}`, "forbidden: User"},
		"the namespace's own service account": {"system:serviceaccount:" + d.namespace + ":default", `{"verdict":"Approved"}`, "forbidden: User"},
		"a verdict that there is none":        {"alice", `{"verdict":"Maybe"}`, "Unsupported value"},
	} {
		if refusal := d.says(tc.person, areq, tc.decision); !strings.Contains(refusal, tc.want) {
			t.Errorf("%s reads %q, want %q", name, refusal, tc.want)
		}
	}
	// Nobody decides as somebody else: what is written there is overwritten.
	if refusal := d.says("alice", areq, `{"verdict":"Approved","by":"carol","groups":["system:masters"]}`); refusal != "" {
		t.Fatal(refusal)
	}
	d.finished("refund")
	decided := d.requested(1, v1alpha1.ApprovalApproved)[0]
	if decided.Spec.Decision.By != "alice" {
		t.Errorf("decided by %s", decided.Spec.Decision.By)
	}
	// A decision is final, for an administrator too.
	if _, err := shared.Kubectl(t.Context(), "-n", d.namespace, "patch", "areq", areq, "--type", "merge", "-p", `{"spec":{"decision":{"verdict":"Denied"}}}`); err == nil || !strings.Contains(err.Error(), "final") {
		t.Errorf("an administrator changes a decision: %v", err)
	}
}

// TestRequestDeletedAndMadeAnew: what was decided on an object that is gone is worth nothing, and the run asks again.
func TestRequestDeletedAndMadeAnew(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(120)), answer("Paid."))
	d.approvers("finance", "alice")
	d.start("refund")
	first := d.requested(1, v1alpha1.ApprovalPending)[0]
	if err := api.Delete(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	var second v1alpha1.ApprovalRequest
	d.eventually("the run asks again", func() bool {
		return api.Get(t.Context(), client.ObjectKeyFromObject(&first), &second) == nil && second.UID != first.UID && second.Status.Phase == v1alpha1.ApprovalPending
	})
	same(t, first.Spec, second.Spec)
	d.approves("alice", second.Name)
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 1)
}

// TestCancelledWhileItWaits withdraws the question.
func TestCancelledWhileItWaits(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(120)), answer("Paid."))
	d.approvers("finance", "alice")
	d.start("refund")
	areq := d.requested(1, v1alpha1.ApprovalPending)[0]
	d.parked()
	if _, err := shared.Kubectl(t.Context(), "-n", d.namespace, "patch", "arun", "refund", "--type", "merge", "-p", `{"spec":{"desiredState":"Cancelled"}}`); err != nil {
		t.Fatal(err)
	}
	d.want(d.finished("refund"), v1alpha1.RunCancelled, v1alpha1.ReasonCancelled)
	d.requested(1, v1alpha1.ApprovalWithdrawn)
	if refusal := d.says("alice", areq.Name, `{"verdict":"Approved"}`); !strings.Contains(refusal, "no longer open") {
		t.Errorf("a decision on a withdrawn request reads %q", refusal)
	}
	if c := d.tools.Counts(); c.Effects != 0 {
		t.Errorf("the tool server counted %+v", c)
	}
	d.told(areq.Name, v1alpha1.ReasonWithdrawn)
}

// TestAPolicyChangesUnderARun reaches the next call of a run in flight, in both directions.
func TestAPolicyChangesUnderARun(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(1)), wants(refunds(2)), wants(refunds(3)), answer("Done."))
	d.approvers("finance", "alice")
	d.start("refund")
	areq := d.requested(1, v1alpha1.ApprovalPending)[0]
	d.rule(v1alpha1.PolicyRule{Name: "all", Action: v1alpha1.PolicyAllow}) // while it is parked: what was asked stands
	d.approves("alice", areq.Name)
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 3)
	if c := d.tools.Counts(); c.Effects != 3 {
		t.Errorf("the tool server counted %+v", c)
	}
	// A definition that is careful is not loosened by a policy.
	d.eventually("the definition asks in any case", func() bool {
		var def v1alpha1.AgentDefinition
		if api.Get(t.Context(), client.ObjectKey{Namespace: d.namespace, Name: given.Agent}, &def) != nil {
			return false
		}
		def.Spec.Tools = nil
		given.UsesApproved(given.Tools, toolserver.Refund)(&def)
		return api.Update(t.Context(), &def) == nil
	})
	d.start("careful", given.Task("another"))
	if got := d.requested(1, v1alpha1.ApprovalPending)[0]; got.Spec.Pool != "default" || got.Spec.RunRef.Name != "careful" {
		t.Errorf("asks pool %s for %s", got.Spec.Pool, got.Spec.RunRef.Name)
	}
}

// TestADayOfWaitingCostsNothing moves the clock of the ledger's rows instead of waiting.
func TestADayOfWaitingCostsNothing(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(120)), answer("Paid."))
	d.rule(asking(func(a *v1alpha1.PolicyApproval) { a.ExpiresSeconds = 7 * 24 * 3600 }))
	d.approvers("finance", "alice")
	d.start("refund", given.Narrowed(v1alpha1.Limits{ActiveSeconds: 60, Segments: 1}))
	r := d.parked()
	for _, sql := range []string{
		`UPDATE ekiden.claims SET beat = beat - interval '1 day' WHERE run_uid = $1`,
		`UPDATE ekiden.runs SET admitted_at = admitted_at - interval '1 day' WHERE run_uid = $1`,
		`UPDATE ekiden.attempts SET begun_at = begun_at - interval '1 day', ended_at = ended_at - interval '1 day' WHERE run_uid = $1`,
		`UPDATE ekiden.outcomes SET at = at - interval '1 day' WHERE run_uid = $1`,
	} {
		if _, err := superuser(t).Exec(t.Context(), sql, string(r.UID)); err != nil {
			t.Fatal(err)
		}
	}
	d.approves("alice", d.requested(1, v1alpha1.ApprovalPending)[0].Name)
	r = d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if r.Status.ActiveSeconds == nil || *r.Status.ActiveSeconds > 55 {
		t.Errorf("active for %v seconds", r.Status.ActiveSeconds)
	}
}

// uid is the namespace's.
func (s *story) uid() string {
	s.Helper()
	var ns corev1.Namespace
	if err := api.Get(s.Context(), client.ObjectKey{Name: s.namespace}, &ns); err != nil {
		s.Fatal(err)
	}
	return string(ns.UID)
}

// same compares two values.
func same(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func ptr[T any](v T) *T { return &v }
