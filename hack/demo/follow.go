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

// following tells of one run and of its segments.
//
//	watch of the run ───────────────────────────────► lines on the screen
//	watch of its pods ──► queue ──► log, one by one ──► lines, words, perhaps one kill
type following struct {
	*demo
	run *v1alpha1.AgentRun
	// victim is what dies on the way, or nil.
	victim *victim
	// told are the pods whose logs were read, said what was last said of the run.
	told map[string]bool
	said string
}

// runWithin bounds a run, which has limits of its own.
const runWithin = 6 * time.Minute

func (d *demo) following(ctx context.Context, run string, v *victim) (*following, error) {
	f := &following{demo: d, run: &v1alpha1.AgentRun{}, victim: v, told: map[string]bool{}}
	return f, d.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: run}, f.run)
}

// until tells of the run until enough is true of it, and of all that its segments said until then.
func (f *following) until(ctx context.Context, enough func(*v1alpha1.AgentRun) bool) error {
	ofRun := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelRunUID: string(f.run.UID)}}
	queue := newQueue(f.told)
	watching, unwatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_ = f.watch(watching, &corev1.PodList{}, func(o client.Object) bool {
			queue.add(o.(*corev1.Pod))
			return false
		}, ofRun...)
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		f.readLogs(ctx, queue, f.victim)
	}()

	err := f.states(ctx, enough)
	unwatch()
	<-watched
	var last corev1.PodList // those whose news came later than the run's
	if err == nil {
		err = f.api.List(ctx, &last, ofRun...)
	}
	for i := range last.Items {
		queue.add(&last.Items[i])
	}
	queue.close()
	<-read
	return errors.Join(err, f.victim.trouble())
}

// states prints each change of the run's state until enough is true of it.
func (f *following) states(ctx context.Context, enough func(*v1alpha1.AgentRun) bool) error {
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	err := f.watch(ctx, &v1alpha1.AgentRunList{}, func(o client.Object) bool {
		seen := o.(*v1alpha1.AgentRun)
		if seen.UID != f.run.UID {
			return false
		}
		f.run = seen
		c := meta.FindStatusCondition(seen.Status.Conditions, v1alpha1.ConditionSucceeded)
		if c == nil {
			return false
		}
		if now := state(seen.Status.Phase, c.Reason, c.Message); now != f.said {
			f.said = now
			f.screen.Say("run", now)
		}
		return enough(seen)
	}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": f.run.Name})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("run %s went no further within %s; it was last seen as %q", f.run.Name, runWithin, f.said)
	}
	return err
}

func finished(run *v1alpha1.AgentRun) bool {
	return meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionFinished)
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
