package processnode

import (
	"sync"
	"time"
)

// cause says why a pod has to end before its processes do by themselves.
type cause string

const (
	causeNone     cause = ""
	causeDeleted  cause = "deleted"
	causeDeadline cause = "deadline"
	causeVanished cause = "vanished"
	causeShutdown cause = "shutdown"
)

// order tells a pod to end. It is given once or more; the first decides the
// cause, and of all the moments to kill the earliest counts: a second deletion
// with a shorter grace hurries, one with a longer grace changes nothing.
type order struct {
	given  chan struct{} // Closed: end the processes politely.
	killed chan struct{} // Closed: the grace is over.

	once sync.Once
	kill sync.Once
	mu   sync.Mutex
	why  cause
}

func newOrder() *order {
	return &order{given: make(chan struct{}), killed: make(chan struct{})}
}

func (o *order) give(why cause, grace time.Duration) {
	o.once.Do(func() {
		o.mu.Lock()
		o.why = why
		o.mu.Unlock()
		close(o.given)
	})
	end := func() { o.kill.Do(func() { close(o.killed) }) }
	if grace <= 0 {
		end()
		return
	}
	time.AfterFunc(grace, end)
}

// cause is causeNone until an order is given.
func (o *order) cause() cause {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.why
}

// wait returns false when an order came before the time was over.
func (o *order) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-o.given:
		return false
	case <-timer.C:
		return true
	}
}
