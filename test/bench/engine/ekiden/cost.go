package ekiden

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	manager "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/test/bench/crew"
	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// Costs is Ekiden where nothing is killed: the manager's writes of a run, its claim, its steps, its outcome and its end.
type Costs struct {
	ground *Ground
	// loop says that the steps are taken by the loop of a segment, each proposed by a turn of a model in memory. Else there is
	// no turn: each step is its intent and its result in the journal.
	loop bool

	parallel int
	ledger   *manager.Ledger
	stores   chan *postgres.Store
}

// NewJournal is the journal alone, NewLoop the whole loop of a segment with a model and a tool in memory.
func NewJournal(g *Ground) *Costs { return &Costs{ground: g} }

// NewLoop is the whole loop.
func NewLoop(g *Ground) *Costs { return &Costs{ground: g, loop: true} }

// Name is the engine and what a step is.
func (c *Costs) Name() string {
	if c.loop {
		return "ekiden: call + its model turn"
	}
	return "ekiden: call"
}

// Open opens a store for each run that goes on, as each pod has its own.
func (c *Costs) Open(ctx context.Context, parallel int) (err error) {
	c.parallel, c.stores = parallel, make(chan *postgres.Store, parallel)
	if c.ledger, err = manager.Open(ctx, c.ground.manager); err != nil {
		return err
	}
	for range parallel {
		s, err := postgres.Open(ctx, c.ground.tenant)
		if err != nil {
			return err
		}
		c.stores <- s
	}
	return nil
}

// Close ends the connections.
func (c *Costs) Close() error {
	c.ledger.Close()
	for range c.parallel {
		(<-c.stores).Close()
	}
	return nil
}

// Work takes runs to their ends.
func (c *Costs) Work(ctx context.Context, runs, steps int) error {
	return crew.Do(ctx, c.parallel, runs, func(ctx context.Context, n int) error {
		store := <-c.stores
		defer func() { c.stores <- store }()
		return c.run(ctx, store, n, steps)
	})
}

// run is one run of one segment, as the manager and its pod write it down.
func (c *Costs) run(ctx context.Context, store *postgres.Store, n, steps int) error {
	s, err := snapshot(c.ground.namespace, "run-"+strconv.Itoa(n), "http://127.0.0.1:1")
	if err != nil {
		return err
	}
	run, attempt := s.Run.UID, lifecycle.AttemptKey{}
	if err := errors.Join(c.ledger.Admit(ctx, ledger.Admission{Snapshot: s}), c.ledger.BeginAttempt(ctx, run, attempt)); err != nil {
		return err
	}
	claim, session, err := segment.Take(ctx, store, segment.Ask{Run: run, Segment: segment.Newest, Holder: "bench"})
	if err != nil {
		return err
	}
	if c.loop {
		err = loop(ctx, claim, session, steps)
	} else {
		err = journal(ctx, claim, session, steps)
	}
	if err != nil {
		return err
	}
	rec, err := c.ledger.Look(ctx, run)
	if err != nil {
		return err
	}
	if rec.Outcome == nil || rec.Outcome.Yield != contract.YieldCompleted {
		return fmt.Errorf("run %s did not complete: %+v", run, rec.Outcome)
	}
	if err := c.ledger.EndAttempt(ctx, run, attempt, lifecycle.AttemptEnd{Class: lifecycle.Yielded, Terminated: true}); err != nil {
		return err
	}
	_, err = c.ledger.Finish(ctx, run, lifecycle.End{Phase: v1alpha1.RunSucceeded, Code: v1alpha1.ReasonCompleted})
	return err
}

func journal(ctx context.Context, claim segment.Claim, session segment.Session, steps int) error {
	digest := contract.Digest([]byte(`{}`))
	for i := range steps {
		k := segment.CallKey{Turn: i}
		if _, err := session.Begin(ctx, segment.Intent{
			CallKey: k, Tool: "world/" + world.Tool, Effect: v1alpha1.EffectWrite, Idempotency: v1alpha1.IdempotencyNone, Digest: digest,
			Key: "key-" + strconv.Itoa(i), PolicyVersion: claim.Policy.Version,
		}); err != nil {
			return err
		}
		if _, err := session.Settle(ctx, segment.Settlement{CallKey: k, Result: segment.CallResult{Kind: segment.ResultAnswered, Text: "done", Bytes: 4}}); err != nil {
			return err
		}
	}
	return session.Yield(ctx, contract.Outcome{Yield: contract.YieldCompleted, Result: "done"}, nil)
}

func loop(ctx context.Context, claim segment.Claim, session segment.Session, steps int) error {
	w := segment.Segment{
		Claim: claim, Session: session, Model: proposer(steps), Tools: &segmenttest.Tools{}, Price: budget.Price{}, Stop: make(chan struct{}), Emit: func(segment.Event) {},
	}
	fault, err := w.Run(ctx)
	if fault != nil {
		return fmt.Errorf("the segment left: %s", fault.Message)
	}
	return err
}

// proposer is a model in memory that proposes so many calls, one a turn, and then says that it is done.
type proposer int

// Answer is segment.Model's.
func (m proposer) Answer(_ context.Context, p prompt.Prompt, _ func(string)) (segment.Answer, error) {
	turn := 0
	for _, said := range p.Conversation {
		if said.Role == prompt.Assistant {
			turn++
		}
	}
	a := segment.Answer{Raw: json.RawMessage(`{"role":"assistant"}`), Tokens: budget.Tokens{Input: 10, Output: 5}, Finish: segment.FinishStop, Text: "done"}
	if turn < int(m) {
		a.Text, a.Finish = "", segment.FinishCalls
		a.Calls = []segment.ProposedCall{{Tool: world.Tool, Arguments: fmt.Sprintf(`{"step":"%d"}`, turn)}}
	}
	return a, nil
}
