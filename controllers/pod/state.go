package pod

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// maxTold is the most bytes of what the cluster says in a sentence of ours.
const maxTold = 512

// Held says what holds a Job's pods back until somebody lets them go, or nothing: a queue that has suspended the Job, or a gate
// that keeps a pod from being scheduled. That is waiting and no failure to start, however long it takes.
func Held(j *batchv1.Job, pods []corev1.Pod) string {
	if Suspended(j) {
		return suspended(j.Labels[QueueLabels[0]])
	}
	for i := range pods {
		if c := scheduled(&pods[i]); waitsBehindGate(c) {
			return told(c.Reason, c.Message)
		}
	}
	return ""
}

// suspended says what a Job waits for. Nothing tells whether its queue exists: one that does not is waited for as one that is full.
func suspended(queue string) string {
	if queue == "" {
		return "its Job is suspended, as Kueue does with Jobs that wait in its queue"
	}
	return fmt.Sprintf("its Job is suspended, as Kueue does with Jobs that wait in its queue, here %q. If there is no such queue, correct the label %s "+
		"where it was set and delete the Job: another is made with what it says then", queue, QueueLabels[0])
}

func waitsBehindGate(c *corev1.PodCondition) bool {
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonSchedulingGated
}

// Suspended reports whether the Job is there and suspended. One that has just been let go still is, until its controller has said since
// when it goes on.
func Suspended(j *batchv1.Job) bool {
	if j == nil {
		return false
	}
	c := suspension(j)
	return j.Spec.Suspend != nil && *j.Spec.Suspend || c != nil && c.Status == corev1.ConditionTrue
}

func suspension(j *batchv1.Job) *batchv1.JobCondition {
	for i, c := range j.Status.Conditions {
		if c.Type == batchv1.JobSuspended {
			return &j.Status.Conditions[i]
		}
	}
	return nil
}

// Released is when pods were let go that had been held back, or zero. From then on they have their time to start.
func Released(j *batchv1.Job, pods []corev1.Pod) time.Time {
	var at time.Time
	if j != nil && !Suspended(j) {
		if c := suspension(j); c != nil {
			at = c.LastTransitionTime.Time
		}
	}
	for i := range pods {
		if opened := opened(&pods[i]); opened.After(at) {
			at = opened
		}
	}
	return at
}

// OpenedWithin is how long after its creation a pod's gates count as having been opened at the latest, where no node was found since.
const OpenedWithin = 24 * time.Hour

// opened is when a pod's gates were opened, or zero if it had none or has some. While no node is found nothing lasting tells: the
// status of PodScheduled stays False, and so its time stays that of the pod's creation. Such a pod is given the longest that it can
// have waited rather than none, since there may be a node soon; for ever it does not wait.
func opened(p *corev1.Pod) time.Time {
	switch c := scheduled(p); {
	case c == nil || !gated(p) || waitsBehindGate(c):
		return time.Time{}
	case c.Status == corev1.ConditionTrue:
		return c.LastTransitionTime.Time
	default:
		return p.CreationTimestamp.Add(OpenedWithin)
	}
}

// gated reports whether the pod was changed after it was made, which before it has a node is by taking gates away.
func gated(p *corev1.Pod) bool { return p.Generation > 1 }

func scheduled(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// Complaint is what a pod's status says about why its container does not start, or nothing.
func Complaint(p *corev1.Pod) string {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		switch {
		case w == nil, w.Reason == "", w.Reason == "ContainerCreating", w.Reason == "PodInitializing":
		case w.Reason == "ErrImagePull", w.Reason == "ImagePullBackOff": // they take turns: one sentence for both
			return told("image "+c.Image+" cannot be pulled, see the events of pod "+p.Name, "")
		case w.Reason == "InvalidImageName", w.Reason == "ErrImageNeverPull":
			return told("image "+c.Image+" cannot be pulled", w.Message)
		default:
			return told(w.Reason, w.Message)
		}
	}
	if c := scheduled(p); c != nil && c.Status == corev1.ConditionFalse {
		return told(c.Reason, c.Message)
	}
	return ""
}

// Quiet is the object whose events may tell why no process of the Job has started, because no status does; or nothing. A pod
// that is refused when it is created leaves no other trace, nor does a volume that is not there.
func Quiet(j *batchv1.Job, pods []corev1.Pod) types.UID {
	if j == nil || Held(j, pods) != "" {
		return ""
	}
	if len(pods) == 0 {
		return j.UID
	}
	for i := range pods {
		if Complaint(&pods[i]) != "" {
			return ""
		}
	}
	return pods[len(pods)-1].UID
}

// Why is what the cluster says about a Job no process of which has started, or nothing. The events are those of what Quiet names.
func Why(j *batchv1.Job, pods []corev1.Pod, events []corev1.Event) string {
	if held := Held(j, pods); held != "" {
		return held
	}
	for i := range pods {
		if says := Complaint(&pods[i]); says != "" {
			return says
		}
	}
	if says := newest(events, placed(pods)); says != "" {
		return says
	}
	if len(pods) == 0 {
		return "no pod has been created: a quota or an admission policy may refuse it, see the Job's events"
	}
	return ""
}

// placed is when the pod that Quiet names got its node, or zero. What was said of it before is settled: that no node takes it, above all.
func placed(pods []corev1.Pod) time.Time {
	if len(pods) == 0 {
		return time.Time{}
	}
	if c := scheduled(&pods[len(pods)-1]); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// newest is what the newest of the warnings says that are not from before.
func newest(events []corev1.Event, before time.Time) string {
	warnings := slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool {
		return e.Type != corev1.EventTypeWarning || seen(e).Before(before)
	})
	if len(warnings) == 0 {
		return ""
	}
	e := slices.MaxFunc(warnings, func(a, b corev1.Event) int {
		return cmp.Or(seen(a).Compare(seen(b)), cmp.Compare(a.Message, b.Message))
	})
	return told(e.Reason, e.Message)
}

// seen is when an event was seen last. Which of its fields says so depends on the client that told it.
func seen(e corev1.Event) time.Time {
	at := e.EventTime.Time
	if e.LastTimestamp.After(at) {
		at = e.LastTimestamp.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

// Killed says, of a container that ended, how it went beyond its memory and what to do; or nothing.
func Killed(p *corev1.Pod, container string, t *corev1.ContainerStateTerminated) string {
	if t.Reason != "OOMKilled" {
		return ""
	}
	limit := "the memory of its node"
	for _, c := range p.Spec.Containers {
		if memory, set := c.Resources.Limits[corev1.ResourceMemory]; set && c.Name == container {
			limit = fmt.Sprintf("its limit of %s memory", memory.String())
		}
	}
	return "OOMKilled: it used more than " + limit + ". Raise spec.pods.resources.limits.memory of the AgentPolicy"
}

// told is what somebody else says, as a part of a sentence of ours.
func told(reason, message string) string {
	return contract.Clip(strings.TrimSuffix(reason+": "+strings.TrimRight(strings.TrimSpace(message), "."), ": "), maxTold)
}
