package approval

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
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

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/approval/guard"
	"github.com/ekiden-dev/ekiden/controllers/metrics"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// byOpen indexes the requests that are open: most that exist are not.
const byOpen = "status.open"

// yes is the one value of that index.
const yes = "yes"

func indexOpen(o client.Object) []string {
	if open(o.(*v1alpha1.ApprovalRequest)) {
		return []string{yes}
	}
	return nil
}

// SetupWithManager starts the controller with the manager, and shows the open requests among the metrics.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.ApprovalRequest{}, byOpen, indexOpen); err != nil {
		return err
	}
	concerned := builder.WithPredicates(predicate.NewPredicateFuncs(r.Guard.Concerns))
	b := ctrl.NewControllerManagedBy(mgr).
		Named("approval").
		// What we write into the status ourselves is nothing to look at.
		For(&v1alpha1.ApprovalRequest{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.AgentRun{}, handler.EnqueueRequestsFromMapFunc(r.ofRun), builder.WithPredicates(moving{}))
	for _, kind := range guard.Kinds() {
		b = b.Watches(kind, handler.EnqueueRequestsFromMapFunc(r.every), concerned)
	}
	if err := b.WithOptions(controller.Options{
		// One at a time: of two approvals by one person only the first counts, and that is told by looking at the other.
		MaxConcurrentReconciles: 1,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, contract.LeaseTTL),
	}).Complete(reconcile.AsReconciler(mgr.GetClient(), r)); err != nil {
		return err
	}
	elected := mgr.Elected()
	metrics.ShowApprovals(func(ctx context.Context) (metrics.Approvals, bool) {
		select {
		case <-elected:
		default: // another replica tells the same, and knows it better
			return metrics.Approvals{}, false
		}
		a, err := r.state(ctx, time.Now())
		return a, err == nil
	})
	return nil
}

// state is how the open requests stand, as the cache shows them.
func (r *Reconciler) state(ctx context.Context, now time.Time) (metrics.Approvals, error) {
	var all v1alpha1.ApprovalRequestList
	if err := r.Client.List(ctx, &all, client.MatchingFields{byOpen: yes}, client.UnsafeDisableDeepCopy); err != nil {
		return metrics.Approvals{}, fmt.Errorf("listing open requests: %w", err)
	}
	why, err := r.Guard.Installed(ctx)
	if err != nil {
		return metrics.Approvals{}, err
	}
	a := metrics.Approvals{Open: len(all.Items), Guarded: why == ""}
	for i := range all.Items {
		a.Oldest = max(a.Oldest, now.Sub(all.Items[i].CreationTimestamp.Time))
		if meta.IsStatusConditionFalse(all.Items[i].Status.Conditions, v1alpha1.ConditionApprovalsGuarded) {
			a.Guarded = false
		}
	}
	return a, nil
}

// moving lets through that a run goes another way: it stops, or a segment settles calls. Either may leave a question that no
// longer stands. A run that is new has asked none.
type moving struct{ predicate.Funcs }

func (moving) Create(event.CreateEvent) bool   { return false }
func (moving) Delete(event.DeleteEvent) bool   { return true }
func (moving) Generic(event.GenericEvent) bool { return false }

// Update reports whether the run's state is another. What is acknowledged in the status is committed in the ledger.
func (moving) Update(e event.UpdateEvent) bool { return way(e.ObjectOld) != way(e.ObjectNew) }

func way(o client.Object) string {
	all := o.(*v1alpha1.AgentRun).Status.Conditions
	reason := ""
	if c := meta.FindStatusCondition(all, v1alpha1.ConditionSucceeded); c != nil {
		reason = c.Reason
	}
	return fmt.Sprint(reason, meta.IsStatusConditionTrue(all, v1alpha1.ConditionFinished), meta.IsStatusConditionTrue(all, v1alpha1.ConditionCancelRequested))
}

// ofRun are the open requests of a run.
func (r *Reconciler) ofRun(ctx context.Context, run client.Object) []reconcile.Request {
	return r.find(ctx, ofRun(run.GetNamespace(), run.GetUID())...)
}

// every are the open requests of all namespaces: the policies may cover now what was decided, and if they were made anew, what
// is not decided has to be asked again.
func (r *Reconciler) every(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.find(ctx)
}

func (r *Reconciler) find(ctx context.Context, among ...client.ListOption) []reconcile.Request {
	var all v1alpha1.ApprovalRequestList
	if err := r.Client.List(ctx, &all, append(among, client.MatchingFields{byOpen: yes})...); err != nil {
		return nil // the cache is stopping
	}
	var requests []reconcile.Request
	for i := range all.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return requests
}

// ofRun selects the requests of a run.
func ofRun(namespace string, run types.UID) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelRunUID: string(run)}}
}
