// Package cost is bench B2: what a durable step costs when nothing is killed and the step itself does nothing.
package cost

import (
	"context"
	"fmt"
	"time"

	"github.com/ekiden-dev/ekiden/test/bench/machine"
)

// Engine runs runs of durable steps in this process.
type Engine interface {
	// Name is the engine and what it calls a step.
	Name() string
	// Open connects and starts what works on so many runs at a time.
	Open(ctx context.Context, parallel int) error
	// Work takes so many runs of so many steps to their ends.
	Work(ctx context.Context, runs, steps int) error
	// Close ends every connection.
	Close() error
}

// Options shape the bench.
type Options struct {
	// Steps is how many durable steps a run has.
	Steps int `json:"steps"`
	// Runs is how many runs are measured one after the other. In parallel there are three times as many.
	Runs     int `json:"runs"`
	Parallel int `json:"parallel"`
}

// Result is what one engine has cost in one way.
type Result struct {
	Engine   string `json:"engine"`
	Load     string `json:"loadAverage"`
	Parallel int    `json:"parallel"`
	Runs     int    `json:"runs"`
	Steps    int    `json:"steps"`
	// Seconds is how long the work took, without opening and closing.
	Seconds float64 `json:"seconds"`
	// Transactions and Bytes of the server's log are those of all the work. What opening and closing cost was measured
	// before, with nothing in between, and is not in them.
	Transactions int64 `json:"transactions"`
	Bytes        int64 `json:"walBytes"`
}

// PerSecond is how many steps a second were taken.
func (r Result) PerSecond() float64 { return float64(r.Runs*r.Steps) / r.Seconds }

// PerStep is how many transactions and bytes one step cost, its share of its run's beginning and end included.
func (r Result) PerStep() (transactions, bytes float64) {
	n := float64(r.Runs * r.Steps)
	return float64(r.Transactions) / n, float64(r.Bytes) / n
}

// Run measures an engine on its database, sequentially and in parallel.
func Run(ctx context.Context, e Engine, p *machine.Postgres, database string, o Options) ([]Result, error) {
	// The first run of all makes what is made once: pages, caches, queues.
	if _, _, err := once(ctx, e, p, database, 1, 2, o.Steps); err != nil {
		return nil, fmt.Errorf("%s: warming up: %w", e.Name(), err)
	}
	var out []Result
	for _, parallel := range []int{1, o.Parallel} {
		runs := o.Runs
		if parallel > 1 {
			runs *= 3
		}
		r := Result{Engine: e.Name(), Load: machine.Load(), Parallel: parallel, Runs: runs, Steps: o.Steps}
		idle, _, err := once(ctx, e, p, database, parallel, 0, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: opening and closing: %w", e.Name(), err)
		}
		all, took, err := once(ctx, e, p, database, parallel, runs, o.Steps)
		if err != nil {
			return nil, fmt.Errorf("%s, %d at once: %w", e.Name(), parallel, err)
		}
		r.Seconds = took.Seconds()
		r.Transactions, r.Bytes = all.Transactions-idle.Transactions, all.Written-idle.Written
		out = append(out, r)
	}
	return out, nil
}

// once opens, works and closes, and tells what all of it cost, and how long the work took.
func once(ctx context.Context, e Engine, p *machine.Postgres, database string, parallel, runs, steps int) (cost machine.Reading, took time.Duration, err error) {
	before, err := p.Read(ctx, database)
	if err != nil {
		return cost, 0, err
	}
	if err := e.Open(ctx, parallel); err != nil {
		return cost, 0, err
	}
	began := time.Now()
	if runs > 0 {
		err = e.Work(ctx, runs, steps)
	}
	took = time.Since(began)
	if closed := e.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return cost, 0, err
	}
	after, err := p.Read(ctx, database)
	return machine.Reading{Transactions: after.Transactions - before.Transactions, Written: after.Written - before.Written}, took, err
}

// Head are the columns of the table.
var Head = []string{"engine", "at once", "steps/s", "steps/s to ekiden", "transactions/step", "WAL bytes/step", "bytes to ekiden", "steps", "load"}

// Row is the result as a row of it, beside that of the engine all are compared with, at as many runs at once.
func (r Result) Row(ours Result) []string {
	transactions, bytes := r.PerStep()
	_, our := ours.PerStep()
	return []string{
		r.Engine, fmt.Sprint(r.Parallel), fmt.Sprintf("%.0f", r.PerSecond()), fmt.Sprintf("%.2f", r.PerSecond()/ours.PerSecond()),
		fmt.Sprintf("%.2f", transactions), fmt.Sprintf("%.0f", bytes), fmt.Sprintf("%.2f", bytes/our), fmt.Sprint(r.Runs * r.Steps), r.Load,
	}
}
