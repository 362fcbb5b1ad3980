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
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	// patience is how long a pod may take to appear and to start before that is told.
	patience = 30 * time.Second
	// askWhy is how often it is asked what holds a pod up: events are not watched.
	askWhy = 30 * time.Second
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
func account(j *batchv1.Job, end batchv1.JobCondition, pods []corev1.Pod, events []corev1.Event) (reason, says string) {
	reason = v1alpha1.ReasonDiscoveryFailed
	if end.Type == batchv1.JobComplete {
		return reason, fmt.Sprintf("Job %s has ended well, and Postgres has nothing of it", j.Name)
	}
	p, t := lastEnd(made(pods, j))
	if t == nil {
		says = fmt.Sprintf("no pod of Job %s came to an end: %s %s", j.Name, end.Reason, end.Message)
		if len(events) > 0 {
			says = told(says) + ". " + pod.Why(j, nil, events)
		}
		return v1alpha1.ReasonPodNotStarted, told(says + ". Look for missing images, quotas, node capacity and Pod Security")
	}
	var f contract.Fault
	if err := json.Unmarshal([]byte(t.Message), &f); err == nil && f.Code != "" {
		if f.Code == contract.FaultSecretMissing || f.Code == contract.FaultCABundleMissing {
			reason = string(f.Code)
		}
		return reason, told(cmp.Or(f.Message, string(f.Code)))
	}
	return reason, ending(p, t)
}

// ending is how a process ended that has left no fault.
func ending(p *corev1.Pod, t *corev1.ContainerStateTerminated) string {
	if killed := pod.Killed(p, container, t); killed != "" {
		return told("its pod ended with " + killed)
	}
	parts := []string{fmt.Sprintf("its pod ended with exit code %d", t.ExitCode)}
	for _, s := range []string{t.Reason, p.Status.Reason, t.Message} {
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

// lastEnd is the last of the pods that have run and how it ended, or nil.
func lastEnd(pods []corev1.Pod) (last *corev1.Pod, end *corev1.ContainerStateTerminated) {
	for i := range pods {
		for _, c := range pods[i].Status.ContainerStatuses {
			t := c.State.Terminated
			if c.Name == container && t != nil && (end == nil || cmp.Or(t.FinishedAt.Compare(end.FinishedAt.Time), cmp.Compare(t.Message, end.Message)) > 0) {
				last, end = &pods[i], t
			}
		}
	}
	return last, end
}

// waited is about a Job that goes on. A pod has as long to start as one of a segment; what it is held back for by a queue does not count.
func waited(f Facts, j *batchv1.Job) Decision {
	its := made(f.Pods, j)
	since := j.CreationTimestamp.Time
	if at := pod.Released(j, its); at.After(since) {
		since = at
	}
	says, startBy, left := pod.Why(j, its, f.Told), since.Add(lifecycle.StartWithin), since.Add(endBy).Sub(f.Now)
	atWork := slices.ContainsFunc(its, begun)
	switch {
	case pod.Held(j, its) != "" && !slices.ContainsFunc(its, running):
		return Decision{Report: asking(j.Name, says)}
	case left <= 0 && atWork: // on a node that is lost a pod seems to run for ever
		return anew(j, failed(v1alpha1.ReasonDiscoveryFailed, fmt.Sprintf("the server could not be asked for its tools: Job %s came to no end within %.0f minutes", j.Name, endBy.Minutes())))
	case atWork:
		return Decision{Report: asking(j.Name, ""), Wake: left}
	case left <= 0:
		return anew(j, notStarted(j, says))
	case !f.Now.Before(startBy):
		r := notStarted(j, says)
		r.Message += ". It is used if it still does"
		return Decision{Report: r, Wake: min(askAgain, left)}
	case says == "" || pod.Quiet(j, its) != "":
		if early := j.CreationTimestamp.Add(patience).Sub(f.Now); early > 0 {
			return Decision{Report: asking(j.Name, ""), Wake: early}
		}
		return Decision{Report: asking(j.Name, cmp.Or(says, unsaid)), Wake: min(askWhy, startBy.Sub(f.Now))}
	default:
		return Decision{Report: asking(j.Name, says), Wake: startBy.Sub(f.Now)}
	}
}

func notStarted(j *batchv1.Job, says string) Report {
	return failed(v1alpha1.ReasonPodNotStarted, fmt.Sprintf("the pod of Job %s did not start within %.0f seconds: %s", j.Name, lifecycle.StartWithin.Seconds(), cmp.Or(says, unsaid)))
}

// anew removes a Job whose time is over; when it is gone, another is made with what the platform wants then.
func anew(j *batchv1.Job, r Report) Decision {
	r.Message += ". Another is made in its place"
	d := Decision{Report: r, Wake: askAgain}
	if j.DeletionTimestamp.IsZero() {
		d.Do = []Effect{Remove{Name: j.Name, UID: j.UID}}
	}
	return d
}

// unsaid stands for what neither a status nor an event tells.
const unsaid = "its pod waits for its volumes or its network, see the events of the pod"

// Quiet is the object whose events tell what nothing else does about the discovery of the newest spec, or nothing.
func Quiet(f Facts) types.UID {
	j := f.job()
	if j == nil {
		return ""
	}
	its := made(f.Pods, j)
	if ended(j) != nil && len(its) == 0 {
		return j.UID
	}
	if ended(j) != nil || slices.ContainsFunc(its, begun) || f.Now.Before(j.CreationTimestamp.Add(patience)) {
		return ""
	}
	return pod.Quiet(j, its)
}

func running(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == container && c.State.Running != nil
	})
}

// begun reports whether the pod's process has run.
func begun(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == container && (c.State.Running != nil || c.State.Terminated != nil)
	})
}
