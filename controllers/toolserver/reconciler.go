// Package toolserver keeps the tools of ToolServers known. It only gathers, acts and records; what to do is
// discovery.Decide's to say.
package toolserver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/requeue"
	"github.com/ekiden-dev/ekiden/controllers/toolserver/discovery"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// The rights this package needs. controller-gen reads them from here.
// +kubebuilder:rbac:groups=ekiden.dev,resources=toolservers,verbs=list;watch
// +kubebuilder:rbac:groups=ekiden.dev,resources=toolservers/status,verbs=patch
// +kubebuilder:rbac:groups=ekiden.dev,resources=toolservers/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods;namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Ledger keeps what tools are told to be. Both methods can be repeated without effect.
type Ledger interface {
	// Contracts are those of one generation of a server's spec, or none if nothing was kept yet.
	Contracts(ctx context.Context, namespaceUID, serverUID types.UID, generation int64) ([]contract.ToolContract, error)
	// KeepContracts keeps those of one generation, all of them or none.
	KeepContracts(ctx context.Context, namespaceUID, serverUID types.UID, generation int64, tools []contract.ToolContract) error
}

// An UnfitError is returned by a Provision that fails until somebody does something. Its text is for people.
type UnfitError struct{ Message string }

func (e *UnfitError) Error() string { return e.Message }

// Reconciler keeps the tools of servers known.
type Reconciler struct {
	// Client reads from the cache, Live from the API server.
	Client client.Client
	Live   client.Reader
	Ledger Ledger
	Events events.EventRecorder

	// Provision makes the namespace's login and its Secret contract.PostgresSecret, before a Job that needs them.
	// Errors: *UnfitError; any other is tried again.
	Provision func(ctx context.Context, ns *corev1.Namespace) error
	// Pods are the settings in force for pods of a namespace.
	Pods func(ctx context.Context, namespace string) (v1alpha1.PodSettings, error)
	// Told are the events of one object, in no order. What cannot be read is as none: the only error is that of ctx.
	Told func(ctx context.Context, namespace string, about types.UID) ([]corev1.Event, error)
	// Image is the image of discovery pods.
	Image string
}

// Reconcile gathers, decides, acts, records.
func (r *Reconciler) Reconcile(ctx context.Context, server *v1alpha1.ToolServer) (ctrl.Result, error) {
	return requeue.Settle(r.reconcile(ctx, server))
}

func (r *Reconciler) reconcile(ctx context.Context, server *v1alpha1.ToolServer) (ctrl.Result, error) {
	if !server.DeletionTimestamp.IsZero() { // its Jobs go with it
		return ctrl.Result{}, nil
	}
	var ns corev1.Namespace
	if err := r.Client.Get(ctx, client.ObjectKey{Name: server.Namespace}, &ns); err != nil {
		return ctrl.Result{}, fmt.Errorf("namespace %s: %w", server.Namespace, err)
	}
	if !ns.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	facts, err := r.gather(ctx, server, &ns)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("gathering: %w", err)
	}
	d := discovery.Decide(facts)
	if facts.Obstacle, err = r.act(ctx, server, &ns, d.Do); err != nil {
		return ctrl.Result{}, fmt.Errorf("acting: %w", err)
	}
	if facts.Obstacle != nil {
		d = discovery.Decide(facts)
	}
	if err := r.record(ctx, server, d.Report); err != nil {
		return ctrl.Result{}, fmt.Errorf("recording: %w", err)
	}
	return ctrl.Result{RequeueAfter: d.Wake}, nil
}
