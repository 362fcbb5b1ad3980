package ekiden

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/types"

	manager "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// Killed is Ekiden under the killer: each run's segment is a process, and a kill takes all of them, as the loss of a node does.
//
// What it promises: a call whose result is recorded is never made again, and one whose outcome is unknown is not made again by
// itself, because the tool was not declared repeatable. The model is told so. The next call of that tool wants the approval of a
// person, whom the bench plays and who always says yes.
type Killed struct {
	ground *Ground
	ledger *manager.Ledger
	node   *node
	url    string

	cancel  context.CancelFunc
	drivers sync.WaitGroup
	queue   chan types.UID

	mu     sync.Mutex
	names  map[types.UID]string
	failed error
}

// NewKilled is Ekiden with segments from the binary, so many at a time, in the world at the address.
func NewKilled(ctx context.Context, g *Ground, binary, url string, parallel int) (*Killed, error) {
	l, err := manager.Open(ctx, g.manager)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	k := &Killed{
		ground: g, ledger: l, node: newNode(binary, g.tenant), url: url, cancel: cancel,
		queue: make(chan types.UID, 1<<16), names: map[types.UID]string{},
	}
	for range parallel {
		k.drivers.Go(func() { k.work(ctx) })
	}
	return k, nil
}

// Name is the engine and how it is used.
func (k *Killed) Name() string { return "ekiden" }

// Submit admits the run.
func (k *Killed) Submit(ctx context.Context, run string) error {
	s, err := snapshot(k.ground.namespace, run, k.url)
	if err != nil {
		return err
	}
	if err := k.ledger.Admit(ctx, ledger.Admission{Snapshot: s}); err != nil {
		return err
	}
	k.mu.Lock()
	k.names[s.Run.UID] = run
	k.mu.Unlock()
	k.queue <- s.Run.UID
	return nil
}

// work takes one run after the other to its end.
func (k *Killed) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case run := <-k.queue:
			if err := k.drive(ctx, run); err != nil && ctx.Err() == nil {
				k.mu.Lock()
				k.failed = err
				k.mu.Unlock()
				return
			}
		}
	}
}

// Start lets segments start.
func (k *Killed) Start(context.Context) error {
	k.node.up()
	return nil
}

// Kill ends all segments.
func (k *Killed) Kill() { k.node.down() }

// Ended counts runs in the ledger.
func (k *Killed) Ended(ctx context.Context) (ended, well int, err error) {
	k.mu.Lock()
	err = k.failed
	k.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	err = k.read(ctx, `SELECT count(*), count(*) FILTER (WHERE end_phase = 'Succeeded') FROM ekiden.runs WHERE ended_at IS NOT NULL`, func(rows pgx.Rows) error {
		return rows.Scan(&ended, &well)
	})
	return ended, well, err
}

// Unknown are the calls that the journal says are indeterminate. The model proposes one effect a turn.
func (k *Killed) Unknown(ctx context.Context) ([]world.Effect, error) {
	var out []world.Effect
	err := k.read(ctx, `SELECT run_uid::text, turn::text FROM ekiden.calls WHERE kind = 'indeterminate'`, func(rows pgx.Rows) error {
		var run types.UID
		var e world.Effect
		if err := rows.Scan((*string)(&run), &e.Step); err != nil {
			return err
		}
		k.mu.Lock()
		e.Run = k.names[run]
		k.mu.Unlock()
		out = append(out, e)
		return nil
	})
	return out, err
}

func (k *Killed) read(ctx context.Context, sql string, row func(pgx.Rows) error) error {
	conn, err := pgx.Connect(ctx, k.ground.Postgres.DSN(k.ground.Database, "", ""))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Close ends the drivers and their segments.
func (k *Killed) Close() {
	k.cancel()
	k.node.down()
	k.node.up() // who waits for a start sees that it is over
	k.drivers.Wait()
	k.node.down()
	k.ledger.Close()
}
