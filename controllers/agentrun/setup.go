package agentrun

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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/job"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// byQueuedDefinition indexes the runs that are not admitted by the definition they wait for.
const byQueuedDefinition = "queued.definitionRef.name"

// workers is how many runs are looked at at once. A look waits for Postgres most of the time.
const workers = 8

// SetupWithManager starts the controller with the manager.
//
// Pods are watched besides Jobs: the end of a container shows about two seconds before its Job is complete.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.AgentRun{}, byQueuedDefinition, func(o client.Object) []string {
		run := o.(*v1alpha1.AgentRun)
		if !run.Status.StartedAt.IsZero() || !run.Status.FinishedAt.IsZero() {
			return nil
		}
		return []string{run.Spec.DefinitionRef.Name}
	}); err != nil {
		return err
	}
	c := ctrl.NewControllerManagedBy(mgr).
		Named("agentrun").
		// What we write into the status ourselves is nothing to look at.
		For(&v1alpha1.AgentRun{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, deletion{}, reopening{}))).
		Owns(&batchv1.Job{}).
		Owns(&v1alpha1.ApprovalRequest{}, builder.WithPredicates(inVain{})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(runOfPod)).
		Watches(&v1alpha1.AgentDefinition{}, handler.EnqueueRequestsFromMapFunc(r.queued)).
		Watches(&v1alpha1.DefinitionRevision{}, handler.EnqueueRequestsFromMapFunc(r.queued)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			// Per run, and no longer than a lease: after an outage of Postgres or of the API nobody waits for minutes.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, contract.LeaseTTL),
		})
	if r.Woken != nil {
		c.WatchesRawSource(source.Channel(r.Woken, &handler.EnqueueRequestForObject{}))
	}
	return c.Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// inVain lets requests through that will not be answered: those that are gone, and those that were withdrawn. The answer of
// any other is delivered through the ledger, and the run is woken then.
type inVain struct{ predicate.Funcs }

// Create lets nothing through: we create them ourselves.
func (inVain) Create(event.CreateEvent) bool { return false }

// Update reports whether the request has just been withdrawn.
func (inVain) Update(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*v1alpha1.ApprovalRequest)
	after, ok2 := e.ObjectNew.(*v1alpha1.ApprovalRequest)
	return ok1 && ok2 && before.Status.Phase != after.Status.Phase && after.Status.Phase == v1alpha1.ApprovalWithdrawn
}

// deletion lets the request for a run's deletion through, and nothing else.
type deletion struct{ predicate.Funcs }

// Update reports whether the deletion is new. The other events are those of the predicate beside it.
func (deletion) Update(e event.UpdateEvent) bool {
	return e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
}

// reopening lets a status through that has lost the end which it had. Whoever restores an object from a backup may write its
// status after it was looked at.
type reopening struct{ predicate.Funcs }

// Update reports whether the end is gone. The other events are those of the predicate beside it.
func (reopening) Update(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*v1alpha1.AgentRun)
	after, ok2 := e.ObjectNew.(*v1alpha1.AgentRun)
	return ok1 && ok2 && recorded(before) != nil && recorded(after) == nil
}

// runOfPod is the run whose Job a pod belongs to. The Job's name is not the run's; an annotation names it.
func runOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetAnnotations()[job.AnnotationRun]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}

// queued are the runs that wait for a definition.
func (r *Reconciler) queued(ctx context.Context, o client.Object) []reconcile.Request {
	name := o.GetName()
	if rev, ok := o.(*v1alpha1.DefinitionRevision); ok {
		name = rev.Spec.DefinitionRef.Name
	}
	var runs v1alpha1.AgentRunList
	if err := r.Client.List(ctx, &runs, client.InNamespace(o.GetNamespace()), client.MatchingFields{byQueuedDefinition: name}); err != nil {
		return nil // the cache is stopping
	}
	requests := make([]reconcile.Request, 0, len(runs.Items))
	for i := range runs.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&runs.Items[i])})
	}
	return requests
}
