package dbos

import (
	"context"
	"fmt"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/ekiden-dev/ekiden/test/bench/crew"
)

// Costs is DBOS where nothing is killed: workflows that are started directly, of steps that do nothing.
type Costs struct {
	dsn      string
	parallel int
	opened   int
	context  dbos.Context
}

// NewCosts is DBOS on a database of its own.
func NewCosts(dsn string) *Costs { return &Costs{dsn: dsn} }

// Name is the engine and what a step is.
func (c *Costs) Name() string { return "dbos: RunAsStep" }

// steps is the workflow.
func steps(c dbos.Context, n int) (string, error) {
	for range n {
		if _, err := dbos.RunAsStep(c, func(context.Context) (string, error) { return "done", nil }, dbos.WithStepName("step")); err != nil {
			return "", err
		}
	}
	return "done", nil
}

// Open launches.
func (c *Costs) Open(ctx context.Context, parallel int) (err error) {
	c.parallel = parallel
	c.opened++
	if c.context, err = dbos.NewContext(ctx, configuration(c.dsn)); err != nil {
		return err
	}
	dbos.RegisterWorkflow(c.context, steps)
	return dbos.Launch(c.context)
}

// Close shuts down.
func (c *Costs) Close() error { return dbos.Shutdown(c.context, 30*time.Second) }

// Work takes workflows to their ends.
func (c *Costs) Work(ctx context.Context, runs, n int) error {
	return crew.Do(ctx, c.parallel, runs, func(_ context.Context, i int) error {
		h, err := dbos.RunWorkflow(c.context, steps, n, dbos.WithWorkflowID(fmt.Sprintf("run-%d-%d", c.opened, i)))
		if err != nil {
			return err
		}
		_, err = h.GetResult()
		return err
	})
}
