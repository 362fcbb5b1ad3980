// Package dbos puts DBOS Transact for Go on the benches.
package dbos

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ekiden-dev/ekiden/test/bench/role"
	"github.com/ekiden-dev/ekiden/test/bench/world"
)

const (
	// Role is that of a worker.
	Role = "dbos"

	queue    = "bench"
	workflow = "bench"
)

// Order is what a worker needs.
type Order struct {
	DSN, URL        string
	Steps, Parallel int
}

// configuration names the executor, so that a process which starts takes up what the one before it has left: recovery at launch
// is by the executor's id.
func configuration(dsn string) dbos.Config {
	return dbos.Config{
		AppName: "bench", DatabaseURL: dsn, ExecutorID: "bench", ApplicationVersion: "1",
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// Play is a worker: workflows from a queue, each effect a step.
func Play(ctx context.Context, order []byte, tell func(string)) error {
	var o Order
	if err := json.Unmarshal(order, &o); err != nil {
		return err
	}
	c, err := dbos.NewContext(ctx, configuration(o.DSN))
	if err != nil {
		return err
	}
	w := world.Dial(o.URL)
	dbos.RegisterWorkflow(c, func(c dbos.Context, run string) (string, error) {
		for i := range o.Steps {
			if _, err := dbos.RunAsStep(c, func(ctx context.Context) (string, error) {
				return "done", w.Act(ctx, world.Effect{Run: run, Step: strconv.Itoa(i)})
			}, dbos.WithStepName("step-"+strconv.Itoa(i))); err != nil {
				return "", err
			}
		}
		return "done", nil
	}, dbos.WithWorkflowName(workflow))
	// Asked ten times a second instead of once, so that no kill has to wait for work.
	if _, err := dbos.RegisterQueue(c, queue, dbos.WithWorkerConcurrency(o.Parallel), dbos.WithQueueBasePollingInterval(100*time.Millisecond)); err != nil {
		return err
	}
	if err := dbos.Launch(c); err != nil {
		return err
	}
	tell("ready")
	<-ctx.Done()
	return nil
}

// Killed is DBOS under the killer: one process with a queue of workflows.
//
// What it promises: workflows run to completion, "automatically resume from the last completed step", so a step that was not
// recorded as completed is run again: at least once.
type Killed struct {
	order  Order
	client dbos.Client
	pool   *pgxpool.Pool
	worker *role.Process
}

// NewKilled is DBOS on a database of its own.
func NewKilled(ctx context.Context, o Order) (*Killed, error) {
	first, err := dbos.NewContext(ctx, configuration(o.DSN)) // makes the tables, which a client does not
	if err != nil {
		return nil, err
	}
	if err := dbos.Launch(first); err != nil {
		return nil, err
	}
	if err := dbos.Shutdown(first, 10*time.Second); err != nil {
		return nil, err
	}
	client, err := dbos.NewClient(ctx, dbos.ClientConfig{AppName: "bench", DatabaseURL: o.DSN, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, o.DSN)
	if err != nil {
		return nil, err
	}
	return &Killed{order: o, client: client, pool: pool}, nil
}

// Name is the engine and how it is used.
func (k *Killed) Name() string { return "dbos" }

// Submit enqueues the workflow.
func (k *Killed) Submit(_ context.Context, run string) error {
	_, err := dbos.Enqueue[string](k.client, queue, workflow, run, dbos.WithEnqueueWorkflowID(run))
	return err
}

// Start starts the worker.
func (k *Killed) Start(context.Context) (err error) {
	k.worker, err = role.Start(Role, k.order)
	return err
}

// Kill kills the worker.
func (k *Killed) Kill() { k.worker.Kill() }

// Ended counts workflows.
func (k *Killed) Ended(ctx context.Context) (ended, well int, err error) {
	err = k.pool.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE status NOT IN ('PENDING', 'ENQUEUED', 'DELAYED')), count(*) FILTER (WHERE status = 'SUCCESS')
FROM dbos.workflow_status WHERE name = $1`, workflow).Scan(&ended, &well)
	return ended, well, err
}

// Unknown are none: it has no such word.
func (k *Killed) Unknown(context.Context) ([]world.Effect, error) { return nil, nil }

// Close ends the worker and the client.
func (k *Killed) Close() {
	if k.worker != nil {
		k.worker.Kill()
	}
	_ = dbos.Shutdown(k.client, 5*time.Second) // the bench of it is over
	k.pool.Close()
}
