package sim

import (
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

func itoa(n int) string { return strconv.Itoa(n) }

// run is what the API server holds of the one AgentRun.
type run struct {
	version                int
	gone                   bool
	cancel, deleting, held bool
	ttl                    time.Duration
	// started and ended are status.startedAt and the end that the status shows.
	started   bool
	ended     *lifecycle.End
	cancelled bool
	reason    string
}

// The kinds that a cache follows, each by a watch of its own.
const (
	ofRun = iota
	ofJobs
	ofPods
	ofRequests
	ofPolicy
	kinds
)

var kindNames = [kinds]string{"run", "jobs", "pods", "requests", "policy"}

// objects is a state of the API server. What the lists hold never changes: whoever writes puts another in its place.
type objects struct {
	run      run
	jobs     []*batchv1.Job
	pods     []*corev1.Pod
	requests []*v1alpha1.ApprovalRequest
	policy   int // which of policies
	edits    int // the generation of its object
	version  [kinds]int
}

// follow takes over the newest state of one kind.
func (o *objects) follow(from *objects, kind int) {
	switch kind {
	case ofRun:
		o.run = from.run
	case ofJobs:
		o.jobs = append(o.jobs[:0], from.jobs...)
	case ofPods:
		o.pods = append(o.pods[:0], from.pods...)
	case ofRequests:
		o.requests = append(o.requests[:0], from.requests...)
	case ofPolicy:
		o.policy, o.edits = from.policy, from.edits
	}
	o.version[kind] = from.version[kind]
}

// cluster is the API server and what runs beside it: Jobs, garbage collection, kubelets.
type cluster struct {
	objects
	serial int
	hosted []*pod
	// full says that a quota refuses new Jobs.
	full bool
	// duplicates is how many pods a Job has made that it should not have.
	duplicates map[types.UID]int
}

// pod is a pod on its node: what the kubelet knows and the API server perhaps does not.
type pod struct {
	uid     types.UID
	job     types.UID
	key     lifecycle.AttemptKey
	process *process
	// killAt is when its grace is over; zero while it was not told to go.
	killAt time.Time
	// lost says that its kubelet is never heard of again.
	lost bool
}

func (c *cluster) changed(kind int) { c.version[kind]++ }

func (c *cluster) uid(kind string) types.UID {
	c.serial++
	return types.UID(kind + "-" + itoa(c.serial))
}

func (c *cluster) job(k lifecycle.AttemptKey) int {
	return slices.IndexFunc(c.jobs, func(j *batchv1.Job) bool { return j.Name == nameOf(k) })
}

func nameOf(k lifecycle.AttemptKey) string { return "run-" + itoa(k.Segment) + "-" + itoa(k.Attempt) }

// createJob is the API server's, and tells the UID; made is false if the name was taken.
func (c *cluster) createJob(k lifecycle.AttemptKey) (uid types.UID, made bool) {
	if i := c.job(k); i >= 0 {
		return c.jobs[i].UID, false
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: nameOf(k), UID: c.uid("job"),
		Labels: map[string]string{v1alpha1.LabelSegment: itoa(k.Segment), v1alpha1.LabelAttempt: itoa(k.Attempt)},
	}}
	c.jobs = append(c.jobs, j)
	c.changed(ofJobs)
	return j.UID, true
}

// deleteJob deletes in the background: the pods follow.
func (c *cluster) deleteJob(name string) {
	before := len(c.jobs)
	c.jobs = slices.DeleteFunc(c.jobs, func(j *batchv1.Job) bool { return j.Name == name })
	if len(c.jobs) != before {
		c.changed(ofJobs)
	}
}

func keyOf(j *batchv1.Job) lifecycle.AttemptKey {
	s, _ := strconv.Atoi(j.Labels[v1alpha1.LabelSegment])
	a, _ := strconv.Atoi(j.Labels[v1alpha1.LabelAttempt])
	return lifecycle.AttemptKey{Segment: s, Attempt: a}
}

var controlled = true

func (c *cluster) createPod(j *batchv1.Job) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: c.uid("pod"), OwnerReferences: []metav1.OwnerReference{{UID: j.UID, Controller: &controlled}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	c.pods = append(c.pods, p)
	c.hosted = append(c.hosted, &pod{uid: p.UID, job: j.UID, key: keyOf(j)})
	c.changed(ofPods)
}

func (c *cluster) pod(uid types.UID) *corev1.Pod {
	for _, p := range c.pods {
		if p.UID == uid {
			return p
		}
	}
	return nil
}

// change puts a changed copy of a pod in its place.
func (c *cluster) change(uid types.UID, f func(*corev1.Pod)) {
	for i, p := range c.pods {
		if p.UID == uid {
			changed := *p
			f(&changed)
			c.pods[i] = &changed
			c.changed(ofPods)
		}
	}
}

func (c *cluster) removePod(uid types.UID) {
	c.pods = slices.DeleteFunc(c.pods, func(p *corev1.Pod) bool { return p.UID == uid })
	c.hosted = slices.DeleteFunc(c.hosted, func(p *pod) bool { return p.uid == uid && !p.lost })
	c.changed(ofPods)
}

func over(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// told tells a pod to go: its process hears it and has its grace.
func (w *world) told(h *pod) {
	if !h.killAt.IsZero() {
		return
	}
	h.killAt = w.now.Add(contract.StopGrace)
	if h.process != nil {
		h.process.told()
	}
	w.cluster.change(h.uid, func(p *corev1.Pod) {
		at := metav1.NewTime(w.now)
		p.DeletionTimestamp = &at
	})
}

// chores are what the cluster's own controllers and kubelets have to do now, in a fixed order.
func (w *world) chores(add func(what string, do func())) {
	c := &w.cluster
	for _, j := range c.jobs {
		var made, live, dead int
		for _, p := range c.pods {
			if p.OwnerReferences[0].UID != j.UID {
				continue
			}
			made++
			if over(p) {
				dead++
			} else if p.DeletionTimestamp == nil {
				live++
			}
		}
		concluded := len(j.Status.Conditions) > 0
		switch {
		case !concluded && made == 0 && j.Annotations == nil:
			add(w.say("the Job controller makes a pod of ", j.Name), func() { c.firstPod(j) })
		case !concluded && made == 1 && w.doubles > 0:
			add(w.say("the Job controller makes a second pod of ", j.Name), func() { w.doubles--; c.duplicates[j.UID]++; c.createPod(j) })
		case !concluded && dead > 0 && w.bugs.RetryTwice && made < 3 && live == 0:
			add(w.say("the Job controller makes another pod of ", j.Name), func() { c.createPod(j) })
		case !concluded && (dead > 0 || made == 0):
			add(w.say("the Job controller concludes ", j.Name), func() { w.conclude(j) })
		case c.run.gone:
			add(w.say("the garbage collector takes Job ", j.Name), func() { c.deleteJob(j.Name) })
		case concluded && dead == made && w.settling():
			add(w.say("Job ", j.Name, " has lived its time"), func() { c.deleteJob(j.Name) })
		}
	}
	for _, h := range c.hosted {
		w.kubelet(h, add)
	}
	if c.run.gone && len(c.requests) > 0 {
		add("the garbage collector takes the requests", func() { c.requests = c.requests[:0]; c.changed(ofRequests) })
	}
}

// firstPod remembers in the Job that its pod was made: one that was removed by hand fails the Job.
func (c *cluster) firstPod(j *batchv1.Job) {
	for i := range c.jobs {
		if c.jobs[i].UID == j.UID {
			marked := *j
			marked.Annotations = map[string]string{"made": "1"}
			c.jobs[i] = &marked
			c.createPod(&marked)
		}
	}
}

// conclude completes or fails a Job, and has its other pods killed.
func (w *world) conclude(j *batchv1.Job) {
	c, kind := &w.cluster, batchv1.JobFailed
	for _, p := range c.pods {
		if p.OwnerReferences[0].UID == j.UID && p.Status.Phase == corev1.PodSucceeded {
			kind = batchv1.JobComplete
		}
	}
	for i := range c.jobs {
		if c.jobs[i].UID == j.UID {
			done := *c.jobs[i]
			done.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
			c.jobs[i] = &done
			c.changed(ofJobs)
		}
	}
	for _, h := range slices.Clone(c.hosted) {
		if p := c.pod(h.uid); h.job == j.UID && p != nil && !over(p) {
			w.told(h)
		}
	}
}

// kubelet is what one pod's kubelet, and the garbage collector for it, has to do.
func (w *world) kubelet(h *pod, add func(what string, do func())) {
	c := &w.cluster
	p := c.pod(h.uid)
	if p == nil {
		return
	}
	name := string(h.uid)
	orphan := !slices.ContainsFunc(c.jobs, func(j *batchv1.Job) bool { return j.UID == h.job })
	switch {
	case orphan && p.DeletionTimestamp == nil:
		add(w.say("the garbage collector tells ", name, " to go"), func() { w.told(h) })
	case h.lost:
	case h.process == nil && p.DeletionTimestamp != nil, over(p) && orphan:
		add(w.say(name, " is removed"), func() { c.removePod(h.uid) })
	case h.process == nil && !over(p):
		add(w.say(name, " starts"), func() { w.startProcess(h) })
	case h.process != nil && h.process.exit == nil && p.Status.Phase == corev1.PodPending:
		add(w.say("the kubelet reports that ", name, " runs"), func() { w.reportRunning(h) })
	case h.process != nil && h.process.exit != nil && !over(p):
		add(w.say("the kubelet reports the end of ", name), func() { w.report(h) })
	case over(p) && p.DeletionTimestamp != nil:
		add(w.say(name, " is removed"), func() { c.removePod(h.uid) })
	case h.process != nil && h.process.exit == nil && !h.killAt.IsZero() && !w.now.Before(h.killAt):
		add(w.say("the grace of ", name, " is over"), func() { w.kill(h.process) })
	}
}

func (w *world) startProcess(h *pod) {
	h.process = newProcess(w, h)
	w.processes = append(w.processes, h.process)
	w.laws.started(h)
}

// reportRunning shows in the pod that its process has started, which it has for a while.
func (w *world) reportRunning(h *pod) {
	w.cluster.change(h.uid, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: contract.SegmentContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
	})
}

// report shows in the pod how its process ended.
func (w *world) report(h *pod) {
	e := h.process.exit
	w.cluster.change(h.uid, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		if e.code == contract.ExitDone {
			p.Status.Phase = corev1.PodSucceeded
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: contract.SegmentContainer, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(e.code), Message: e.message},
			},
		}}
	})
}
