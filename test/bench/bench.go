package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ekiden-dev/ekiden/test/bench/machine"
)

// options are all that can be chosen. Each has a variable of the environment of the same name, as BENCH_KILLS, for make.
type options struct {
	only, engines                string
	out, segment                 string
	seed                         uint64
	kills, steps, parallel       int
	effect                       time.Duration
	durable, runs, turns, tokens int
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&o.only, "only", "kill,cost,growth", "which benches, with commas between them")
	fs.StringVar(&o.engines, "engines", "ekiden,dbos,river", "kill and cost: which engines, with commas between them")
	fs.StringVar(&o.out, "out", "", "folder for the raw numbers")
	fs.StringVar(&o.segment, "segment", "", "the segment's binary")
	fs.Uint64Var(&o.seed, "seed", 1, "kill: what the instants of the kills are drawn from")
	fs.IntVar(&o.kills, "kills", 20, "kill: how often all processes of an engine are killed")
	fs.IntVar(&o.parallel, "parallel", 8, "kill and cost: how many runs go on at once")
	fs.DurationVar(&o.effect, "effect", 200*time.Millisecond, "kill: how long an effect takes")
	fs.IntVar(&o.steps, "effects", 5, "kill: how many effects a run has")
	fs.IntVar(&o.durable, "steps", 50, "cost: how many durable steps a run has")
	fs.IntVar(&o.runs, "runs", 12, "cost: how many runs are measured one after the other; in parallel three times as many")
	fs.IntVar(&o.turns, "turns", 500, "growth: how many turns the conversation has")
	fs.IntVar(&o.tokens, "tokens", 400_000, "growth: how many tokens, of four bytes each, they say in all")
	var wrong error
	fs.VisitAll(func(f *flag.Flag) {
		if v, ok := os.LookupEnv("BENCH_" + strings.ToUpper(f.Name)); ok && v != "" {
			if err := f.Value.Set(v); err != nil {
				wrong = fmt.Errorf("BENCH_%s=%s: %w", strings.ToUpper(f.Name), strconv.Quote(v), err)
			}
		}
	})
	if wrong != nil {
		return o, wrong
	}
	return o, fs.Parse(args)
}

// ground is what all benches share.
type ground struct {
	options
	postgres *machine.Postgres
	log      io.Writer
}

// raw is what is kept of a bench.
type raw struct {
	Machine machine.Facts `json:"machine"`
	Options any           `json:"options"`
	Results any           `json:"results"`
}

func bench(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	p, err := machine.StartPostgres(ctx)
	if err != nil {
		return err
	}
	defer p.Stop()
	g := ground{options: o, postgres: p, log: out}
	g.introduce()
	for _, b := range []struct {
		name string
		run  func(context.Context) (raw, error)
	}{{"kill", g.kill}, {"cost", g.cost}, {"growth", g.growth}} {
		if !among(o.only, b.name) {
			continue
		}
		facts := p.Facts()
		r, err := b.run(ctx)
		r.Machine = facts
		if r.Results != nil { // of a bench that was cut short too
			err = errors.Join(err, keep(o.out, b.name, r))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// among reports whether the list, with commas between its words, holds the word.
func among(list, word string) bool { return slices.Contains(strings.Split(list, ","), word) }

func (g ground) introduce() {
	f := g.postgres.Facts()
	fmt.Fprintf(g.log, "%d CPUs, load average %s before the first bench, %s, %s\n", f.CPUs, f.Load, f.OS, f.Go)
	fmt.Fprintf(g.log, "Postgres %s with", f.Postgres)
	for _, name := range machine.Shown {
		fmt.Fprintf(g.log, " %s=%s", name, f.Settings[name])
	}
	fmt.Fprintln(g.log)
	for _, name := range machine.Peers {
		fmt.Fprintf(g.log, "%s %s\n", name, f.Versions[name])
	}
}

// keep writes the raw numbers.
func keep(folder, name string, r raw) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // for everybody to read
		return err
	}
	body, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".json"), append(body, '\n'), 0o644) //nolint:gosec // for everybody to read
}
