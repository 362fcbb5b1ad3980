package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// reconnect is the pause before a watch that broke off is taken up again.
const reconnect = 2 * time.Second

// errOverdue is the cause of the end of a wait that has a bound.
var errOverdue = errors.New("the time of --timeout is over")

// finish waits until the run has finished, for as long as bound says; zero is for ever. It returns the run as it was
// last seen, also with an error.
func (c *cluster) finish(ctx context.Context, run *v1alpha1.AgentRun, bound time.Duration) (*v1alpha1.AgentRun, error) {
	if bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, bound, errOverdue)
		defer cancel()
	}
	for first := true; ; first = false {
		if finished(run) {
			return run, nil
		}
		seen, err := c.look(ctx, run)
		if seen != nil {
			run = seen
		}
		switch cause := context.Cause(ctx); {
		case finished(run):
			return run, nil
		case errors.Is(cause, errOverdue):
			return run, exitf(exitUnfinished, "run %s has not finished within %s: %s", run.Name, bound, standing(run))
		case cause != nil:
			return run, cause
		case errors.Is(err, errGone) || err != nil && first:
			return run, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnect):
		}
	}
}

// errGone is returned for a run that is not there any more.
var errGone = errors.New("was deleted before it finished")

// look watches the run until it has finished or the watch breaks off. The watch stands before the run is read: what
// happens in between is not missed.
func (c *cluster) look(ctx context.Context, run *v1alpha1.AgentRun) (*v1alpha1.AgentRun, error) {
	w, err := c.Watch(ctx, &v1alpha1.AgentRunList{}, client.InNamespace(run.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", run.Name)})
	if err != nil {
		return nil, c.explain("watching run "+run.Name, err)
	}
	defer w.Stop()
	now, err := c.run(ctx, run.Name)
	switch {
	case errors.Is(err, errNoRun): // it was there when the wait began
		return nil, fmt.Errorf("run %s %w", run.Name, errGone)
	case err != nil:
		return nil, err
	case now.UID != run.UID:
		return nil, fmt.Errorf("run %s %w", run.Name, errGone)
	}
	for !finished(now) {
		var e watch.Event
		var open bool
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case e, open = <-w.ResultChan():
		}
		if !open || e.Type == watch.Error {
			return now, nil
		}
		seen, ok := e.Object.(*v1alpha1.AgentRun)
		switch {
		case !ok || seen.UID != run.UID:
		case e.Type == watch.Deleted && !finished(seen):
			return now, fmt.Errorf("run %s %w", run.Name, errGone)
		default:
			now = seen
		}
	}
	return now, nil
}
