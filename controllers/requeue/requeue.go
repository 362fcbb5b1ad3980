// Package requeue says when an object is looked at again: one rule for every controller.
package requeue

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Soon is when to look again at what the cache does not show yet.
const Soon = 100 * time.Millisecond

// At turns an instant of the clock that says now into a pause, at least 50 ms long so that a rounding never spins. The zero
// instant means that a watch will do.
func At(now, at time.Time) ctrl.Result {
	if at.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(at.Sub(now), 50*time.Millisecond)}
}

// OnConflict looks again soon where the cache lags behind a write, mostly one of our own. It is no failure and backs nothing off.
func OnConflict(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: Soon}, nil
	}
	return result, err
}

// Settle is OnConflict, and lets go of what lies in a namespace that is being deleted: soon there is nothing to reconcile.
func Settle(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return ctrl.Result{}, nil
	}
	return OnConflict(result, err)
}
