package toolserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/toolserver/discovery"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// record writes the status, once, and then tells people.
func (r *Reconciler) record(ctx context.Context, server *v1alpha1.ToolServer, rep discovery.Report) error {
	before := server.DeepCopy()
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: rep.Status, Reason: rep.Reason,
		Message: contract.Clip(rep.Message, contract.MaxMessage), ObservedGeneration: server.Generation,
	}
	server.Status.ObservedGeneration = server.Generation
	meta.SetStatusCondition(&server.Status.Conditions, ready)
	if len(rep.Tools) > 0 {
		server.Status.DiscoveredGeneration = server.Generation
		server.Status.Tools = rep.Tools
	}
	if equality.Semantic.DeepEqual(before.Status, server.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, server, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady)
	if was != nil && was.Reason == ready.Reason && was.Message == ready.Message {
		return nil
	}
	kind := corev1.EventTypeNormal
	if ready.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(server, nil, kind, ready.Reason, "Discover", "%s", ready.Message)
	return nil
}
