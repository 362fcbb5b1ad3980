package ekiden

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	manager "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/test/bench/growth"
	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// segments is over how many segments the conversation is spread, so that claims which load all of it are measured too.
const segments = 10

// Grown is Ekiden with a long conversation: the loop of segments, with a model and a tool in memory that have much to say.
type Grown struct {
	ground *Ground
	growth.Options
}

// NewGrown is Ekiden with the conversation.
func NewGrown(g *Ground, o growth.Options) *Grown { return &Grown{ground: g, Options: o} }

// Name is who keeps it and how.
func (g *Grown) Name() string { return "ekiden" }

// Keep has the conversation, segment after segment.
func (g *Grown) Keep(ctx context.Context, turned func(context.Context, int, int) error) error {
	l, err := manager.Open(ctx, g.ground.manager)
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := snapshot(g.ground.namespace, "Go on.", "http://127.0.0.1:1")
	if err != nil {
		return err
	}
	if err := l.Admit(ctx, ledger.Admission{Snapshot: s}); err != nil {
		return err
	}
	store, err := postgres.Open(ctx, g.ground.tenant)
	if err != nil {
		return err
	}
	defer store.Close()
	for n := 0; ; n++ {
		if err := l.BeginAttempt(ctx, s.Run.UID, ledger.AttemptKey{Segment: n}); err != nil {
			return err
		}
		if err := g.segment(ctx, store, segment.Ask{Run: s.Run.UID, Segment: n, Holder: "bench"}, turned); err != nil {
			return err
		}
		if err := l.EndAttempt(ctx, s.Run.UID, ledger.AttemptKey{Segment: n}, ledger.AttemptEnd{Class: "yielded", Terminated: true}); err != nil {
			return err
		}
		rec, err := l.Look(ctx, s.Run.UID)
		switch {
		case err != nil:
			return err
		case rec.Outcome == nil:
			return fmt.Errorf("segment %d left no outcome", n)
		case rec.Outcome.Yield == contract.YieldCompleted:
			return turned(ctx, g.Turns, g.Words()) // the answer calls nothing
		case rec.Outcome.Yield != contract.YieldCheckpoint:
			return fmt.Errorf("segment %d ended %s: %s", n, rec.Outcome.Yield, rec.Outcome.Message)
		}
	}
}

// segment works until it has had its share of the turns; then it is told to stop, as a pod is.
func (g *Grown) segment(ctx context.Context, store *postgres.Store, ask segment.Ask, turned func(context.Context, int, int) error) error {
	claim, session, err := segment.Take(ctx, store, ask)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	m := &talker{Options: g.Options, turned: turned, first: -1, stop: func() { close(stop) }}
	w := segment.Segment{
		Claim: claim, Session: session, Model: m, Price: budget.Price{}, Stop: stop, Emit: func(segment.Event) {},
		Tools: &segmenttest.Tools{Do: func(_ context.Context, p gate.Permit) (segment.CallResult, error) {
			text := growth.Text(uint64(2*p.Turn()+1), g.Words())
			return segment.CallResult{Kind: segment.ResultAnswered, Text: text, Bytes: int64(len(text))}, nil
		}},
	}
	fault, err := w.Run(ctx)
	if fault != nil {
		return fmt.Errorf("the segment left: %s", fault.Message)
	}
	return err
}

// talker is a model in memory that says something and calls the tool, turn after turn.
type talker struct {
	growth.Options
	turned func(context.Context, int, int) error
	stop   func()
	first  int
}

// Answer is segment.Model's. When it is asked for a turn, the one before it is durable with its call.
func (t *talker) Answer(ctx context.Context, p prompt.Prompt, _ func(string)) (segment.Answer, error) {
	turn := 0
	for _, said := range p.Conversation {
		if said.Role == prompt.Assistant {
			turn++
		}
	}
	if t.first < 0 {
		t.first = turn
	}
	if turn > 0 && turn < t.Turns {
		if err := t.turned(ctx, turn, 2*t.Words()); err != nil {
			return segment.Answer{}, err
		}
	}
	if turn == t.first+max(t.Turns/segments, 1)-1 {
		t.stop()
	}
	text := growth.Text(uint64(2*turn), t.Words())
	a := segment.Answer{Text: text, Tokens: budget.Tokens{Input: 10, Output: 5}, Finish: segment.FinishStop}
	if turn < t.Turns-1 { // the last turn is the answer
		a.Finish, a.Calls = segment.FinishCalls, []segment.ProposedCall{{Tool: world.Tool, Arguments: fmt.Sprintf(`{"step":"%d"}`, turn)}}
	}
	var err error
	a.Raw, err = json.Marshal(map[string]string{"role": "assistant", "content": text}) // as providers send it: the text is kept twice
	return a, err
}

// Stored is how many bytes the tables take that grow with a conversation.
func (g *Grown) Stored(ctx context.Context) (bytes int64, err error) {
	conn, err := pgx.Connect(ctx, g.ground.Postgres.DSN(g.ground.Database, "", ""))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, `SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relnamespace = 'ekiden'::regnamespace AND relkind = 'r'`).Scan(&bytes)
	return bytes, err
}
