package definition

import (
	"context"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Cache indexes.
const (
	byDefinition = "spec.definitionRef.name"
	byModel      = "spec.modelRef.name"
	byServer     = "spec.tools.serverRef.name"
)

// SetupWithManager starts the controller with the manager. A definition is compiled again when its ModelEndpoint changes,
// or what is known of one of its ToolServers.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	index := mgr.GetFieldIndexer()
	if err := index.IndexField(ctx, &v1alpha1.DefinitionRevision{}, byDefinition, func(o client.Object) []string {
		return []string{o.(*v1alpha1.DefinitionRevision).Spec.DefinitionRef.Name}
	}); err != nil {
		return err
	}
	if err := index.IndexField(ctx, &v1alpha1.AgentDefinition{}, byModel, func(o client.Object) []string {
		return []string{o.(*v1alpha1.AgentDefinition).Spec.ModelRef.Name}
	}); err != nil {
		return err
	}
	if err := index.IndexField(ctx, &v1alpha1.AgentDefinition{}, byServer, func(o client.Object) []string {
		return serverNames(o.(*v1alpha1.AgentDefinition))
	}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("definition").
		For(&v1alpha1.AgentDefinition{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// A revision that is deleted by hand is made again.
		Owns(&v1alpha1.DefinitionRevision{}).
		Watches(&v1alpha1.ModelEndpoint{}, handler.EnqueueRequestsFromMapFunc(r.users(byModel))).
		Watches(&v1alpha1.ToolServer{}, handler.EnqueueRequestsFromMapFunc(r.users(byServer))).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// serverNames are the ToolServers a definition refers to, each once.
func serverNames(def *v1alpha1.AgentDefinition) []string {
	var names []string
	for _, t := range def.Spec.Tools {
		names = append(names, t.ServerRef.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// users finds the definitions that refer to an object, in the index of such references.
func (r *Reconciler) users(index string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var defs v1alpha1.AgentDefinitionList
		if err := r.Client.List(ctx, &defs, client.InNamespace(o.GetNamespace()), client.MatchingFields{index: o.GetName()}); err != nil {
			return nil // the cache is stopping
		}
		requests := make([]reconcile.Request, 0, len(defs.Items))
		for i := range defs.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&defs.Items[i])})
		}
		return requests
	}
}
