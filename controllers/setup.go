// Package controllers lists the controllers of the manager.
package controllers

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ekiden-dev/ekiden/controllers/agentrun"
	"github.com/ekiden-dev/ekiden/controllers/definition"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/sweep"
)

// Options are what the controllers need besides the manager.
type Options struct {
	Ledger ledger.Ledger
	// Namespace is the manager's own.
	Namespace string
	// SegmentImage is the image of segment pods.
	SegmentImage string
	// SegmentDSN is the address of Postgres as segment pods see it, without a login.
	SegmentDSN string
}

// The rights of leader election and of its events.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=ekiden-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=ekiden-system,resources=leases,resourceNames=ekiden-manager,verbs=get;update
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Setup adds every controller to the manager.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return errors.Join(
		(&definition.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("ekiden"),
		}).SetupWithManager(ctx, mgr),
		(&agentrun.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("ekiden"), Ledger: o.Ledger,
			Namespace: o.Namespace, SegmentImage: o.SegmentImage, SegmentDSN: o.SegmentDSN,
		}).SetupWithManager(ctx, mgr),
		mgr.Add(&sweep.Sweeper{Live: mgr.GetAPIReader(), Ledger: o.Ledger}),
	)
}
