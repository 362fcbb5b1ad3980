package policy

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/pod"
)

// PodsIn are the settings of pods in force in a namespace. They are read from the cache when a pod is made and go through neither the
// ledger nor a snapshot: a change reaches the next pod.
func (r *Reconciler) PodsIn(ctx context.Context, namespace string) (v1alpha1.PodSettings, error) {
	layers := []v1alpha1.PodSettings{pod.BuiltIn(), r.Pods}
	for _, ns := range sources(namespace, r.Namespace) {
		p, err := read(ctx, r.Client, ns)
		if client.IgnoreNotFound(err) != nil {
			return v1alpha1.PodSettings{}, err
		}
		layers = append(layers, p.Spec.Pods)
	}
	return pod.Merge(layers...), nil
}
