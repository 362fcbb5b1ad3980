package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// follow tells of the run and of its segments until the run has ended.
//
//	watch of the run ───────────────────────────────► lines on the screen
//	watch of its pods ──► queue ──► log, one by one ──► lines, words, one kill
func (d *demo) follow(ctx context.Context) (*v1alpha1.AgentRun, *victim, error) {
	run := &v1alpha1.AgentRun{}
	if err := d.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: theRun}, run); err != nil {
		return nil, nil, err
	}
	ofRun := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelRunUID: string(run.UID)}}
	queue := newQueue()
	watching, unwatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_ = d.watch(watching, &corev1.PodList{}, func(o client.Object) bool {
			queue.add(o.(*corev1.Pod))
			return false
		}, ofRun...)
	}()
	told := make(chan *victim, 1)
	go func() { told <- d.readLogs(ctx, queue) }()

	run, err := d.followRun(ctx, run)
	unwatch()
	<-watched
	var last corev1.PodList // those whose news came later than the run's
	if err == nil {
		err = d.api.List(ctx, &last, ofRun...)
	}
	for i := range last.Items {
		queue.add(&last.Items[i])
	}
	queue.close()
	victim := <-told
	return run, victim, errors.Join(err, victim.err)
}

// followRun prints each change of the run's state until it has ended.
func (d *demo) followRun(ctx context.Context, run *v1alpha1.AgentRun) (*v1alpha1.AgentRun, error) {
	said := ""
	err := d.watch(ctx, &v1alpha1.AgentRunList{}, func(o client.Object) bool {
		seen := o.(*v1alpha1.AgentRun)
		if seen.UID != run.UID {
			return false
		}
		run = seen
		c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionSucceeded)
		if c == nil {
			return false
		}
		if now := state(run.Status.Phase, c.Reason, c.Message); now != said {
			said = now
			d.screen.Say("run", now)
		}
		return meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionFinished)
	}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": run.Name})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("run %s has not ended within %s; it was last seen as %q", run.Name, runWithin, said)
	}
	return run, err
}

// state says the phase of a run, and the reason unless it is the same word.
func state(phase v1alpha1.RunPhase, reason, message string) string {
	if reason == string(phase) {
		return fmt.Sprintf("%s: %s", phase, message)
	}
	return fmt.Sprintf("%s, %s: %s", phase, reason, message)
}

// watch shows each state of some objects to see, until see has seen enough. It begins with the present states, and so
// it does when it is taken up again after it broke off.
func (d *demo) watch(ctx context.Context, list client.ObjectList, see func(client.Object) (enough bool), of ...client.ListOption) error {
	for {
		w, err := d.api.Watch(ctx, list, of...)
		if err == nil && seeAll(ctx, w, see) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func seeAll(ctx context.Context, w watch.Interface, see func(client.Object) bool) (enough bool) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case e, open := <-w.ResultChan():
			o, is := e.Object.(client.Object)
			if !open || e.Type == watch.Error || !is {
				return false
			}
			if e.Type != watch.Deleted && see(o) {
				return true
			}
		}
	}
}
