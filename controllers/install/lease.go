package install

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lease is the name of the lease that the managers hold in their namespace.
const Lease = "ekiden-manager"

// holder is who holds the lease at an instant: nobody if it is not there, was given back, or was not renewed in time.
func holder(ctx context.Context, c client.Client, namespace string, now time.Time) (string, error) {
	var lease coordinationv1.Lease
	if err := client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Lease}, &lease)); err != nil {
		return "", fmt.Errorf("reading the lease %s/%s: %w", namespace, Lease, err)
	}
	s := lease.Spec
	if s.HolderIdentity == nil || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return "", nil
	}
	if now.After(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second)) {
		return "", nil
	}
	return *s.HolderIdentity, nil
}
