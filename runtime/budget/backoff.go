package budget

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Pause is how long to wait before try number n+1 after n failed ones: drawn evenly from zero to a bound
// that doubles from baseSeconds up to capSeconds ("full jitter"). The draw is a function of seed and n, so that
// a decision taken twice is the same decision; seeds of different runs spread.
func Pause(r v1alpha1.Retry, n int, seed string) time.Duration {
	bound := time.Duration(r.CapSeconds) * time.Second
	if shift := max(n-1, 0); shift < 20 {
		bound = min(bound, time.Duration(r.BaseSeconds)*time.Second<<shift)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed))                        // never fails
	draw := rand.New(rand.NewPCG(h.Sum64(), uint64(n))) //nolint:gosec // jitter, not a secret
	return time.Duration(draw.Int64N(int64(bound) + 1))
}
