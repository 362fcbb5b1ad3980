package river

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// Costs is River where nothing is killed: jobs of resumable steps that do nothing and are persisted.
type Costs struct {
	dsn    string
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	worker *worker
}

// NewCosts is River on a database of its own.
func NewCosts(ctx context.Context, dsn string) (*Costs, error) {
	pool, err := migrate(ctx, dsn)
	if err == nil {
		pool.Close()
	}
	return &Costs{dsn: dsn}, err
}

// Name is the engine and what a step is.
func (c *Costs) Name() string { return "river: ResumableSetStepTx" }

// Open starts a client.
func (c *Costs) Open(ctx context.Context, parallel int) (err error) {
	if c.pool, err = pgxpool.New(ctx, c.dsn); err != nil {
		return err
	}
	c.worker = &worker{pool: c.pool, act: func(context.Context, world.Effect) error { return nil }}
	if c.client, err = open(c.pool, c.worker, parallel, time.Minute); err != nil {
		return err
	}
	return c.client.Start(ctx)
}

// Close stops the client.
func (c *Costs) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := c.client.Stop(ctx)
	c.pool.Close()
	return err
}

// Work takes jobs to their ends.
func (c *Costs) Work(ctx context.Context, runs, steps int) error {
	c.worker.steps = steps
	ended, cancel := c.client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	defer cancel()
	for i := range runs {
		if _, err := c.client.Insert(ctx, Args{Run: fmt.Sprintf("run-%d", i)}, nil); err != nil {
			return err
		}
	}
	for range runs {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-ended:
			if e.Kind != river.EventKindJobCompleted {
				return errors.New("a job failed")
			}
		}
	}
	return nil
}
