// Package river puts River on the benches.
package river

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/ekiden-dev/ekiden/test/bench/role"
	"github.com/ekiden-dev/ekiden/test/bench/world"
)

const (
	// Role is that of a worker.
	Role = "river"

	// slack is what a job is given beyond a multiple of its effects, on a machine that is busy.
	slack = 5 * time.Second
)

// Order is what a worker needs.
type Order struct {
	DSN, URL        string
	Steps, Parallel int
	// Takes is how long an effect takes.
	Takes time.Duration
}

// Args are what a job is about.
type Args struct {
	Run string `json:"run"`
}

// Kind names the kind of job.
func (Args) Kind() string { return "bench" }

// worker does a job in resumable steps. The progress of each is persisted at once, as the documentation advises for jobs that may
// end abruptly: by itself a job's progress is only written down when its attempt ends in order.
type worker struct {
	river.WorkerDefaults[Args]
	pool  *pgxpool.Pool
	steps int
	act   func(context.Context, world.Effect) error
}

// Work does the job.
func (w *worker) Work(ctx context.Context, job *river.Job[Args]) error {
	for i := range w.steps {
		river.ResumableStep(ctx, "step-"+strconv.Itoa(i), nil, func(ctx context.Context) error {
			if err := w.act(ctx, world.Effect{Run: job.Args.Run, Step: strconv.Itoa(i)}); err != nil {
				return err
			}
			return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
				_, err := river.ResumableSetStepTx[*riverpgxv5.Driver](ctx, tx, job)
				return err
			})
		})
	}
	return nil
}

// open makes a client that works on jobs, so many at a time, none of which takes longer.
func open(pool *pgxpool.Pool, w *worker, parallel int, longest time.Duration) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: parallel}},
		// Not slower than it has to be: jobs are fetched as soon as there is room for them.
		FetchCooldown: 5 * time.Millisecond, FetchPollInterval: 100 * time.Millisecond,
		// As early as the documentation allows: a rescue waits for longer than a job may run.
		JobTimeout: longest, RescueStuckJobsAfter: longest + time.Second,
	})
}

func migrate(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return nil, err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return pool, err
}

// Play is a worker.
func Play(ctx context.Context, order []byte, tell func(string)) error {
	var o Order
	if err := json.Unmarshal(order, &o); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, o.DSN)
	if err != nil {
		return err
	}
	c, err := open(pool, &worker{pool: pool, steps: o.Steps, act: world.Dial(o.URL).Act}, o.Parallel, slack+4*time.Duration(o.Steps)*o.Takes)
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	tell("ready")
	<-ctx.Done()
	return nil
}

// Killed is River under the killer: one process that works on jobs.
//
// What it promises: jobs are worked at least once, and a job whose process is gone is rescued once it has been running for too
// long. A step whose progress is not persisted is done again.
type Killed struct {
	order  Order
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	worker *role.Process
}

// NewKilled is River on a database of its own.
func NewKilled(ctx context.Context, o Order) (*Killed, error) {
	pool, err := migrate(ctx, o.DSN)
	if err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	return &Killed{order: o, pool: pool, client: client}, err
}

// Name is the engine and how it is used.
func (k *Killed) Name() string { return "river" }

// Submit inserts the job.
func (k *Killed) Submit(ctx context.Context, run string) error {
	_, err := k.client.Insert(ctx, Args{Run: run}, nil)
	return err
}

// Start starts the worker.
func (k *Killed) Start(context.Context) (err error) {
	k.worker, err = role.Start(Role, k.order)
	return err
}

// Kill kills the worker.
func (k *Killed) Kill() { k.worker.Kill() }

// Ended counts jobs.
func (k *Killed) Ended(ctx context.Context) (ended, well int, err error) {
	err = k.pool.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE state IN ('completed', 'cancelled', 'discarded')), count(*) FILTER (WHERE state = 'completed') FROM river_job`).Scan(&ended, &well)
	return ended, well, err
}

// Unknown are none: it has no such word.
func (k *Killed) Unknown(context.Context) ([]world.Effect, error) { return nil, nil }

// Close ends the worker.
func (k *Killed) Close() {
	if k.worker != nil {
		k.worker.Kill()
	}
	k.pool.Close()
}
