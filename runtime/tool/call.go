package tool

import (
	"context"
	"errors"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// call is one call from its permit to its result.
//
//	prepare ──► (intent) ──► make ──► result
//	   └── again while nothing was done ──┘
//	                ├── again while nobody knows, where that is harmless
//	                └── not again once the run is cancelled or the policy has changed
type call struct {
	server  *server
	order   order
	retry   v1alpha1.Retry
	request wire.Request
	redact  func(string) string
	// tried counts what was tried, of preparing and making together.
	tried int
	// wanted says what stands against a further try, once the intent is written. why is what it said, in words, when it has
	// stopped the tries.
	wanted func() error
	why    string
	// doubt is the newest try of which nobody knows whether it was carried out, or nil. Nothing takes it away but an
	// answer: later tries that did nothing leave what an earlier one may have done.
	doubt *wire.Fault
}

// prepare gets everything ready that can be had before the intent.
func (c *call) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(prepareWithin, c.timeout()))
	defer cancel()
	_, err := c.tries(ctx, func() (wire.Answer, error) { return wire.Answer{}, c.server.adapter.Prepare(ctx, c.request) })
	return err
}

// make makes the call. wanted is asked before each try but the first, for which the intent was asked.
func (c *call) make(ctx context.Context, wanted func() error) (wire.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	c.tried = max(c.tried-1, 0) // preparing succeeded with its last try
	c.wanted = wanted
	return c.tries(ctx, func() (wire.Answer, error) { return c.server.adapter.Call(ctx, c.request) })
}

func (c *call) timeout() time.Duration {
	return time.Duration(max(c.order.tool.TimeoutSeconds, 1)) * time.Second
}

// tries does act until it succeeds, fails in a way that may not be tried again, or a bound is met.
func (c *call) tries(ctx context.Context, act func() (wire.Answer, error)) (wire.Answer, error) {
	for {
		c.tried++
		a, err := act()
		var fault *wire.Fault
		if !errors.As(err, &fault) {
			return a, err
		}
		if fault.Certainty == wire.Unknown {
			c.doubt = fault
		}
		if !c.again(fault) || c.withdrawn() || !pause(ctx, budget.Pause(c.retry, c.tried, c.order.key)) || c.withdrawn() {
			return wire.Answer{}, fault
		}
	}
}

// again reports whether another try is allowed.
func (c *call) again(f *wire.Fault) bool {
	harmless := f.Certainty == wire.NotDone || c.order.repeatable()
	return harmless && !f.Final && c.tried < int(c.retry.MaxAttempts)
}

// withdrawn reports whether a call whose intent is written is no longer wanted, and keeps why.
func (c *call) withdrawn() bool {
	if c.wanted == nil {
		return false
	}
	switch err := c.wanted(); {
	case err == nil:
		return false
	case errors.Is(err, segment.ErrPolicyChanged):
		c.why = "the policy has changed"
	default:
		c.why = "the run was cancelled"
	}
	return true
}

// pause is false if ctx ends before the pause does, as soon as that is certain.
func pause(ctx context.Context, d time.Duration) bool {
	if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
