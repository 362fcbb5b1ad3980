package processnode

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podcondition "k8s.io/kubernetes/pkg/api/v1/pod"
)

// killedExitCode is that of a process that got SIGKILL.
const killedExitCode = 137

// created are the statuses of containers that have not run yet.
func created(containers []corev1.Container, reason string) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, container := range containers {
		no := false
		statuses = append(statuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Started: &no,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		})
	}
	return statuses
}

// lost is the end of a container whose process died with an earlier node.
func lost(now metav1.Time) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode: killedExitCode, Reason: "NodeRestarted", FinishedAt: now,
		Message: "the process node was restarted, and its processes ended with it",
	}
}

// interrupted is the end of a pod whose containers were started by an earlier
// node. What had ended before keeps its outcome.
func interrupted(object *corev1.Pod, status *corev1.PodStatus) {
	now := stamp()
	if len(status.ContainerStatuses) == 0 {
		status.ContainerStatuses = created(object.Spec.Containers, "ContainerCreating")
	}
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].State.Terminated != nil {
				continue
			}
			ended := lost(now)
			if running := statuses[i].State.Running; running != nil {
				ended.StartedAt = running.StartedAt
			}
			statuses[i].State = corev1.ContainerState{Terminated: ended}
			statuses[i].Ready = false
		}
	}
	status.Phase, status.Reason = corev1.PodFailed, "NodeRestarted"
	status.Message = "the process node was restarted while the pod was running"
}

// conclude gives a pod of which nothing runs any more its last phase.
func conclude(status *corev1.PodStatus, why cause) {
	notReady(status)
	if over(status.Phase) {
		return
	}
	status.Phase = corev1.PodSucceeded
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range statuses {
			if ended := statuses[i].State.Terminated; ended == nil || ended.ExitCode != 0 {
				status.Phase = corev1.PodFailed
			}
		}
	}
	if why == causeDeadline {
		status.Phase, status.Reason = corev1.PodFailed, "DeadlineExceeded"
		status.Message = "Pod was active on the node longer than the specified deadline"
	}
}

func notReady(status *corev1.PodStatus) {
	for i := range status.ContainerStatuses {
		status.ContainerStatuses[i].Ready = false
	}
	setCondition(status, corev1.ContainersReady, false, "PodCompleted")
	setCondition(status, corev1.PodReady, false, "PodCompleted")
}

// derive follows a change of the containers' states with what is said of the pod.
func derive(status *corev1.PodStatus) {
	ready := true
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		ready = ready && c.Ready
		// Also one that waits for its next start: the pod is under way.
		if c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil {
			status.Phase = corev1.PodRunning
		}
	}
	setCondition(status, corev1.ContainersReady, ready, "ContainersNotReady")
	setCondition(status, corev1.PodReady, ready, "ContainersNotReady")
}

// setCondition records the reason only with a condition that does not hold.
func setCondition(status *corev1.PodStatus, kind corev1.PodConditionType, holds bool, reason string) {
	condition := &corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
	if !holds {
		condition.Status, condition.Reason = corev1.ConditionFalse, reason
	}
	podcondition.UpdatePodCondition(status, condition)
}

// statusOf finds a container's status among all of the pod.
func statusOf(status *corev1.PodStatus, name string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == name {
				return &statuses[i]
			}
		}
	}
	return &corev1.ContainerStatus{} // Nobody's: all containers have one from the beginning.
}
