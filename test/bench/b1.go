package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/ekiden-dev/ekiden/test/bench/engine/dbos"
	"github.com/ekiden-dev/ekiden/test/bench/engine/ekiden"
	"github.com/ekiden-dev/ekiden/test/bench/engine/river"
	"github.com/ekiden-dev/ekiden/test/bench/kill"
	"github.com/ekiden-dev/ekiden/test/bench/role"
	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// kill is bench B1. Engines come one after the other, each with a world and a database of its own.
func (g ground) kill(ctx context.Context) (raw, error) {
	o := kill.Options{Seed: g.seed, Kills: g.kills, Steps: g.steps, Parallel: g.parallel, EffectMillis: int(g.effect.Milliseconds())}
	fmt.Fprintf(g.log, "\nB1 kill: %d kills of all processes, seed %d; runs of %d effects of %s, %d at once\n", o.Kills, o.Seed, o.Steps, g.effect, o.Parallel)
	var results []kill.Result
	var rows [][]string
	var loads []string
	for _, e := range []struct {
		name string
		open func(context.Context, string) (kill.Engine, error)
	}{{"ekiden", g.ekidenKilled}, {"dbos", g.dbosKilled}, {"river", g.riverKilled}} {
		if !among(g.engines, e.name) {
			continue
		}
		r, err := g.killOne(ctx, e.open, o)
		if err != nil { // what the engines before it did was long in the making
			table(g.log, kill.Head, rows)
			return raw{Options: o, Results: results}, err
		}
		results, rows, loads = append(results, r), append(rows, r.Row()), append(loads, r.Engine+" "+r.Load)
	}
	table(g.log, kill.Head, rows)
	fmt.Fprintf(g.log, "load average at the beginning of each: %s\n", strings.Join(loads, "; "))
	return raw{Options: o, Results: results}, nil
}

func (g ground) killOne(ctx context.Context, open func(context.Context, string) (kill.Engine, error), o kill.Options) (kill.Result, error) {
	w, err := role.Start("world", world.Order{Takes: g.effect, Steps: g.steps})
	if err != nil {
		return kill.Result{}, err
	}
	defer w.Kill()
	e, err := open(ctx, w.Told)
	if err != nil {
		return kill.Result{}, err
	}
	defer e.Close()
	return kill.Run(ctx, e, world.Dial(w.Told), o)
}

func (g ground) ekidenKilled(ctx context.Context, url string) (kill.Engine, error) {
	prepared, err := ekiden.Prepare(ctx, g.postgres, "kill_ekiden")
	if err != nil {
		return nil, err
	}
	return ekiden.NewKilled(ctx, prepared, g.segment, url, g.parallel)
}

func (g ground) dbosKilled(ctx context.Context, url string) (kill.Engine, error) {
	dsn, err := g.postgres.Database(ctx, "kill_dbos")
	if err != nil {
		return nil, err
	}
	return dbos.NewKilled(ctx, dbos.Order{DSN: dsn, URL: url, Steps: g.steps, Parallel: g.parallel})
}

func (g ground) riverKilled(ctx context.Context, url string) (kill.Engine, error) {
	dsn, err := g.postgres.Database(ctx, "kill_river")
	if err != nil {
		return nil, err
	}
	return river.NewKilled(ctx, river.Order{DSN: dsn, URL: url, Steps: g.steps, Parallel: g.parallel, Takes: g.effect})
}
