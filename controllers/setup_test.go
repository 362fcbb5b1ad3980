package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answers is an API server that has one answer to every list.
type answers struct {
	client.Reader
	err   error
	limit int64
	until time.Time
	hangs bool
}

func (a *answers) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	a.limit = o.Limit
	a.until, _ = ctx.Deadline()
	if a.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	list.(*corev1.EventList).Items = []corev1.Event{{Reason: "FailedCreate"}} //nolint:forcetypeassert // nothing else is asked for
	return a.err
}

// TestEventsAreOnlyWords: a run is decided about without them, and they are few.
func TestEventsAreOnlyWords(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given error
		want  int
	}{
		"they are there":           {want: 1},
		"they may not be read":     {given: apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil)},
		"the API server is busy":   {given: apierrors.NewTooManyRequests("busy", 1)},
		"the API server is broken": {given: apierrors.NewInternalError(errors.New("etcd"))},
		"the connection is gone":   {given: errors.New("connection refused")},
	} {
		api := &answers{err: tc.given}
		got, err := told(api)(t.Context(), "team", "uid")
		if err != nil || len(got) != tc.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if api.limit != mostEvents || mostEvents > 10 || time.Until(api.until) > toldWithin {
			t.Errorf("%s: %d are asked for, until %s", name, api.limit, api.until)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := told(&answers{hangs: true})(over, "team", "uid"); !errors.Is(err, context.Canceled) {
		t.Errorf("a manager that ends: %v", err)
	}
}
