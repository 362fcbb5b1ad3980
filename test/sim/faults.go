package sim

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// fault is something bad.
func (w *world) fault() { faults[w.d.n(len(faults))](w) }

// faults are by how often they happen.
var faults = []func(*world){
	(*world).crashManager, (*world).crashManager, (*world).stopManager, (*world).stopManager,
	(*world).killProcess, (*world).killProcess, (*world).killProcess, (*world).stopProcess, (*world).stopProcess,
	(*world).evict, (*world).deleteJob, (*world).deletePod, (*world).loseNode, (*world).doublePod,
	(*world).stopRun, (*world).changePolicy, (*world).changePolicy, (*world).skew, (*world).useUpQuota, (*world).deleteRequest,
}

func (w *world) crashManager() {
	r := w.replicas[w.d.n(len(w.replicas))]
	w.tell("%s crashes", r.name)
	r.crash()
}

func (w *world) stopManager() {
	r := w.replicas[w.d.n(len(w.replicas))]
	r.asleep = w.now.Add(durations[w.d.n(len(durations))])
	w.tell("%s is stopped until %.0fs", r.name, r.asleep.Sub(start).Seconds())
}

func (w *world) killProcess() {
	if p := w.process(); p != nil {
		w.tell("%s is killed", p.name)
		w.kill(p)
	}
}

// stopProcess stops one, or wakes it up.
func (w *world) stopProcess() {
	if p := w.process(); p != nil {
		p.frozen = !p.frozen
		w.tell("%s is stopped: %v", p.name, p.frozen)
	}
}

func (w *world) evict() {
	if h := w.host(); h != nil {
		w.tell("%s is evicted", h.uid)
		w.cluster.change(h.uid, func(p *corev1.Pod) {
			p.Status.Conditions = append(slices.Clone(p.Status.Conditions), corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
		})
		w.told(h)
	}
}

func (w *world) deleteJob() {
	if jobs := w.cluster.jobs; len(jobs) > 0 {
		j := jobs[w.d.n(len(jobs))]
		w.tell("Job %s is deleted by hand", j.Name)
		w.cluster.deleteJob(j.Name)
	}
}

func (w *world) deletePod() {
	if h := w.host(); h != nil {
		w.tell("%s is deleted by hand", h.uid)
		w.told(h)
	}
}

func (w *world) doublePod() {
	if jobs := w.cluster.jobs; len(jobs) > 0 {
		j := jobs[w.d.n(len(jobs))]
		w.tell("Job %s makes another pod", j.Name)
		w.cluster.duplicates[j.UID]++
		w.cluster.createPod(j)
	}
}

func (w *world) changePolicy() {
	c := &w.cluster
	c.policy = w.d.n(len(policies))
	c.edits++
	c.changed(ofPolicy)
	w.tell("the policy is changed to %d", c.policy)
}

// useUpQuota uses it up, or gives it back.
func (w *world) useUpQuota() {
	w.cluster.full = !w.cluster.full
	w.defined = true
	w.tell("the quota is used up: %v", w.cluster.full)
}

func (w *world) deleteRequest() {
	c := &w.cluster
	if n := len(c.requests); n > 0 {
		q := c.requests[w.d.n(n)]
		w.tell("%s is deleted by hand", q.Name)
		c.requests = slices.DeleteFunc(c.requests, func(other *v1alpha1.ApprovalRequest) bool { return other == q })
		c.changed(ofRequests)
	}
}

// strike hits a process where it hurts, if there is one: at a write or before a call is sent.
func (w *world) strike() bool {
	for _, p := range w.processes {
		word, _, _ := strings.Cut(p.doing, " ")
		if p.exit != nil || p.frozen || word != w.hunt.sore[w.d.n(len(w.hunt.sore))] {
			continue
		}
		p.frozen = w.d.n(100) < w.hunt.freezes
		w.tell("%s is hit where it %s; it will wake up: %v", p.name, p.doing, p.frozen)
		if !p.frozen {
			w.kill(p)
		}
		return true
	}
	return false
}

// stopRun cancels the run, or deletes it.
func (w *world) stopRun() {
	r := &w.cluster.run
	if w.d.once(3) {
		w.tell("the run is deleted")
		w.deleteRun()
		return
	}
	if !r.gone && !r.cancel {
		r.cancel = true
		r.version++
		w.cluster.changed(ofRun)
		w.tell("the run is cancelled")
	}
}

// loseNode loses a node for good: its kubelet is not heard of any more. What ran there is gone, or goes on cut off from the cluster.
func (w *world) loseNode() {
	h := w.host()
	if h == nil || h.process == nil {
		return
	}
	h.lost = true
	w.tell("the node of %s is lost", h.uid)
	switch w.d.n(3) {
	case 0:
		w.kill(h.process)
	case 1:
		h.process.frozen = true
	}
	if w.d.once(2) { // and the cluster notices
		w.cluster.change(h.uid, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses = nil
			p.Status.Conditions = append(slices.Clone(p.Status.Conditions), corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
		})
	}
}

// skew makes a clock jump.
func (w *world) skew() {
	to := offsets[w.d.n(len(offsets))]
	if p := w.process(); p != nil && w.d.n(3) > 0 {
		p.offset = to
		w.tell("the clock of %s jumps to %v", p.name, to)
		return
	}
	r := w.replicas[w.d.n(len(w.replicas))]
	r.offset = to
	w.tell("the clock of %s jumps to %v", r.name, to)
}

func (w *world) kill(p *process) {
	if p.exit == nil {
		p.routine.stop()
		p.exit = &exit{code: 137}
	}
}

// calm ends what is bad, but for nodes that are lost for good.
func (w *world) calm() {
	w.fair, w.defined, w.cluster.full = true, true, false
	for _, r := range w.replicas {
		r.asleep = time.Time{}
	}
	for i, p := range w.processes { // some wake up long after others have taken over
		p.thaw = w.now.Add(time.Duration(i%3) * 70 * time.Second)
	}
	w.tell("from here on nothing bad happens")
}

// process draws one that has not ended, or nil.
func (w *world) process() *process {
	var live []*process
	for _, p := range w.processes {
		if p.exit == nil {
			live = append(live, p)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return live[w.d.n(len(live))]
}

// host draws a pod whose node is there, or nil.
func (w *world) host() *pod {
	var there []*pod
	for _, h := range w.cluster.hosted {
		if !h.lost && w.cluster.pod(h.uid) != nil {
			there = append(there, h)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return there[w.d.n(len(there))]
}
