package kill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ekiden-dev/ekiden/test/bench/machine"
	"github.com/ekiden-dev/ekiden/test/bench/world"
)

const (
	// workWithin is how long an engine may take to begin an effect after its start. It is longer than any of them waits for
	// leases of processes that are gone.
	workWithin = 2 * time.Minute
	// endWithin is how long it may take to bring everything to its end after the last kill.
	endWithin = 4 * time.Minute
	// feedAfter is how long an engine may be idle before it is handed more runs, once for each kill.
	feedAfter = 2 * time.Second
	// fillWithin is how long it may take to get half of them going.
	fillWithin = 10 * time.Second
	lookEvery  = 50 * time.Millisecond
	// killWithin bounds how long after it got busy an engine is killed.
	killWithin = time.Second
)

// bench is one engine under the killer.
type bench struct {
	Options
	engine Engine
	world  *world.Client
	runs   int
}

// Run kills an engine again and again while it works, lets it finish, and counts.
func Run(ctx context.Context, e Engine, w *world.Client, o Options) (Result, error) {
	b := &bench{Options: o, engine: e, world: w}
	r := Result{Engine: e.Name(), Load: machine.Load()}
	began := time.Now()
	if err := b.killAll(ctx); err != nil {
		return r, fmt.Errorf("%s: %w", e.Name(), err)
	}
	last := time.Now()
	if err := b.drain(ctx); err != nil {
		return r, fmt.Errorf("%s: %w", e.Name(), err)
	}
	r.Seconds, r.DrainSeconds = time.Since(began).Seconds(), time.Since(last).Seconds()
	return r, b.count(ctx, &r)
}

// killAll kills at instants that are drawn beforehand, each counted from the moment the engine is busy.
func (b *bench) killAll(ctx context.Context) error {
	draw := rand.New(rand.NewPCG(b.Seed, 1)) //nolint:gosec // instants, no secrets
	if err := b.engine.Start(ctx); err != nil {
		return err
	}
	for k := range b.Kills {
		if err := b.busy(ctx); err != nil {
			return fmt.Errorf("before kill %d: %w", k+1, err)
		}
		time.Sleep(time.Duration(draw.Int64N(int64(killWithin)))) //nolint:forbidigo // the instant of the kill
		b.engine.Kill()
		if err := b.engine.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// feed hands in as many runs as may go on at once.
func (b *bench) feed(ctx context.Context) error {
	for range b.Parallel {
		if err := b.engine.Submit(ctx, "run-"+strconv.Itoa(b.runs)); err != nil {
			return err
		}
		b.runs++
	}
	return nil
}

var errIdle = errors.New("nothing has begun")

// busy waits until half of what may go on at once goes on, or as much as there is after a while. It keeps twice as many runs before
// the engine as it may work on; once more if those do not get it going, for some may have to wait until they are rescued.
func (b *bench) busy(ctx context.Context) error {
	began, fed := time.Now(), false
	return b.until(ctx, workWithin, errIdle, func() (bool, error) {
		r, err := b.world.Report(ctx)
		if err != nil || 2*r.Busy >= b.Parallel || r.Busy > 0 && time.Since(began) > fillWithin {
			return err == nil, err
		}
		ended, _, err := b.engine.Ended(ctx)
		if err != nil {
			return false, err
		}
		starved := !fed && time.Since(began) > feedAfter
		if b.runs-ended >= 2*b.Parallel && !starved {
			return false, nil
		}
		fed = fed || starved
		return false, b.feed(ctx)
	})
}

// drain waits until all runs have ended. What has not by then is counted as unfinished.
func (b *bench) drain(ctx context.Context) error {
	err := b.until(ctx, endWithin, errIdle, func() (bool, error) {
		ended, _, err := b.engine.Ended(ctx)
		return ended == b.runs, err
	})
	if errors.Is(err, errIdle) {
		return nil
	}
	return err
}

func (b *bench) until(ctx context.Context, within time.Duration, late error, holds func() (bool, error)) error {
	for end := time.Now().Add(within); time.Now().Before(end); {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
	return late
}

func (b *bench) count(ctx context.Context, r *Result) error {
	// Effects whose clients were killed go on for as long as they take.
	if err := b.until(ctx, workWithin, errIdle, func() (bool, error) {
		seen, err := b.world.Report(ctx)
		return seen.Busy == 0, err
	}); err != nil {
		return err
	}
	seen, err := b.world.Report(ctx)
	if err != nil {
		return err
	}
	ended, well, err := b.engine.Ended(ctx)
	if err != nil {
		return err
	}
	unknown, err := b.engine.Unknown(ctx)
	if err != nil {
		return err
	}
	r.Kills, r.Runs, r.Unfinished, r.Failed = b.Kills, b.runs, b.runs-ended, ended-well
	r.judge(b.wanted(), seen.Effects, unknown)
	return nil
}

// wanted are all effects that were ordered.
func (b *bench) wanted() []world.Effect {
	var out []world.Effect
	for run := range b.runs {
		for step := range b.Steps {
			out = append(out, world.Effect{Run: "run-" + strconv.Itoa(run), Step: strconv.Itoa(step)})
		}
	}
	return out
}
