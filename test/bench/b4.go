package main

import (
	"context"
	"fmt"

	"github.com/ekiden-dev/ekiden/test/bench/engine/ekiden"
	"github.com/ekiden-dev/ekiden/test/bench/growth"
)

// growth is bench B4.
func (g ground) growth(ctx context.Context) (raw, error) {
	o := growth.Options{Turns: g.turns, Tokens: g.tokens}
	fmt.Fprintf(g.log, "\nB4 growth: one conversation of %d turns, %d tokens of %d bytes\n", o.Turns, o.Tokens, growth.BytesPerToken)
	prepared, err := ekiden.Prepare(ctx, g.postgres, "growth_ekiden")
	if err != nil {
		return raw{}, err
	}
	ours, err := growth.Run(ctx, ekiden.NewGrown(prepared, o), g.postgres, o)
	if err != nil {
		return raw{}, err
	}
	dsn, err := g.postgres.Database(ctx, "growth_checkpoints")
	if err != nil {
		return raw{}, err
	}
	keeper, err := growth.NewCheckpoints(ctx, dsn, o)
	if err != nil {
		return raw{}, err
	}
	checkpoints, err := growth.Run(ctx, keeper, g.postgres, o)
	if err != nil {
		return raw{}, err
	}
	table(g.log, growth.Head, growth.Rows(ours, checkpoints))
	for _, r := range []growth.Result{ours, checkpoints} {
		m := r.Marks[len(r.Marks)-1]
		fmt.Fprintf(g.log, "%s: last turn %d, %.1f MB said, %.1f MB into the log, %.1f MB in tables, load %s\n",
			r.Keeper, r.Last, float64(m.Said)/1e6, float64(m.Written)/1e6, float64(m.Stored)/1e6, r.Load)
	}
	return raw{Options: o, Results: []growth.Result{ours, checkpoints}}, nil
}
