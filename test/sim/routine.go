package sim

import "iter"

// routine is straight code that stops before each of its writes, until the scheduler lets it go on or drops it there for good. It is
// a coroutine and no thread: exactly one runs, and control passes by hand.
type routine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	// doing is what it does when it goes on.
	doing string
}

// dropped unwinds a routine that is dropped.
type dropped struct{}

func begin(body func(*routine)) *routine {
	r := &routine{}
	r.next, r.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if e := recover(); e != nil && e != (dropped{}) {
				panic(e)
			}
		}()
		r.yield = yield
		body(r)
	})
	return r
}

// pause lets the scheduler have its say.
func (r *routine) pause(doing string) {
	r.doing = doing
	if !r.yield(struct{}{}) {
		panic(dropped{})
	}
}

// resume goes on to the next pause, and is false at the end.
func (r *routine) resume() bool {
	_, more := r.next()
	return more
}
