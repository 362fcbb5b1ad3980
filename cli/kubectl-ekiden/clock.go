package main

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/transport"
)

// serverClock reads the API server's clock off its responses. Ages are told by that one: this machine's may be wrong.
type serverClock struct{ ahead atomic.Int64 }

var _ transport.WrapperFunc = (&serverClock{}).wrap

func (c *serverClock) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			if date, bad := http.ParseTime(response.Header.Get("Date")); bad == nil {
				c.ahead.Store(int64(time.Until(date)))
			}
		}
		return response, err
	})
}

// skew is how far the server is ahead, to the second; negative where it is behind.
func (c *serverClock) skew() time.Duration {
	ahead := time.Duration(c.ahead.Load())
	if ahead > -2*time.Second && ahead < 2*time.Second {
		return 0 // the header has whole seconds and travels
	}
	return ahead
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
