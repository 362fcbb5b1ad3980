package agentrun

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/pod"
)

// suspend is what a queue does to a Job, and the Job controller then.
func (w *world) suspend(suspended bool) {
	w.Helper()
	j := w.jobs()[0]
	status := corev1.ConditionFalse
	if suspended {
		status = corev1.ConditionTrue
	}
	j.Spec.Suspend = &suspended
	w.ok(w.api.Update(w.Context(), &j))
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: status, LastTransitionTime: metav1.NewTime(w.now)}}
	w.ok(w.api.Status().Update(w.Context(), &j))
}

// TestAJobInAQueue waits as long as it has to, and then has its time to start.
func TestAJobInAQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun(func(r *v1alpha1.AgentRun) { r.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "agents"} }))...)
	w.reconcile()
	if got := w.jobs()[0].Labels["kueue.x-k8s.io/queue-name"]; got != "agents" {
		t.Errorf("the Job is in the queue %q", got)
	}
	w.suspend(true)
	w.now = w.now.Add(lifecycle.Patience)
	w.reconcile()
	w.want(v1alpha1.RunRunning, v1alpha1.ReasonPodQueued, "its Job is suspended")
	w.now = w.now.Add(24 * time.Hour)
	w.reconcile()
	w.want(v1alpha1.RunRunning, v1alpha1.ReasonPodQueued, "its Job is suspended")
	w.suspend(false)
	w.reconcile()
	w.want(v1alpha1.RunRunning, v1alpha1.ReasonStarting, "no pod has been created")
	w.now = w.now.Add(lifecycle.StartWithin - time.Second)
	w.reconcile()
	w.want(v1alpha1.RunRunning, v1alpha1.ReasonStarting, "no pod has been created")
	w.settle(nil)
	w.want(v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, "")
	if len(w.created) != 1 {
		t.Errorf("Jobs %v", w.created)
	}
}

// TestAJobThatIsTakenBackIntoTheQueue while its process works: the attempt is over and counts as no crash, however the process ends.
func TestAJobThatIsTakenBackIntoTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.fate = func(k lifecycle.AttemptKey) fate {
		if k.Attempt < 9 { // more often than a segment may crash
			return fate{exit: 137}
		}
		return completed("42")
	}
	for range 9 {
		for !w.atWork() {
			got := w.reconcile()
			if !w.turn() {
				w.now = w.now.Add(got.RequeueAfter)
			}
		}
		w.suspend(true)
		w.turn()
	}
	w.settle(nil)
	w.want(v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, "")
	all := w.ledger.Every(uid)
	for i, a := range all[:len(all)-1] {
		if a.Class != lifecycle.Disrupted {
			t.Errorf("attempt %d: %+v", i, a)
		}
	}
	if len(all) != 10 || len(w.jobs()) != 1 {
		t.Errorf("%d attempts, and %d Jobs are left to be resumed", len(all), len(w.jobs()))
	}
}

// TestAPodThatIsRefused leaves no trace but an event of its Job, and that is the reason.
func TestAPodThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.reconcile()
	w.told = map[types.UID][]corev1.Event{w.jobs()[0].UID: {{Type: corev1.EventTypeWarning, Reason: "FailedCreate", Message: "Error creating: exceeded quota: none"}}}
	w.now = w.now.Add(lifecycle.Patience)
	w.reconcile()
	w.want(v1alpha1.RunRunning, v1alpha1.ReasonStarting, "segment 0 waits for its pod: FailedCreate: Error creating: exceeded quota: none")
	w.wait()
	w.want(v1alpha1.RunFailed, v1alpha1.ReasonPodNotStarted, "did not start within 300 seconds: FailedCreate: Error creating: exceeded quota: none")
	if w.now.Sub(noon) != lifecycle.StartWithin {
		t.Errorf("it took %s", w.now.Sub(noon))
	}
}

// TestAPodWhoseGateWasOpened and that no node takes: the time of that is not known, and it ends all the same.
func TestAPodWhoseGateWasOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.reconcile()
	w.schedule(&w.jobs()[0])
	shows := func(reason string, generation int64) {
		p := w.pods()[0]
		p.CreationTimestamp, p.Generation = metav1.NewTime(noon), generation
		w.ok(w.api.Update(t.Context(), &p))
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(noon)}}
		w.ok(w.api.Status().Update(t.Context(), &p))
		w.reconcile()
	}
	w.now = noon.Add(time.Hour)
	shows("SchedulingGated", 1)
	w.want(v1alpha1.RunRunning, v1alpha1.ReasonPodQueued, "SchedulingGated")
	shows("Unschedulable", 2)
	w.want(v1alpha1.RunRunning, v1alpha1.ReasonStarting, "Unschedulable")
	w.now = noon.Add(pod.OpenedWithin + lifecycle.StartWithin - time.Second)
	w.reconcile()
	w.want(v1alpha1.RunRunning, v1alpha1.ReasonStarting, "Unschedulable")
	w.now = w.now.Add(time.Second)
	w.reconcile()
	w.want(v1alpha1.RunFailed, v1alpha1.ReasonPodNotStarted, "Unschedulable")
}

// TestARunThatWasLetGo by an installation that ended is held again by the next, in one write.
func TestARunThatWasLetGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.reconcile()
	run := w.run()
	run.Finalizers = nil
	w.ok(w.api.Update(t.Context(), run))
	before := w.writes
	w.reconcile()
	if got := w.run().Finalizers; len(got) != 1 || w.writes != before+1 {
		t.Errorf("finalizers %v after %d writes", got, w.writes-before)
	}
	w.reconcile()
	if w.writes != before+1 {
		t.Errorf("%d more writes", w.writes-before-1)
	}
	w.settle(nil)
	w.want(v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, "")
}

// TestSettingsReachTheNextPod and not those that were made before.
func TestSettingsReachTheNextPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(compiled(), theRun())...)
	w.fate = func(k lifecycle.AttemptKey) fate {
		if k.Segment == 0 {
			return checkpoint()
		}
		return completed("42")
	}
	w.settings.NodeSelector = map[string]v1alpha1.PodLabelValue{"pool": "a"}
	w.reconcile()
	w.settings.NodeSelector = map[string]v1alpha1.PodLabelValue{"pool": "b"}
	w.settle(nil)
	var got []string
	for _, j := range w.jobs() {
		got = append(got, j.Spec.Template.Spec.NodeSelector["pool"])
	}
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Errorf("node selectors of the segments (-want +got):\n%s", diff)
	}
}
