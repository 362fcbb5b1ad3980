package openai

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter is how long the endpoint asks to wait, from the most exact header to the least.
func retryAfter(h http.Header, status int, now time.Time) time.Duration {
	if ms, ok := number(h.Get("Retry-After-Ms")); ok {
		return bounded(ms, time.Millisecond)
	}
	if v := h.Get("Retry-After"); v != "" {
		if s, ok := number(v); ok {
			return bounded(s, time.Second)
		}
		if at, err := http.ParseTime(v); err == nil {
			// The endpoint's own clock, where it tells it, makes up for ours.
			if there, err := http.ParseTime(h.Get("Date")); err == nil {
				now = there
			}
			return min(max(0, at.Sub(now)), maxRetryAfter)
		}
	}
	if status != http.StatusTooManyRequests {
		return 0
	}
	return max(reset(h, "Requests"), reset(h, "Tokens"))
}

// reset is when a limit that is used up is full again. Of a limit that is not, it says nothing about this request.
func reset(h http.Header, of string) time.Duration {
	if h.Get("X-Ratelimit-Remaining-"+of) != "0" {
		return 0
	}
	v := strings.TrimSpace(h.Get("X-Ratelimit-Reset-" + of))
	if s, ok := number(v); ok {
		return bounded(s, time.Second)
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0
	}
	return min(max(0, d), maxRetryAfter)
}

func number(s string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return f, err == nil && !math.IsNaN(f)
}

func bounded(n float64, unit time.Duration) time.Duration {
	n = math.Min(math.Max(n, 0), float64(maxRetryAfter/unit))
	return time.Duration(n * float64(unit))
}
