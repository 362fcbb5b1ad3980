package budget_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
)

func TestPriceOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given v1alpha1.Pricing
		want  budget.Price
		err   error
	}{
		"no price list costs nothing":      {v1alpha1.Pricing{}, budget.Price{}, nil},
		"a cache without a price is input": {v1alpha1.Pricing{Currency: v1alpha1.USD, InputPerMTok: "1.25", OutputPerMTok: "10"}, budget.Price{Input: 1_250_000, CacheRead: 1_250_000, Output: 10_000_000}, nil},
		"six decimals are exact":           {v1alpha1.Pricing{Currency: v1alpha1.USD, InputPerMTok: "0.000001", OutputPerMTok: "999999.999999", CacheReadPerMTok: "0"}, budget.Price{Input: 1, Output: 999_999_999_999}, nil},
		"a word is no price":               {v1alpha1.Pricing{Currency: v1alpha1.USD, InputPerMTok: "cheap", OutputPerMTok: "1"}, budget.Price{}, budget.ErrPrice},
		"a negative number is no price":    {v1alpha1.Pricing{Currency: v1alpha1.USD, InputPerMTok: "1", OutputPerMTok: "-1"}, budget.Price{}, budget.ErrPrice},
		"an exponent is no price":          {v1alpha1.Pricing{Currency: v1alpha1.USD, InputPerMTok: "1e3", OutputPerMTok: "1"}, budget.Price{}, budget.ErrPrice},
		"seven decimals are too many":      {v1alpha1.Pricing{Currency: v1alpha1.USD, InputPerMTok: "0.0000001", OutputPerMTok: "1"}, budget.Price{}, budget.ErrPrice},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := budget.PriceOf(tc.given)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	price := budget.Price{Input: 2_500_000, CacheRead: 1_250_000, Output: 10_000_000}
	tests := map[string]struct {
		given budget.Tokens
		want  string
	}{
		"nothing costs nothing":                         {budget.Tokens{}, "0"},
		"a token is rounded up once, not in each class": {budget.Tokens{Input: 1, CacheRead: 1, Output: 1}, "0.000014"},
		"a cached prompt is priced once":                {budget.Tokens{Input: 200, CacheRead: 800, Output: 100}, "0.0025"},
		"large numbers stay exact":                      {budget.Tokens{Input: 1_000_000_000_000}, "2500000"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := price.Cost(tc.given).String(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestNarrowOnlyNarrows(t *testing.T) {
	t.Parallel()
	values := []int32{0, 1, 5, 9}
	for _, a := range values {
		for _, b := range values {
			got := budget.Narrow(v1alpha1.Limits{Turns: a}, v1alpha1.Limits{Turns: b}).Turns
			for _, bound := range []int32{a, b} {
				if bound != 0 && (got == 0 || got > bound) {
					t.Errorf("Narrow(%d, %d) = %d, wider than %d", a, b, got, bound)
				}
			}
			if got != a && got != b {
				t.Errorf("Narrow(%d, %d) = %d, neither of them", a, b, got)
			}
		}
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	retry := v1alpha1.Retry{BaseSeconds: 1, CapSeconds: 60}
	seen := map[time.Duration]bool{}
	for n := 1; n <= 40; n++ {
		bound := min(time.Second<<min(n-1, 10), time.Minute)
		for _, seed := range []string{"a", "b", "c"} {
			got := budget.Pause(retry, n, seed)
			if got < 0 || got > bound {
				t.Errorf("try %d: %s, more than %s", n, got, bound)
			}
			if got != budget.Pause(retry, n, seed) {
				t.Error("the same decision taken twice is another one")
			}
			seen[got] = true
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d different pauses of 120", len(seen))
	}
}
