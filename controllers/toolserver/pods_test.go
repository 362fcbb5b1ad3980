package toolserver

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// TestSettingsReachTheDiscovery as they do segments.
func TestSettingsReachTheDiscovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, crm(func(s *v1alpha1.ToolServer) { s.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "agents"} }))
	w.settings.NodeSelector = map[string]v1alpha1.PodLabelValue{"pool": "agents"}
	w.reconcile()
	j := w.jobs()[0]
	if j.Spec.Template.Spec.NodeSelector["pool"] != "agents" || j.Labels["kueue.x-k8s.io/queue-name"] != "agents" || j.Spec.Template.Labels["kueue.x-k8s.io/queue-name"] != "" {
		t.Errorf("%+v", j)
	}
}

// TestADiscoveryThatIsRefused says so while it waits, and when its Job has ended and nothing but an event is left.
func TestADiscoveryThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, crm())
	w.reconcile()
	j := w.jobs()[0]
	w.told = map[types.UID][]corev1.Event{j.UID: {{Type: corev1.EventTypeWarning, Reason: "FailedCreate", Message: "exceeded quota: none"}}}
	want := func(reason string) {
		t.Helper()
		w.reconcile()
		if c := w.ready(); c.Reason != reason || !strings.Contains(c.Message, "FailedCreate: exceeded quota: none") {
			t.Errorf("%s: %s, want %s", c.Reason, c.Message, reason)
		}
	}
	age := func(by time.Duration) {
		j.CreationTimestamp = metav1.NewTime(time.Now().Add(-by))
		w.ok(w.api.Update(t.Context(), &j))
	}
	age(time.Minute)
	want(v1alpha1.ReasonDiscovering)
	age(6 * time.Minute)
	want(v1alpha1.ReasonPodNotStarted)
	defer func() { // and in the end another Job tries
		w.settings.NodeSelector = map[string]v1alpha1.PodLabelValue{"pool": "agents"}
		j.Status.Conditions = nil
		w.ok(w.api.Status().Update(t.Context(), &j))
		age(time.Hour)
		want(v1alpha1.ReasonPodNotStarted)
		w.reconcile()
		if jobs := w.jobs(); len(jobs) != 1 || jobs[0].Spec.Template.Spec.NodeSelector["pool"] != "agents" {
			t.Errorf("Jobs %v", jobs)
		}
	}()
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "Job was active longer than specified deadline"}}
	w.ok(w.api.Status().Update(t.Context(), &j))
	want(v1alpha1.ReasonPodNotStarted)
}
