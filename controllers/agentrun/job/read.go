package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
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

// Key reads which attempt an object belongs to.
func Key(labels map[string]string) (lifecycle.AttemptKey, bool) {
	segment, err1 := strconv.Atoi(labels[v1alpha1.LabelSegment])
	attempt, err2 := strconv.Atoi(labels[v1alpha1.LabelAttempt])
	return lifecycle.AttemptKey{Segment: segment, Attempt: attempt}, err1 == nil && err2 == nil
}

// Made are the pods that the Job of that UID made. Labels alone prove nothing: whoever makes a pod may copy them.
func Made(pods []corev1.Pod, job types.UID) []corev1.Pod {
	var its []corev1.Pod
	for i := range pods {
		if owner := metav1.GetControllerOf(&pods[i]); owner != nil && owner.UID == job {
			its = append(its, pods[i])
		}
	}
	return its
}

// Read is what an attempt's Job and pods tell. A nil Job is one that is known to be gone; pods are all
// that the Job made, and events what is told of the object that pod.Quiet names.
func Read(j *batchv1.Job, pods []corev1.Pod, events []corev1.Event) lifecycle.Sighting {
	s := read(j, pods)
	s.Released = pod.Released(j, pods)
	switch s.State {
	case lifecycle.Pending:
		s.Held, s.Why = pod.Held(j, pods) != "", pod.Why(j, pods, events)
	case lifecycle.Ended:
		// Once it is no longer suspended it would make another pod.
		if s.Suspended = pod.Suspended(j); s.Suspended && s.End.Class == lifecycle.Crashed {
			s.End.Class, s.End.Message = lifecycle.Disrupted, "its Job was suspended while it worked: "+s.End.Message
		}
	default:
	}
	return s
}

func read(j *batchv1.Job, pods []corev1.Pod) lifecycle.Sighting {
	var alive, ended []corev1.Pod
	for _, p := range pods {
		switch {
		case running(p):
			alive = append(alive, p)
		case over(p):
			ended = append(ended, p)
		}
	}
	going := j == nil || !j.DeletionTimestamp.IsZero()
	switch {
	case len(alive) > 0 && (going || !alive[0].DeletionTimestamp.IsZero()):
		return lifecycle.Sighting{State: lifecycle.Stopping}
	case len(alive) > 0:
		return lifecycle.Sighting{State: lifecycle.Working}
	case len(ended) > 0:
		end, pause := endOf(ended[len(ended)-1])
		// Of one that was not seen to end the process may be at work, also before its kubelet says that it began.
		end.Terminated = end.Terminated && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return terminated(p) == nil })
		for _, p := range pods {
			if end.Terminated {
				end.Pods = append(end.Pods, p.UID)
			}
		}
		return lifecycle.Sighting{State: lifecycle.Ended, End: end, Pause: pause}
	case going:
		return lost("its Job was deleted")
	case failure(j) != "":
		return lost(failure(j))
	default:
		return lifecycle.Sighting{State: lifecycle.Pending}
	}
}

// running reports whether the segment's process runs. A container that somebody injected may outlive it.
func running(p corev1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == contract.SegmentContainer && c.State.Running != nil {
			return true
		}
	}
	return false
}

// over reports whether the pod has run, or will never run.
func over(p corev1.Pod) bool {
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return true
	}
	return terminated(p) != nil
}

func terminated(p corev1.Pod) *corev1.ContainerStateTerminated {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == contract.SegmentContainer && c.State.Terminated != nil {
			return c.State.Terminated
		}
	}
	return nil
}

// endOf tells how a pod's attempt ended, and how long the next one should wait.
func endOf(p corev1.Pod) (e lifecycle.AttemptEnd, pause time.Duration) {
	t := terminated(p)
	if t == nil && p.Status.Reason == "DeadlineExceeded" { // not a disruption: it would only be repeated
		return lifecycle.AttemptEnd{Class: lifecycle.Crashed, Message: "its pod met its deadline before it had started"}, 0
	}
	if t == nil { // the pod was failed without its container being seen to end: a node that is lost, an eviction before the start
		return lifecycle.AttemptEnd{Class: lifecycle.Disrupted, Message: podMessage(p)}, 0
	}
	e.Terminated = true
	switch {
	case t.ExitCode == contract.ExitDone:
		e.Class, e.Message = lifecycle.Yielded, "exit code 0"
	case t.ExitCode == contract.ExitFault:
		e.Class, e.Code, e.Message, pause = fault(t)
	case disrupted(p):
		e.Class, e.Message = lifecycle.Disrupted, podMessage(p)
	default:
		e.Class, e.Message = lifecycle.Crashed, crash(p, t)
	}
	return e, pause
}

// fault reads the termination message. Without one the exit code means nothing.
func fault(t *corev1.ContainerStateTerminated) (lifecycle.AttemptClass, contract.FaultCode, string, time.Duration) {
	var f contract.Fault
	if err := json.Unmarshal([]byte(t.Message), &f); err != nil || f.Code == "" {
		return lifecycle.Crashed, "", "exit code 75 without a fault", 0
	}
	return lifecycle.Faulted, f.Code, contract.Clip(f.Message, contract.MaxMessage), time.Duration(max(f.NotBeforeSeconds, 0)) * time.Second
}

func disrupted(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return p.Status.Reason == "Evicted" || p.Status.Reason == "Preempting" || p.Status.Reason == "NodeLost" || p.Status.Reason == "Shutdown"
}

func crash(p corev1.Pod, t *corev1.ContainerStateTerminated) string {
	parts := []string{fmt.Sprintf("exit code %d", t.ExitCode)}
	if killed := pod.Killed(&p, contract.SegmentContainer, t); killed != "" {
		return contract.Clip(parts[0]+", "+killed, contract.MaxMessage)
	}
	for _, s := range []string{t.Reason, p.Status.Reason, t.Message} {
		if s != "" && s != "Error" {
			parts = append(parts, s)
		}
	}
	return contract.Clip(strings.Join(parts, ", "), contract.MaxMessage)
}

func podMessage(p corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Message != "" {
			return contract.Clip(c.Message, contract.MaxMessage)
		}
	}
	if p.Status.Message != "" || p.Status.Reason != "" {
		return contract.Clip(strings.TrimSpace(p.Status.Reason+" "+p.Status.Message), contract.MaxMessage)
	}
	return "its pod was taken away"
}

func failure(j *batchv1.Job) string {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobFailed || c.Type == batchv1.JobComplete) && c.Status == corev1.ConditionTrue {
			return contract.Clip(strings.TrimSpace("its Job has ended and its pod is gone: "+c.Reason+" "+c.Message), contract.MaxMessage)
		}
	}
	return ""
}

func lost(message string) lifecycle.Sighting {
	return lifecycle.Sighting{State: lifecycle.Ended, End: lifecycle.AttemptEnd{Class: lifecycle.Lost, Message: message}}
}
