package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// The stories that only a real node can tell: images, limits, evictions and a machine that is gone.

// container skips a story where pods are no containers.
func container(t *testing.T) {
	t.Helper()
	if !onKubelet() {
		t.Skip("SKIPPED: pods are processes here, and this story is about containers: make e2e NODE=kubelet")
	}
}

// TestOnAKubeletANodeThatIsLostCostsNoCall takes the node away after a refund was made, and the model is asked what next. The
// managers were on it too. The node comes back, and the run goes on from what is written down.
func TestOnAKubeletANodeThatIsLostCostsNoCall(t *testing.T) {
	container(t)
	d := open(t, wants(refunds(120)), gated("never", answer("Lost.")), answer("Paid."))
	d.rule(everything)
	r := d.start("moved")
	d.requests(2)
	if err := shared.KillNode(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pids := append(managers(t), processes(t, "segment", "--run="+string(r.UID))...); len(pids) != 0 {
		t.Errorf("processes %v have outlived their node", pids)
	}
	d.eventually("the node is missed", func() bool { return !ready(t) })
	if err := shared.StartNode(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = d.finished("moved")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if r.Status.Result.Text != "Paid." {
		t.Errorf("%q", r.Status.Result.Text)
	}
	d.balanced(r, 1)
	d.wantRequests(3)
	if c := d.tools.Counts(); c.Effects != 1 {
		t.Errorf("the tool server counted %+v, want one refund", c)
	}
	d.eventually("the managers are back", func() bool { return len(managers(t)) == 2 })
}

// ready says whether the node is.
func ready(t *testing.T) bool {
	t.Helper()
	d, err := shared.Describe()
	if err != nil {
		t.Fatal(err)
	}
	var node corev1.Node
	if err := api.Get(t.Context(), client.ObjectKey{Name: d.Node.Name}, &node); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// TestOnAKubeletARunUsesATool from an image, as nobody, with its keys in files that it may read.
func TestOnAKubeletARunUsesATool(t *testing.T) {
	container(t)
	t.Parallel()
	d := open(t, wants(reads("4711")), answer("Billing."))
	d.start("happy")
	r := d.finished("happy")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if r.Status.Result.Text != "Billing." {
		t.Errorf("%q", r.Status.Result.Text)
	}
	d.balanced(r, 1)
	d.wantRequests(2)
	for _, p := range d.pods() {
		for _, c := range p.Status.ContainerStatuses {
			if !strings.Contains(c.ImageID, "sha256:") {
				t.Errorf("pod %s runs no image: %+v", p.Name, c)
			}
		}
		if s := p.Spec.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
			t.Errorf("pod %s may be root", p.Name)
		}
	}
}

// TestOnAKubeletAParkedRunHasNoPod until a person approves with kubectl; then it pays once.
func TestOnAKubeletAParkedRunHasNoPod(t *testing.T) {
	container(t)
	t.Parallel()
	d := open(t, wants(refunds(120)), answer("Paid."))
	d.approvers("finance", "alice")
	r := d.start("refund")
	q := d.requested(1, v1alpha1.ApprovalPending)[0]
	d.parked()
	d.eventually("no pod is left at work", func() bool {
		return !slices.ContainsFunc(d.pods(), func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodSucceeded })
	})
	if pids := processes(t, "segment", "--run="+string(r.UID)); len(pids) != 0 {
		t.Errorf("a run that waits has processes %v", pids)
	}
	if c := d.tools.Counts(); c.Effects != 0 {
		t.Errorf("paid before anybody said so: %+v", c)
	}
	d.approves("alice", q.Name)
	r = d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 1)
	d.wantRequests(2)
	if c := d.tools.Counts(); c.Effects != 1 {
		t.Errorf("the tool server counted %+v, want one refund", c)
	}
}

// TestOnAKubeletAKilledProcessRepeatsNothing that was settled: its pod fails with 137, and the next one goes on after the refund.
func TestOnAKubeletAKilledProcessRepeatsNothing(t *testing.T) {
	container(t)
	t.Parallel()
	d := open(t, wants(refunds(120)), gated("never", answer("Lost.")), answer("Paid."))
	d.rule(everything)
	r := d.start("killed")
	d.requests(2)
	kill(t, d.segmentOf(r))
	r = d.finished("killed")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 1)
	d.wantRequests(3)
	if c := d.tools.Counts(); c.Effects != 1 {
		t.Errorf("the tool server counted %+v, want one refund", c)
	}
	if !slices.ContainsFunc(d.pods(), func(p corev1.Pod) bool { e := ended(&p); return e != nil && e.ExitCode == 137 }) {
		t.Errorf("no pod ended with 137")
	}
}

// ended is how a pod's first container did.
func ended(p *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, c := range p.Status.ContainerStatuses {
		return c.State.Terminated
	}
	return nil
}

// TestOnAKubeletASegmentWithoutMemoryIsPoison gives pods little memory and an answer that is larger. The run ends after its tries,
// and says why and what to do.
func TestOnAKubeletASegmentWithoutMemoryIsPoison(t *testing.T) {
	container(t)
	t.Parallel()
	const tries = 2
	s := tell(t, modelserver.Step{Text: strings.Repeat("All work and no play. ", 600_000), Chunks: 600})
	small := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "AgentPolicy", "metadata": map[string]any{"name": v1alpha1.DefaultPolicyName, "namespace": s.namespace}}}
	set(t, small, map[string]any{"requests": map[string]any{"memory": "16Mi"}, "limits": map[string]any{"memory": "28Mi"}}, "spec", "pods", "resources")
	s.create(small)
	s.setUp(given.Tries(tries))
	s.start("hungry")
	r := s.finished("hungry")
	s.want(r, v1alpha1.RunFailed, v1alpha1.ReasonPoisonSegment)
	for _, word := range []string{"OOMKilled", "28Mi", "spec.pods.resources"} {
		if !strings.Contains(r.Status.Error.Message, word) {
			t.Errorf("the message does not say %q: %s", word, r.Status.Error.Message)
		}
	}
	if n := len(s.segments()); n != tries {
		t.Errorf("%d attempts, want %d", n, tries)
	}
	for _, p := range s.pods() {
		if e := ended(&p); e == nil || e.Reason != "OOMKilled" || e.ExitCode != 137 {
			t.Errorf("pod %s ended with %+v", p.Name, e)
		}
	}
}

// TestOnAKubeletAnEvictionIsNoCrash evicts the pod of a run that may not crash once.
func TestOnAKubeletAnEvictionIsNoCrash(t *testing.T) {
	container(t)
	t.Parallel()
	for name, tc := range map[string]struct {
		steps    []modelserver.Step
		grace    *int64
		requests int
	}{
		"told to stop, the pod finishes the turn it is in":          {steps: []modelserver.Step{slow(slow(part("one "))), answer("two")}, requests: 2},
		"one that has no time is killed, and its turn is done anew": {steps: []modelserver.Step{gated("never", part("lost ")), part("one "), answer("two")}, grace: new(int64(1)), requests: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tell(t, tc.steps...).setUp(given.Tries(1))
			s.start("evicted")
			s.requests(1)
			pod := s.pods()[0]
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: tc.grace}}
			if err := api.SubResource("eviction").Create(t.Context(), &pod, eviction); err != nil {
				t.Fatal(err)
			}
			r := s.finished("evicted")
			s.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
			if r.Status.Result.Text != "one two" {
				t.Errorf("%q", r.Status.Result.Text)
			}
			s.wantRequests(tc.requests)
		})
	}
}

// TestOnAKubeletThePodsAreRestricted lets a run use a tool, discovery included, in a namespace that admits restricted pods only.
func TestOnAKubeletThePodsAreRestricted(t *testing.T) {
	container(t)
	t.Parallel()
	s := tell(t, wants(reads("4711")), answer("Billing."))
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
	if err := api.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, patch); err != nil {
		t.Fatal(err)
	}
	loose := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "loose", Namespace: s.namespace},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "ekiden/segment:dev"}}},
	}
	s.eventually("other pods are refused", func() bool {
		err := api.Create(t.Context(), loose, client.DryRunAll)
		return err != nil && strings.Contains(fmt.Sprint(err), "PodSecurity")
	})
	tools := toolserver.Start(t, toolserver.Options{})
	s.create(s.key(), given.Endpoint(s.namespace, s.model.URL), given.MCPServer(s.namespace, tools.URL+"/mcp", declared), s.policy(everything),
		given.Definition(s.namespace, given.Uses(given.Tools, toolserver.GetCustomer)))
	s.start("strict")
	s.want(s.finished("strict"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	if c := tools.Counts(); c.Calls[toolserver.GetCustomer] != 1 {
		t.Errorf("the tool server counted %+v", c)
	}
}
