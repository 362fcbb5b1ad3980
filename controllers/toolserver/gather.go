package toolserver

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/toolserver/discovery"
)

// gather makes every read there is. The cluster is read before the ledger: a Job that is seen to have succeeded has left
// its contracts by then, so that missing ones are a fact and not a race.
func (r *Reconciler) gather(ctx context.Context, server *v1alpha1.ToolServer, ns *corev1.Namespace) (discovery.Facts, error) {
	f := discovery.Facts{Now: time.Now(), Server: server}
	var (
		jobs batchv1.JobList
		pods corev1.PodList
		its  = []client.ListOption{client.InNamespace(server.Namespace), client.MatchingLabels{discovery.LabelServerUID: string(server.UID)}}
		err  error
	)
	if err = r.Client.List(ctx, &jobs, its...); err != nil {
		return f, fmt.Errorf("listing Jobs: %w", err)
	}
	if err = r.Client.List(ctx, &pods, its...); err != nil {
		return f, fmt.Errorf("listing pods: %w", err)
	}
	for i := range jobs.Items { // a label proves nothing: whoever makes a Job may copy it
		if metav1.IsControlledBy(&jobs.Items[i], server) {
			f.Jobs = append(f.Jobs, jobs.Items[i])
		}
	}
	f.Pods = pods.Items
	if about := discovery.Quiet(f); about != "" {
		if f.Told, err = r.Told(ctx, server.Namespace, about); err != nil {
			return f, fmt.Errorf("reading events: %w", err)
		}
	}
	if f.Contracts, err = r.Ledger.Contracts(ctx, ns.UID, server.UID, server.Generation); err != nil {
		return f, fmt.Errorf("reading contracts: %w", err)
	}
	return f, nil
}
