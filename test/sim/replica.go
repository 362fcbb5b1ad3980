package sim

import (
	"errors"
	"time"
)

var (
	errConflict = errors.New("the object has changed")
	errFull     = errors.New("the quota is used up")
)

// replica is a manager. There are two, and nothing keeps the one from acting while the other does, as a leader does that has
// not heard yet that it is none.
type replica struct {
	w    *world
	name string
	// offset is how far its clock is from the ledger's.
	offset time.Duration
	// asleep is until when it does nothing and hears nothing, in the midst of what it does.
	asleep  time.Time
	cache   objects
	workers [4]worker
}

// The controllers that concern a run, each with a worker of its own.
const (
	runs = iota
	requests
	policyOf
	sweeper
)

var workerNames = [4]string{"run", "requests", "policy", "sweep"}

// worker is one controller's queue of one item, and what it does about it at the moment.
type worker struct {
	*routine
	busy, due bool
	again     time.Time
}

// ready reports whether there is anything to do now.
func (k *worker) ready(now time.Time) bool {
	return k.busy || k.due || !k.again.IsZero() && !now.Before(k.again)
}

// work goes on with what a worker does, or begins anew. A worker keeps its routine from one item to the next.
func (r *replica) work(i int) {
	k := &r.workers[i]
	if !k.busy {
		k.due, k.again, k.busy = false, time.Time{}, true
	}
	if k.routine == nil {
		body := [4]func(*routine) (time.Time, error){r.reconcile, r.answerAll, r.project, r.sweep}[i]
		k.routine = begin(func(c *routine) {
			for {
				r.look(k, workerNames[i], func() (time.Time, error) { return body(c) })
				c.pause("")
			}
		})
	}
	k.resume()
}

// look is one look at what a worker is there for, and says when the next one is due.
func (r *replica) look(k *worker, name string, body func() (time.Time, error)) {
	at, err := body()
	k.busy = false
	switch {
	case errors.Is(err, errConflict):
		at = r.w.now.Add(100 * time.Millisecond)
	case err != nil:
		r.w.tell("   %s: %s gives up for now: %v", r.name, name, err)
		at = r.w.now.Add(time.Second)
	}
	if !at.IsZero() {
		k.again = maxTime(at, r.w.now.Add(50*time.Millisecond))
	}
}

// crash forgets all but what it had not seen yet; it comes back with an empty cache and lists anew.
func (r *replica) crash() {
	for i := range r.workers {
		if k := &r.workers[i]; k.routine != nil {
			k.stop()
		}
		r.workers[i] = worker{due: i != sweeper || r.w.cluster.run.gone}
	}
	for kind := range kinds {
		r.cache.follow(&r.w.cluster.objects, kind)
	}
}

// sync takes over what a watch has told, and queues whom it concerns.
func (r *replica) sync(kind int) {
	r.cache.follow(&r.w.cluster.objects, kind)
	switch kind {
	case ofRun, ofJobs, ofPods:
		r.workers[runs].due = true
	case ofRequests:
		r.workers[runs].due, r.workers[requests].due = true, true
	case ofPolicy:
		r.workers[policyOf].due = true
	}
}

// write is one write of a replica.
func (r *replica) write(c *routine, what string, f func() error) error {
	c.pause(what)
	return r.w.write(r.name, what, f)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
