// Package kill is bench B1: what engines do again after their processes were killed in the middle of effects.
package kill

import (
	"context"

	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// Engine runs runs, each a number of effects one after the other, so many runs at a time, in processes that can be killed.
type Engine interface {
	// Name is the engine and how it is used.
	Name() string
	// Submit hands it a run: it has accepted it for good.
	Submit(ctx context.Context, run string) error
	// Start starts its processes, anew after each Kill.
	Start(ctx context.Context) error
	// Kill ends all its processes with SIGKILL.
	Kill()
	// Ended is how many runs have ended, and how many of them well.
	Ended(ctx context.Context) (ended, well int, err error)
	// Unknown are the effects of which it says itself that it does not know whether they happened. It did not ask for them again.
	Unknown(ctx context.Context) ([]world.Effect, error)
	// Close ends everything.
	Close()
}

// Options shape the bench.
type Options struct {
	// Seed makes the instants of the kills the same in each bench.
	Seed uint64 `json:"seed"`
	// Kills is how often all processes are killed.
	Kills int `json:"kills"`
	// Steps is how many effects a run has, Parallel how many runs go on at once.
	Steps    int `json:"steps"`
	Parallel int `json:"parallel"`
	// EffectMillis is how long an effect takes.
	EffectMillis int `json:"effectMillis"`
}
