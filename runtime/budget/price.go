// Package budget counts what a run may use and what it has cost. It is pure, and shared
// by the manager and the segments, so that both reckon by the same rules.
package budget

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Micros is an amount of money in millionths of the currency's unit. Money is never a float.
type Micros int64

// String is the amount in units with up to six decimals, such as "0.0182".
func (m Micros) String() string {
	sign, u := "", uint64(0)
	if m < 0 {
		sign, u = "-", uint64(-m)
	} else {
		u = uint64(m)
	}
	s := strconv.FormatUint(u/1e6, 10)
	if frac := u % 1e6; frac != 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%06d", frac), "0")
	}
	return sign + s
}

// ErrPrice is returned for a price that is not a decimal number.
var ErrPrice = errors.New("not a price")

// ParseMicros reads an amount in units, such as "1.25". The error is ErrPrice.
func ParseMicros(s string) (Micros, error) {
	r, ok := new(big.Rat).SetString(s)
	if !ok || r.Sign() < 0 || strings.ContainsAny(s, "eE/_xXpP") {
		return 0, fmt.Errorf("%w: %q", ErrPrice, s)
	}
	r.Mul(r, big.NewRat(1e6, 1))
	if !r.IsInt() || !r.Num().IsInt64() {
		return 0, fmt.Errorf("%w: %q has more than six decimals or is too large", ErrPrice, s)
	}
	return Micros(r.Num().Int64()), nil
}

// Tokens are the tokens of one model call, in classes that do not overlap.
type Tokens struct {
	// Input counts input tokens that were not read from a cache.
	Input int64 `json:"input"`
	// CacheRead counts input tokens that were read from a cache.
	CacheRead int64 `json:"cacheRead"`
	// Output counts output tokens, reasoning included.
	Output int64 `json:"output"`
}

// Price is a price list in micros per million tokens. The zero Price is an unknown one: everything costs nothing.
type Price struct{ Input, CacheRead, Output Micros }

// PriceOf reads the price list of an endpoint. The error is ErrPrice.
func PriceOf(p v1alpha1.Pricing) (Price, error) {
	if p == (v1alpha1.Pricing{}) {
		return Price{}, nil
	}
	if p.CacheReadPerMTok == "" {
		p.CacheReadPerMTok = p.InputPerMTok
	}
	var out Price
	for _, f := range []struct {
		name, text string
		to         *Micros
	}{
		{"inputPerMTok", p.InputPerMTok, &out.Input},
		{"cacheReadPerMTok", p.CacheReadPerMTok, &out.CacheRead},
		{"outputPerMTok", p.OutputPerMTok, &out.Output},
	} {
		m, err := ParseMicros(f.text)
		if err != nil {
			return Price{}, fmt.Errorf("pricing.%s: %w", f.name, err)
		}
		*f.to = m
	}
	return out, nil
}

// Cost is what t costs, each call rounded up to a micro once.
func (p Price) Cost(t Tokens) Micros {
	sum := new(big.Int)
	for _, part := range [][2]int64{{t.Input, int64(p.Input)}, {t.CacheRead, int64(p.CacheRead)}, {t.Output, int64(p.Output)}} {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
	}
	million := big.NewInt(1e6)
	sum.Add(sum, big.NewInt(1e6-1)).Div(sum, million)
	return Micros(sum.Int64())
}
