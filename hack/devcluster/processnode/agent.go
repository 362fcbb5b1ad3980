package processnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/launch"
)

// shutdownGrace is what pods get when the whole node stops.
const shutdownGrace = 2 * time.Second

// Agent turns the pods bound to the node into running ones.
type Agent struct {
	config    Config
	client    kubernetes.Interface
	server    string // URL of the API server, for the pods' kubeconfigs.
	thread    *launch.Thread
	events    record.EventRecorder
	addresses *addresses
	informer  cache.SharedIndexInformer

	mu   sync.Mutex
	pods map[types.UID]*pod
}

func newAgent(config Config, client kubernetes.Interface, server string) (*Agent, error) {
	if err := os.MkdirAll(config.Dir.Pods(), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the pods: %w", err)
	}
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", Name).String()
	}))
	return &Agent{
		config: config, client: client, server: server,
		thread:    launch.NewThread(),
		events:    broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "process-node", Host: Name}),
		addresses: newAddresses(config.PodNet),
		informer:  factory.Core().V1().Pods().Informer(),
		pods:      map[types.UID]*pod{},
	}, nil
}

// Run follows the pods until the context ends, then stops them all.
func (a *Agent) Run(ctx context.Context) error {
	parent := os.Getppid()
	// The processes of the node's last life died with it, but not what they had started.
	if n := launch.EndLeftovers(a.config.Dir.Pods()); n > 0 {
		klog.InfoS("Ended what the pods of an earlier node had left", "processes", n)
	}
	_, err := a.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.observe(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { a.observe(object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if unknown, is := object.(cache.DeletedFinalStateUnknown); is {
				object = unknown.Obj
			}
			if deleted, is := object.(*corev1.Pod); is {
				a.vanished(deleted.UID)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("following the pods: %w", err)
	}
	informer := make(chan struct{})
	go a.informer.Run(informer)
	if cache.WaitForCacheSync(ctx.Done(), a.informer.HasSynced) {
		a.sweep()
	}
	<-ctx.Done()
	close(informer)

	a.shutdown(func() bool { return os.Getppid() != parent })
	return nil
}

// observe is called for every change of a pod that is bound to this node.
func (a *Agent) observe(seen *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[seen.UID]
	if p == nil {
		if over(seen.Status.Phase) {
			if seen.DeletionTimestamp != nil {
				go a.removeObject(seen)
			}
			return
		}
		p = newPod(a, seen.DeepCopy())
		a.pods[seen.UID] = p
		go p.run()
	}
	p.update(seen)
}

// vanished is called when the object is gone: it was deleted by force, or by us
// at the end of its pod.
func (a *Agent) vanished(uid types.UID) {
	a.mu.Lock()
	p := a.pods[uid]
	delete(a.pods, uid)
	a.mu.Unlock()
	if p != nil {
		p.report.freeze()
		p.order.give(causeVanished, 0)
		go func() {
			<-p.ended
			_ = os.RemoveAll(p.folder)
		}()
	}
}

// shutdown stops the pods without saying so in the API: the next node finds out
// that they had been started, and decides what becomes of them.
//
// When the supervisor is dead nothing is to outlive it, so there is no grace. Its
// death is not seen at once: the kernel signals when one thread of it has ended
// and shows another parent when all have.
func (a *Agent) shutdown(orphaned func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pods {
		p.report.freeze()
		p.order.give(causeShutdown, min(shutdownGrace, p.grace()))
	}
	for _, p := range a.pods {
		p.awaitEnd(func() {
			if orphaned() {
				p.order.give(causeShutdown, 0)
			}
		})
	}
	launch.EndLeftovers(a.config.Dir.Pods())
}

// awaitEnd waits for the pod's end and calls meanwhile again and again.
func (p *pod) awaitEnd(meanwhile func()) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-ticker.C:
			meanwhile()
		}
	}
}

// removeObject takes the pod out of the API. The precondition spares a new pod
// of the same name.
func (a *Agent) removeObject(old *corev1.Pod) {
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(old.UID))
	retry(context.Background(), func(ctx context.Context) (done bool) {
		err := a.client.CoreV1().Pods(old.Namespace).Delete(ctx, old.Name, *options)
		return err == nil || permanent(err)
	})
}

// sweep removes the folders of pods that were deleted while there was no node.
func (a *Agent) sweep() {
	living := map[string]bool{}
	for _, object := range a.informer.GetStore().List() {
		living[string(object.(*corev1.Pod).UID)] = true
	}
	folders, err := os.ReadDir(a.config.Dir.Pods())
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, folder := range folders {
		if !living[folder.Name()] && a.pods[types.UID(folder.Name())] == nil {
			_ = os.RemoveAll(filepath.Join(a.config.Dir.Pods(), folder.Name()))
		}
	}
}

// images are read anew for each container: others add some while the cluster runs.
func (a *Agent) images() (cluster.Images, error) {
	return cluster.ReadImages(a.config.Dir.Images())
}

func over(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func machine() string { return runtime.GOARCH }
