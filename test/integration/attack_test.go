package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// TestSixtyFourCallsThatWaitTogether are asked about together, and each is made once.
func TestSixtyFourCallsThatWaitTogether(t *testing.T) {
	t.Parallel()
	const n = 64
	var calls []modelserver.Call
	for i := range n {
		calls = append(calls, refunds(i+1))
	}
	d := openWith(t, candid, nil, wants(calls...), answer("All paid."))
	d.approvers("finance", "alice")
	d.eventually("the definition allows as many", func() bool {
		var def v1alpha1.AgentDefinition
		if api.Get(t.Context(), client.ObjectKey{Namespace: d.namespace, Name: given.Agent}, &def) != nil {
			return false
		}
		given.Limited(v1alpha1.Limits{ToolCalls: n})(&def)
		return api.Update(t.Context(), &def) == nil
	})
	d.start("refund")
	open := d.requested(n, v1alpha1.ApprovalPending)
	r := d.parked()
	if size := statusBytes(t, r); size > 8<<10 || r.Status.WaitingOn[0].Count != n {
		t.Errorf("the status has %d bytes and counts %d", size, r.Status.WaitingOn[0].Count)
	}
	for _, q := range open {
		d.approves("alice", q.Name)
	}
	r = d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, n)
	if c := d.tools.Counts(); c.Effects != n {
		t.Errorf("the tool server counted %+v", c)
	}
	d.wantRequests(2)
	t.Logf("%d segments", len(d.segments()))
}

// TestWhatAnApproverSees of arguments that were written to deceive whoever reads them on a terminal.
func TestWhatAnApproverSees(t *testing.T) {
	t.Parallel()
	d := open(t, wants(modelserver.Call{Name: toolserver.Refund, Arguments: `{"id":"\u202e1174\u202c\u001b[2J\u001b[8m\u200b\u2066x","amount":"1\r2\u0007\u009b31m"}`}), answer("Paid."))
	d.approvers("finance", "alice")
	d.start("refund")
	q := d.requested(1, v1alpha1.ApprovalPending)[0]
	see := func(out string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out, func(r rune) bool {
			return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2060 && r <= 0x206f
		}); i >= 0 {
			t.Errorf("an approver's terminal is sent %q", out[max(0, i-40):min(len(out), i+40)])
		}
	}
	for _, args := range []string{"get areq", "get areq -o yaml", "get areq -o json", "describe areq " + q.Name, "get areq " + q.Name + " -o jsonpath={.spec.call.arguments}", "get events"} {
		see(shared.Kubectl(t.Context(), append([]string{"-n", d.namespace}, strings.Fields(args)...)...))
	}
	plugin := exec.CommandContext(t.Context(), filepath.Join(shared.Repo, "bin", "kubectl-ekiden"), "approvals", "--kubeconfig", shared.Kubeconfig(), "-n", d.namespace)
	out, err := plugin.CombinedOutput()
	see(string(out), err)
	t.Logf("%s\n%s", q.Spec.Call.Arguments, out)
	d.approves("alice", q.Name)
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 1)
}

// TestAPolicyThatFlips all the time under a run with thirty calls: each call is made once or refused, and none is lost.
func TestAPolicyThatFlips(t *testing.T) {
	t.Parallel()
	const n = 30
	var steps []modelserver.Step
	for i := range n {
		steps = append(steps, wants(refunds(i+1)))
	}
	d := openWith(t, candid, nil, append(steps, answer("Done."))...)
	d.rule(everything)
	deny := v1alpha1.PolicyRule{Name: "none", Match: v1alpha1.PolicyMatch{Tools: []string{"*/refund"}}, Action: v1alpha1.PolicyDeny}
	d.start("flip", given.Narrowed(v1alpha1.Limits{Turns: n + 1, ToolCalls: n}))
	flips := 0
	for finished := false; !finished; flips++ {
		rule := []v1alpha1.PolicyRule{everything, deny}[flips%2]
		p := d.policy()
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		p.Spec.Rules = []v1alpha1.PolicyRule{rule}
		_ = api.Update(t.Context(), p)     // a conflict is as good as a flip
		time.Sleep(200 * time.Millisecond) //nolint:forbidigo // It spreads the flips; nothing depends on how.
		finished = meta.IsStatusConditionTrue(d.get("flip").Status.Conditions, v1alpha1.ConditionFinished)
	}
	r := d.finished("flip")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	rows := d.journal(r)
	kinds := map[string]int{}
	for _, row := range rows {
		kinds[row.Kind]++
		if row.Begun != (row.Kind == "answered") {
			t.Errorf("the journal says %+v", row)
		}
	}
	if len(rows) != n || kinds["answered"]+kinds["refused"] != n || d.tools.Counts().Effects != kinds["answered"] {
		t.Errorf("%d calls: %v, and %d refunds were paid", len(rows), kinds, d.tools.Counts().Effects)
	}
	t.Logf("%d flips: %v", flips, kinds)
}

// TestGoneWhileItWaits deletes a run, and then a namespace, that wait for people: nothing is left over and nothing wedges.
func TestGoneWhileItWaits(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(120)), answer("Paid."))
	d.start("refund")
	d.requested(1, v1alpha1.ApprovalPending)
	r := d.parked()
	if err := api.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	d.eventually("the run is gone, and its request", func() bool {
		var runs v1alpha1.AgentRunList
		var requests v1alpha1.ApprovalRequestList
		return api.List(t.Context(), &runs, client.InNamespace(d.namespace)) == nil && len(runs.Items) == 0 &&
			api.List(t.Context(), &requests, client.InNamespace(d.namespace)) == nil && len(requests.Items) == 0
	})
	d.start("refund", given.Task("again"))
	d.requested(1, v1alpha1.ApprovalPending)
	d.parked()
	var ns corev1.Namespace
	if err := api.Get(t.Context(), client.ObjectKey{Name: d.namespace}, &ns); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), &ns); err != nil {
		t.Fatal(err)
	}
	d.eventually("the namespace is gone", func() bool {
		err := api.Get(t.Context(), client.ObjectKey{Name: d.namespace}, &ns)
		return err != nil && client.IgnoreNotFound(err) == nil
	})
	if c := d.tools.Counts(); c.Requests[toolserver.Refund] != 0 {
		t.Errorf("the tool server counted %+v", c)
	}
}

// TestWhatANamespacesAdministratorCannotDo to requests: neither hold them, nor hide them, nor answer them.
func TestWhatANamespacesAdministratorCannotDo(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(120)), answer("Paid."))
	d.approvers("finance", "alice")
	d.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "admin"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "adam"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
	})
	d.patchers("adam")
	d.start("refund")
	q := d.requested(1, v1alpha1.ApprovalPending)[0]
	try := func(args ...string) {
		t.Helper()
		if _, err := shared.Kubectl(t.Context(), append([]string{"--as", "adam", "-n", d.namespace}, args...)...); err == nil {
			t.Errorf("adam may %v", args)
		} else {
			t.Logf("%v: %s", args, err.Error()[max(0, len(err.Error())-230):])
		}
	}
	try("patch", "areq", q.Name, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	try("patch", "areq", q.Name, "--type=merge", "-p", `{"metadata":{"labels":{"ekiden.dev/run-uid":"another"}}}`)
	try("patch", "areq", q.Name, "--type=merge", "-p", `{"metadata":{"ownerReferences":null}}`)
	try("patch", "areq", q.Name, "--type=merge", "-p", `{"metadata":{"annotations":{"a":"b"}}}`)
	try("patch", "areq", q.Name, "--type=merge", "-p", `{"spec":{"pool":"mine"}}`)
	try("patch", "areq", q.Name, "--type=merge", "-p", `{"spec":{"decision":{"verdict":"Approved"}}}`)
	try("patch", "areq", q.Name, "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Approved"}}`)
	try("delete", "areq", q.Name)
	try("delete", "areq", "--all")
	// He gives himself no pool either: only who has a right gives it on.
	try("create", "role", "me", "--verb=approve", "--resource=approverpools.ekiden.dev", "--resource-name=finance")
	d.approves("alice", q.Name)
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 1)
}

// TestAQuotaOnRequests keeps a run from asking. It says so, nothing is called, and it asks once it can.
func TestAQuotaOnRequests(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(120)), answer("Paid."))
	d.approvers("finance", "alice")
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/approvalrequests.ekiden.dev": resource.MustParse("0")}},
	}
	d.create(quota)
	d.eventually("the quota is in force", func() bool {
		return api.Get(t.Context(), client.ObjectKeyFromObject(quota), quota) == nil && len(quota.Status.Hard) > 0
	})
	d.start("refund")
	r := d.until("refund", "says that it cannot ask", func(r *v1alpha1.AgentRun) bool {
		says := condition(r, v1alpha1.ConditionSucceeded)
		return r.Status.Phase == v1alpha1.RunWaiting && strings.Contains(says, "nobody can be asked: approval request refund-") && strings.Contains(says, "quota: none")
	})
	t.Logf("%s: %s", reason(r), condition(r, v1alpha1.ConditionSucceeded))
	if err := api.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	d.approves("alice", d.requested(1, v1alpha1.ApprovalPending)[0].Name)
	r = d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 1)
}

// TestAToolServerDeletedUnderARun whose call is approved afterwards: what it may call was frozen with the run.
func TestAToolServerDeletedUnderARun(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(120)), answer("Paid."))
	d.approvers("finance", "alice")
	d.start("refund")
	q := d.requested(1, v1alpha1.ApprovalPending)[0]
	d.parked()
	if err := api.Delete(t.Context(), given.MCPServer(d.namespace, "http://127.0.0.1:1/mcp")); err != nil {
		t.Fatal(err)
	}
	d.approves("alice", q.Name)
	r := d.finished("refund")
	t.Logf("%s %s %s; the tool server counted %+v", r.Status.Phase, reason(r), condition(r, v1alpha1.ConditionSucceeded), d.tools.Counts())
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
}
