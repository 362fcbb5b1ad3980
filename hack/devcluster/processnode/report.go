package processnode

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	podcondition "k8s.io/kubernetes/pkg/api/v1/pod"
	podpatch "k8s.io/kubernetes/pkg/util/pod"
)

// report keeps the status of one pod in the API the way its node sees it.
//
// Changes are written as soon as the last write is through, and those that came
// meanwhile in one. A write is repeated until it worked or the pod is gone.
type report struct {
	client kubernetes.Interface
	object *corev1.Pod // Name and UID.
	wake   chan struct{}
	gone   chan struct{} // Closed: there is nobody to report to any more.
	once   sync.Once

	mu      sync.Mutex
	cond    *sync.Cond
	status  corev1.PodStatus // What the node knows; conditions of others are not in it.
	version int              // Of status.
	written int              // The version the API has.
	silent  bool

	base corev1.PodStatus // What the API had last; only the writer uses it.
}

func newReport(client kubernetes.Interface, seen *corev1.Pod) *report {
	r := &report{
		client: client, object: seen, base: *seen.Status.DeepCopy(), status: *seen.Status.DeepCopy(),
		wake: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	r.cond = sync.NewCond(&r.mu)
	go r.write()
	return r
}

// change alters the status, and has it written.
func (r *report) change(alter func(*corev1.PodStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	alter(&r.status)
	r.version++
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// current is a copy of what the node knows.
func (r *report) current() corev1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.status.DeepCopy()
}

// flush waits until the API has all changes, or nobody wants them any more.
func (r *report) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.written < r.version && !r.silent {
		r.cond.Wait()
	}
}

// freeze stops reporting: what happens from now on is not the pod's doing.
func (r *report) freeze() {
	r.once.Do(func() { close(r.gone) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = true
	r.cond.Broadcast()
}

func (r *report) write() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-r.gone
		cancel()
	}()
	for {
		select {
		case <-r.gone:
			return
		case <-r.wake:
		}
		retry(ctx, r.writeOnce)
	}
}

func (r *report) writeOnce(ctx context.Context) (done bool) {
	r.mu.Lock()
	status, version := *r.status.DeepCopy(), r.version
	r.mu.Unlock()

	patched, _, unchanged, err := podpatch.PatchPodStatus(ctx, r.client, r.object.Namespace, r.object.Name, r.object.UID,
		r.base, overlay(r.base, status))
	if err != nil {
		return r.recover(ctx, err)
	}
	if !unchanged {
		r.base = patched.Status
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written = max(r.written, version)
	r.cond.Broadcast()
	return r.written == r.version
}

// recover looks at the pod after a write that failed: the patch was made against
// a status that may not be the API's any more.
func (r *report) recover(ctx context.Context, failed error) (done bool) {
	fresh, err := r.client.CoreV1().Pods(r.object.Namespace).Get(ctx, r.object.Name, metav1.GetOptions{})
	switch {
	case err == nil && fresh.UID == r.object.UID:
		klog.ErrorS(failed, "Writing the status of a pod", "pod", klog.KObj(r.object))
		r.base = fresh.Status
		return false
	case err == nil || permanent(err):
		r.freeze()
		return true
	default:
		return false
	}
}

// ownConditions are those a node decides; others (PodScheduled, DisruptionTarget,
// readiness gates) belong to others and are left as they are.
var ownConditions = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
}

// overlay puts what the node knows over what the API has.
func overlay(base, known corev1.PodStatus) corev1.PodStatus {
	result := *known.DeepCopy()
	result.Conditions = base.DeepCopy().Conditions
	result.QOSClass, result.NominatedNodeName = base.QOSClass, base.NominatedNodeName
	for _, kind := range ownConditions {
		if _, condition := podcondition.GetPodConditionFromList(known.Conditions, kind); condition != nil {
			podcondition.UpdatePodCondition(&result, condition.DeepCopy())
		}
	}
	return result
}

func stamp() metav1.Time { return metav1.NewTime(time.Now()) }
