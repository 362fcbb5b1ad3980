package discovery

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	// patience is how long a pod may take to appear and to start before that is told.
	patience = 30 * time.Second
	// maxTold is the most bytes of what a pod or the cluster says in a message.
	maxTold = 640
)

// ended is the condition with which a Job has ended, or nil.
func ended(j *batchv1.Job) *batchv1.JobCondition {
	for i, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobFailed || c.Type == batchv1.JobComplete) && c.Status == corev1.ConditionTrue {
			return &j.Status.Conditions[i]
		}
	}
	return nil
}

// retry says when the Job goes and another is made.
func retry(end batchv1.JobCondition) string {
	if end.LastTransitionTime.IsZero() {
		return "in some minutes"
	}
	return "at " + end.LastTransitionTime.Add(keep).UTC().Format("15:04:05Z")
}

// account is why a Job has ended without leaving contracts.
func account(j *batchv1.Job, end batchv1.JobCondition, pods []corev1.Pod) string {
	if end.Type == batchv1.JobComplete {
		return fmt.Sprintf("Job %s has ended well, and Postgres has nothing of it", j.Name)
	}
	t := lastEnd(made(pods, j))
	if t == nil {
		return told(fmt.Sprintf("no pod of Job %s came to an end: %s %s. Look for missing images, quotas, node capacity and Pod Security", j.Name, end.Reason, end.Message))
	}
	var f contract.Fault
	if err := json.Unmarshal([]byte(t.Message), &f); err == nil && f.Code != "" {
		return told(cmp.Or(f.Message, string(f.Code)))
	}
	parts := []string{fmt.Sprintf("its pod ended with exit code %d", t.ExitCode)}
	for _, s := range []string{t.Reason, t.Message} {
		if s != "" && s != "Error" {
			parts = append(parts, s)
		}
	}
	return told(strings.Join(parts, ", "))
}

// told is what somebody else says, as a part of a sentence of ours.
func told(s string) string {
	return contract.Clip(strings.TrimRight(strings.TrimSpace(s), "."), maxTold)
}

// made are the pods that the Job made. Labels alone prove nothing: whoever makes a pod may copy them.
func made(pods []corev1.Pod, j *batchv1.Job) []corev1.Pod {
	var its []corev1.Pod
	for i := range pods {
		if metav1.IsControlledBy(&pods[i], j) {
			its = append(its, pods[i])
		}
	}
	return its
}

// lastEnd is how the last of the pods that have run ended, or nil.
func lastEnd(pods []corev1.Pod) *corev1.ContainerStateTerminated {
	var ends []*corev1.ContainerStateTerminated
	for i := range pods {
		for _, c := range pods[i].Status.ContainerStatuses {
			if c.Name == container && c.State.Terminated != nil {
				ends = append(ends, c.State.Terminated)
			}
		}
	}
	if len(ends) == 0 {
		return nil
	}
	return slices.MaxFunc(ends, func(a, b *corev1.ContainerStateTerminated) int {
		return cmp.Or(a.FinishedAt.Compare(b.FinishedAt.Time), cmp.Compare(a.Message, b.Message))
	})
}

// why is what keeps a Job from asking, and after how long to look again if that is not known yet.
func why(j *batchv1.Job, pods []corev1.Pod, now time.Time) (string, time.Duration) {
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		return "it is suspended", 0
	}
	its := made(pods, j)
	for i := range its {
		if says := complaint(its[i]); says != "" {
			return says, 0
		}
	}
	if slices.ContainsFunc(its, begun) {
		return "", 0
	}
	if left := j.CreationTimestamp.Add(patience).Sub(now); left > 0 {
		return "", left
	}
	if len(its) == 0 {
		return "no pod has been created: a quota or an admission policy may refuse it, see the Job's events", 0
	}
	return "its pod waits for its volumes or its network, see the events of pod " + its[0].Name, 0
}

// begun reports whether the pod's process has run.
func begun(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == container && (c.State.Running != nil || c.State.Terminated != nil)
	})
}

// complaint is what the cluster says about a pod that cannot start.
func complaint(p corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		w := c.State.Waiting
		if w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff") { // they take turns: one sentence for both
			return fmt.Sprintf("image %s cannot be pulled, see the events of pod %s", c.Image, p.Name)
		}
		if w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return told(strings.TrimSuffix(w.Reason+": "+w.Message, ": "))
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return told(strings.TrimSuffix(c.Reason+": "+c.Message, ": "))
		}
	}
	return ""
}
