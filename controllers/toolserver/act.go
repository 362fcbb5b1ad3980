package toolserver

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/toolserver/discovery"
)

// act makes every write but the status. Doing an effect twice does it once. What stands in the way until somebody does
// something is returned and not an error.
func (r *Reconciler) act(ctx context.Context, server *v1alpha1.ToolServer, ns *corev1.Namespace, effects []discovery.Effect) (*discovery.Obstacle, error) {
	for _, e := range effects {
		obstacle, err := r.do(ctx, server, ns, e)
		if err != nil {
			return nil, fmt.Errorf("%T: %w", e, err)
		}
		if obstacle != nil {
			return obstacle, nil
		}
	}
	return nil, nil
}

func (r *Reconciler) do(ctx context.Context, server *v1alpha1.ToolServer, ns *corev1.Namespace, e discovery.Effect) (*discovery.Obstacle, error) {
	switch e := e.(type) {
	case discovery.Remove:
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: e.Name}}
		return nil, client.IgnoreNotFound(r.Client.Delete(ctx, j, client.Preconditions{UID: &e.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	case discovery.Keep:
		return nil, r.Ledger.KeepContracts(ctx, ns.UID, server.UID, server.Generation, e.Tools)
	case discovery.Start:
		return r.start(ctx, server, ns)
	default:
		return nil, fmt.Errorf("no way to carry out %T", e)
	}
}

// start provisions the namespace and creates the Job, in this order: a pod would wait for the Secret without a word.
func (r *Reconciler) start(ctx context.Context, server *v1alpha1.ToolServer, ns *corev1.Namespace) (*discovery.Obstacle, error) {
	err := r.Provision(ctx, ns)
	var unfit *UnfitError
	if errors.As(err, &unfit) {
		return &discovery.Obstacle{Reason: v1alpha1.ReasonDiscoveryFailed, Message: unfit.Message}, nil
	}
	if err != nil {
		return refused(fmt.Errorf("provisioning the namespace: %w", err))
	}
	settings, err := r.Pods(ctx, server.Namespace)
	if err != nil {
		return nil, err
	}
	j, err := discovery.Build(server, ns.UID, r.Image, settings)
	if err != nil {
		return nil, err
	}
	err = r.Client.Create(ctx, j)
	if apierrors.IsAlreadyExists(err) {
		if err = r.Live.Get(ctx, client.ObjectKeyFromObject(j), j); err == nil && !metav1.IsControlledBy(j, server) {
			return &discovery.Obstacle{Reason: v1alpha1.ReasonNameTaken, Message: fmt.Sprintf("a Job named %s exists and belongs to somebody else: delete it", j.Name)}, nil
		}
	}
	if err != nil {
		return refused(fmt.Errorf("job %s: %w", j.Name, err))
	}
	return nil, nil
}

// refused finds a no of the API server that stands until somebody does something: a quota, a policy, a right that is missing.
func refused(err error) (*discovery.Obstacle, error) {
	no := apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
	if !no || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, err
	}
	return &discovery.Obstacle{Reason: v1alpha1.ReasonDiscoveryFailed, Message: "the server cannot be asked for its tools: " + err.Error()}, nil
}
