package processnode

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

// pod is one pod's life on this node, from being bound to it until its object is gone.
//
//	waiting for volumes ─→ init containers, one by one ─→ containers, together ─→ ended
//	       └───────────────── an order may end it anywhere ─────────────────────────┘
type pod struct {
	agent   *Agent
	object  *corev1.Pod // As it was bound: the parts that matter to us never change.
	folder  string
	address string
	order   *order
	report  *report
	volumes *volumes
	ended   chan struct{} // Closed when no process is left and the API knows.

	deletion sync.Once

	mu         sync.Mutex
	deadline   *time.Timer
	containers map[string]*container
}

func newPod(agent *Agent, seen *corev1.Pod) *pod {
	p := &pod{
		agent: agent, object: seen,
		folder: agent.config.Dir.Path("pods", string(seen.UID)),
		order:  newOrder(), report: newReport(agent.client, seen),
		ended:      make(chan struct{}),
		containers: map[string]*container{},
	}
	p.volumes = newVolumes(p)
	for i := range seen.Spec.InitContainers {
		p.containers[seen.Spec.InitContainers[i].Name] = newContainer(p, &seen.Spec.InitContainers[i], true)
	}
	for i := range seen.Spec.Containers {
		p.containers[seen.Spec.Containers[i].Name] = newContainer(p, &seen.Spec.Containers[i], false)
	}
	return p
}

// update looks at what can change after the pod was bound.
func (p *pod) update(seen *corev1.Pod) {
	p.limit(seen.Spec.ActiveDeadlineSeconds)
	if seen.DeletionTimestamp == nil {
		return
	}
	grace := p.grace()
	if seconds := seen.DeletionGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	p.order.give(causeDeleted, grace)
	// The object goes as soon as the processes have, not at the end of the grace.
	p.deletion.Do(func() {
		go func() {
			<-p.ended
			if p.order.cause() != causeShutdown {
				p.agent.removeObject(p.object)
			}
		}()
	})
}

// grace between SIGTERM and SIGKILL unless a deletion says otherwise.
func (p *pod) grace() time.Duration {
	if seconds := p.object.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// limit sets or moves the pod's deadline, which counts from its start.
func (p *pod) limit(seconds *int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadline != nil {
		p.deadline.Stop()
	}
	if seconds == nil {
		return
	}
	began := time.Now()
	if start := p.report.current().StartTime; start != nil {
		began = start.Time
	}
	p.deadline = time.AfterFunc(time.Until(began.Add(time.Duration(*seconds)*time.Second)), func() {
		p.order.give(causeDeadline, p.grace())
	})
}

func (p *pod) run() {
	defer p.finish()
	started := p.started()
	if started && p.object.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		p.report.change(func(status *corev1.PodStatus) { interrupted(p.object, status) })
		return
	}
	p.address = p.agent.addresses.take()
	p.report.change(func(status *corev1.PodStatus) { p.begin(status, started) })

	if name := unsupported(p.object); name != "" {
		p.report.change(func(status *corev1.PodStatus) {
			status.Phase, status.Reason = corev1.PodFailed, "NotSupported"
			status.Message = fmt.Sprintf("the process node does not support %s", name)
		})
		return
	}
	if !p.volumes.mount() {
		return
	}
	p.report.change(func(status *corev1.PodStatus) { setCondition(status, corev1.PodReadyToStartContainers, true, "") })
	go p.volumes.refresh()
	if p.initialize() {
		p.runContainers()
	}
}

// started says whether a node before this one has started a container of the pod.
func (p *pod) started() bool {
	logs, _ := filepath.Glob(filepath.Join(p.logs(), "*", "*.log"))
	return len(logs) > 0
}

// logs is named like the kubelet's, and stays when the pod is gone.
func (p *pod) logs() string {
	return p.agent.config.Dir.Path("logs", "pods", fmt.Sprintf("%s_%s_%s", p.object.Namespace, p.object.Name, p.object.UID))
}

// begin is the status of a pod this node has accepted.
func (p *pod) begin(status *corev1.PodStatus, restarted bool) {
	now := stamp()
	status.Phase = corev1.PodPending
	if status.StartTime == nil { // A pod that starts anew on a restarted node is not younger.
		status.StartTime = &now
	}
	status.HostIP, status.HostIPs = cluster.Loopback, []corev1.HostIP{{IP: cluster.Loopback}}
	status.PodIP, status.PodIPs = p.address, []corev1.PodIP{{IP: p.address}}
	status.ObservedGeneration = p.object.Generation
	status.InitContainerStatuses = created(p.object.Spec.InitContainers, "PodInitializing")
	status.ContainerStatuses = created(p.object.Spec.Containers, "ContainerCreating")
	if restarted {
		for i := range status.ContainerStatuses {
			status.ContainerStatuses[i].LastTerminationState.Terminated = lost(now)
		}
	}
	setCondition(status, corev1.PodReadyToStartContainers, false, "")
	setCondition(status, corev1.PodInitialized, len(p.object.Spec.InitContainers) == 0, "ContainersNotInitialized")
}

// initialize runs the init containers; false means that the pod ends here.
func (p *pod) initialize() bool {
	for i := range p.object.Spec.InitContainers {
		ended := p.containers[p.object.Spec.InitContainers[i].Name].run()
		if ended == nil || ended.ExitCode != 0 || p.order.cause() != causeNone {
			return false
		}
	}
	p.report.change(func(status *corev1.PodStatus) { setCondition(status, corev1.PodInitialized, true, "") })
	return true
}

func (p *pod) runContainers() {
	var wait sync.WaitGroup
	for i := range p.object.Spec.Containers {
		container := p.containers[p.object.Spec.Containers[i].Name]
		wait.Go(func() { container.run() })
	}
	wait.Wait()
}

// finish reports how the pod ended and clears away what it needed to live.
func (p *pod) finish() {
	p.mu.Lock()
	if p.deadline != nil {
		p.deadline.Stop()
	}
	p.mu.Unlock()
	why := p.order.cause()
	p.report.change(func(status *corev1.PodStatus) { conclude(status, why) })
	p.report.flush()
	close(p.ended)
	p.agent.addresses.release(p.address)
	p.volumes.remove() // They may hold secrets.
}

// event tells the owner of the pod about it.
func (p *pod) event(kind, reason, format string, arguments ...any) {
	p.agent.events.Eventf(p.object, kind, reason, format, arguments...)
}

// unsupported names what a pod cannot do without and this node cannot do.
func unsupported(object *corev1.Pod) string {
	for _, container := range object.Spec.InitContainers {
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			return "sidecars (init container " + container.Name + " with restartPolicy Always)"
		}
	}
	return ""
}
