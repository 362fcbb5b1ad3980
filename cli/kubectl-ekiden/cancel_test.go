package main

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

func watchThen(do func(context.Context, client.WithWatch)) func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
		w, err := c.Watch(ctx, list, options...)
		go do(ctx, c)
		return w, err
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t, interceptor.Funcs{}, aRun("going"), aRun("done", completed("x")), aRun("asked", func(r *v1alpha1.AgentRun) { r.Spec.DesiredState = v1alpha1.DesiredCancelled }))
	got := run(t.Context(), c, nil, "cancel", "going", "nobody", "done", "asked")
	want := `agentrun.ekiden.dev/going is being cancelled
agentrun.ekiden.dev/done was already over: Completed: the agent gave its answer
agentrun.ekiden.dev/asked is already being cancelled
`
	if got.code != exitError || got.out != want || !strings.Contains(got.err, `there is no run "nobody"`) {
		t.Errorf("got %+v, want\n%s", got, want)
	}
	r := &v1alpha1.AgentRun{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "going"}, r); err != nil || r.Spec.DesiredState != v1alpha1.DesiredCancelled {
		t.Errorf("desiredState %q, %v", r.Spec.DesiredState, err)
	}
	again := run(t.Context(), c, nil, "cancel", "going")
	if want := (said{exitOK, "agentrun.ekiden.dev/going is already being cancelled\n", ""}); again != want {
		t.Errorf("again: got %+v, want %+v", again, want)
	}
}

func TestCancelWaits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func(*v1alpha1.AgentRun)
		want string
	}{
		"until the run has stopped":      {stopped, "agentrun.ekiden.dev/r is cancelled\n"},
		"and says when it came too late": {completed("x"), "agentrun.ekiden.dev/r ended before the cancel reached it: Completed: the agent gave its answer\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCluster(t, onWatch(func(ctx context.Context, c client.WithWatch) {
				r := &v1alpha1.AgentRun{}
				if c.Get(ctx, client.ObjectKey{Namespace: "team", Name: "r"}, r) == nil {
					tc.end(r)
					_ = c.Status().Update(ctx, r)
				}
			}), aRun("r"))
			got := run(t.Context(), c, nil, "cancel", "r", "--wait", "--timeout", "20s")
			if want := (said{exitOK, "agentrun.ekiden.dev/r is being cancelled\n" + tc.want, ""}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
