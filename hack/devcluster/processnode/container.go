package processnode

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// container runs one container of a pod, as often as its restart policy says.
type container struct {
	pod    *pod
	spec   *corev1.Container
	init   bool
	folder string

	mu      sync.Mutex
	process *process // The latest.
	ready   bool
}

// Between two runs of a container, doubled each time; a run that lasted longer
// than the longest begins anew.
const (
	shortestBackoff = time.Second
	longestBackoff  = 30 * time.Second
)

// settle is how often a container that cannot start looks again.
const settle = 300 * time.Millisecond

func newContainer(p *pod, spec *corev1.Container, init bool) *container {
	return &container{pod: p, spec: spec, init: init, folder: filepath.Join(p.folder, "containers", spec.Name)}
}

// run returns how the container ended for good, or nil if it never began.
func (c *container) run() *corev1.ContainerStateTerminated {
	backoff := shortestBackoff
	for {
		began := time.Now()
		ended := c.runOnce()
		if ended == nil || c.pod.order.cause() != causeNone || !c.restarts(ended) {
			return ended
		}
		if time.Since(began) > longestBackoff {
			backoff = shortestBackoff
		}
		c.change(func(status *corev1.ContainerStatus) {
			status.LastTerminationState = corev1.ContainerState{Terminated: ended}
			status.State = waiting("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting container %s", backoff, c.spec.Name))
		})
		if !c.pod.order.wait(backoff) {
			c.change(func(status *corev1.ContainerStatus) { status.State = corev1.ContainerState{Terminated: ended} })
			return ended
		}
		backoff = min(2*backoff, longestBackoff)
	}
}

func (c *container) restarts(ended *corev1.ContainerStateTerminated) bool {
	switch c.pod.object.Spec.RestartPolicy {
	case corev1.RestartPolicyAlways:
		return !c.init || ended.ExitCode != 0
	case corev1.RestartPolicyOnFailure:
		return ended.ExitCode != 0
	default:
		return false
	}
}

// runOnce returns nil if an order came before the process could start.
func (c *container) runOnce() *corev1.ContainerStateTerminated {
	p := c.start()
	if p == nil {
		return nil
	}
	c.mu.Lock()
	c.process, c.ready = p, c.init || c.spec.ReadinessProbe == nil
	c.mu.Unlock()
	if p.failure == nil {
		c.change(func(status *corev1.ContainerStatus) {
			yes := true
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.startedAt}}
			status.Started, status.Ready, status.RestartCount = &yes, c.isReady(), int32(p.number)
			status.ImageID, status.ContainerID = "process://"+p.binary, p.id()
		})
		go c.probe(p)
		go p.obey(c.pod.order)
	}
	<-p.done
	ended := c.termination(p)
	c.change(func(status *corev1.ContainerStatus) {
		no := false
		status.State = corev1.ContainerState{Terminated: ended}
		status.Started, status.Ready, status.RestartCount = &no, c.init && ended.ExitCode == 0, int32(p.number)
	})
	return ended
}

// start waits until the container can be started, saying why it cannot yet.
func (c *container) start() *process {
	said := map[string]bool{}
	for {
		if c.pod.order.cause() != causeNone {
			return nil
		}
		process, obstacle := c.prepare()
		if obstacle == nil {
			return process
		}
		reason := obstacle.reason
		if reason == reasonImage && said[obstacle.message] {
			reason = "ImagePullBackOff"
		}
		c.change(func(status *corev1.ContainerStatus) { status.State = waiting(reason, obstacle.message) })
		if !said[obstacle.message] {
			c.pod.event(corev1.EventTypeWarning, "Failed", "container %s: %s", c.spec.Name, obstacle.message)
			said[obstacle.message] = true
		}
		if !c.pod.order.wait(settle) {
			return nil
		}
	}
}

// obstacle is why a container cannot start now, and may later.
type obstacle struct {
	reason, message string
}

const (
	reasonImage  = "ErrImagePull"
	reasonConfig = "CreateContainerConfigError"
)

// prepare starts the process if everything it needs is there.
func (c *container) prepare() (*process, *obstacle) {
	images, err := c.pod.agent.images()
	if err != nil {
		return nil, &obstacle{reasonImage, err.Error()}
	}
	binary, known := images[c.spec.Image]
	if !known {
		return nil, &obstacle{reasonImage, fmt.Sprintf("no binary for image %q: add it to %s", c.spec.Image, c.pod.agent.config.Dir.Images())}
	}
	environment, err := c.environment()
	if err != nil {
		return nil, &obstacle{reasonConfig, err.Error()}
	}
	if err := os.MkdirAll(c.folder, 0o700); err != nil {
		return nil, &obstacle{reasonConfig, err.Error()}
	}
	if err := os.WriteFile(c.terminationLog(), nil, 0o600); err != nil {
		return nil, &obstacle{reasonConfig, err.Error()}
	}
	invocation, err := c.invocation(binary, environment)
	if err != nil {
		return nil, &obstacle{reasonConfig, err.Error()}
	}
	process, err := c.launch(invocation)
	if err != nil {
		return nil, &obstacle{reasonConfig, err.Error()}
	}
	return process, nil
}

func (c *container) terminationLog() string { return filepath.Join(c.folder, "termination-log") }

// change alters the container's status and what follows from it for the pod.
func (c *container) change(alter func(*corev1.ContainerStatus)) {
	c.pod.report.change(func(status *corev1.PodStatus) {
		alter(statusOf(status, c.spec.Name))
		derive(status)
	})
}

func (c *container) isReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

// latest is the process that was started last, nil before the first.
func (c *container) latest() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}
