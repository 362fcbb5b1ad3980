package toolserver

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/toolserver/discovery"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// workers is how many servers are looked at at once. A look waits for Postgres most of the time.
const workers = 4

// SetupWithManager starts the controller with the manager. A Job that goes, because its time to live is over or by hand,
// brings its server back here: a failed discovery is tried again by that alone.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("toolserver").
		// What we write into the status ourselves is nothing to look at.
		For(&v1alpha1.ToolServer{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(serverOfPod)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			// Per server, and no longer than a lease: after an outage of Postgres or of the API nobody waits for minutes.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, contract.LeaseTTL),
		}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// serverOfPod is the server whose Job a pod belongs to. The Job's name is not the server's; an annotation names it.
func serverOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetAnnotations()[discovery.AnnotationServer]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}
