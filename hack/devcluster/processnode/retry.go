package processnode

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// retry calls attempt until it is done; the API server may be restarting.
func retry(ctx context.Context, attempt func(context.Context) (done bool)) {
	pause := 20 * time.Millisecond
	for {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		done := attempt(limited)
		cancel()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, 500*time.Millisecond)
	}
}

// permanent says that asking again would bring the same answer: the object is
// gone, or another one has its name.
func permanent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err)
}
