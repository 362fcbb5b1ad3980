package main

import (
	"context"
	"fmt"

	"github.com/ekiden-dev/ekiden/test/bench/cost"
	"github.com/ekiden-dev/ekiden/test/bench/engine/dbos"
	"github.com/ekiden-dev/ekiden/test/bench/engine/ekiden"
	"github.com/ekiden-dev/ekiden/test/bench/engine/river"
)

// costly is an engine of bench B2.
type costly struct {
	engine, database string
	open             func(ctx context.Context, database string) (cost.Engine, error)
}

// cost is bench B2. The first engine is the one that the others are compared with.
func (g ground) cost(ctx context.Context) (raw, error) {
	o := cost.Options{Steps: g.durable, Runs: g.runs, Parallel: g.parallel}
	fmt.Fprintf(g.log, "\nB2 cost of a durable step that does nothing: runs of %d steps, one at a time and %d at once\n", o.Steps, o.Parallel)
	var results []cost.Result
	var rows [][]string
	for _, c := range g.costly() {
		if !among(g.engines, c.engine) {
			continue
		}
		e, err := c.open(ctx, c.database)
		if err != nil {
			return raw{}, err
		}
		r, err := cost.Run(ctx, e, g.postgres, c.database, o)
		if err != nil {
			return raw{Options: o, Results: results}, err
		}
		results = append(results, r...)
	}
	for i, r := range results {
		rows = append(rows, r.Row(results[i%2]))
	}
	table(g.log, cost.Head, rows)
	return raw{Options: o, Results: results}, nil
}

func (g ground) costly() []costly {
	ours := func(make func(*ekiden.Ground) *ekiden.Costs) func(context.Context, string) (cost.Engine, error) {
		return func(ctx context.Context, database string) (cost.Engine, error) {
			prepared, err := ekiden.Prepare(ctx, g.postgres, database)
			if err != nil {
				return nil, err
			}
			return make(prepared), nil
		}
	}
	return []costly{
		{"ekiden", "cost_ekiden_call", ours(ekiden.NewJournal)},
		{"ekiden", "cost_ekiden_loop", ours(ekiden.NewLoop)},
		{"dbos", "cost_dbos", func(ctx context.Context, database string) (cost.Engine, error) {
			dsn, err := g.postgres.Database(ctx, database)
			return dbos.NewCosts(dsn), err
		}},
		{"river", "cost_river", func(ctx context.Context, database string) (cost.Engine, error) {
			dsn, err := g.postgres.Database(ctx, database)
			if err != nil {
				return nil, err
			}
			return river.NewCosts(ctx, dsn)
		}},
	}
}
