package segmenttest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/memory"
)

// World is one admitted run in a store in memory.
type World struct {
	Store    *memory.Store
	Snapshot contract.Snapshot
	// Tools carries out the agent's calls.
	Tools *Tools

	mu     sync.Mutex
	events []segment.Event
}

// New is a world with a run whose limits are wide, unless change narrows them.
func New(t testing.TB, change func(*contract.Snapshot)) *World {
	t.Helper()
	s := contract.Snapshot{
		Run: contract.Identity{Namespace: "support", NamespaceUID: "4b7e0c1a-0000-4000-8000-000000000001", Name: "triage", UID: "4b7e0c1a-0000-4000-8000-000000000002", RootUID: "4b7e0c1a-0000-4000-8000-000000000002"},
		Agent: v1alpha1.CompiledAgent{
			Instructions: "You sort tickets.",
			Limits:       v1alpha1.Limits{Segments: 20, Turns: 40, ToolCalls: 40, ActiveSeconds: 1800},
			Segment:      v1alpha1.SegmentTimers{SoftSeconds: 90, HardSeconds: 120},
			Retry:        v1alpha1.Retry{MaxAttempts: 3, BaseSeconds: 1, CapSeconds: 60, MaxRetryAfterSeconds: 60},
		},
		Task: "Sort ticket 4711.",
	}
	if change != nil {
		change(&s)
	}
	w := &World{Store: memory.New(time.Now), Snapshot: s, Tools: &Tools{}}
	if err := w.Store.Admit(s); err != nil {
		t.Fatal(err)
	}
	return w
}

// Segment claims the run and carries the segment to its end, as a pod would. stop may be nil.
func (w *World) Segment(ctx context.Context, model segment.Model, stop <-chan struct{}) (*contract.Fault, error) {
	claim, session, err := segment.Take(ctx, w.Store, segment.Ask{Run: w.Snapshot.Run.UID, Segment: segment.Newest, Holder: "test"})
	if err != nil {
		return nil, err
	}
	s := segment.Segment{
		Claim: claim, Session: session, Model: model, Tools: w.Tools, Stop: stop,
		Price: budget.Price{Input: 1e6, CacheRead: 1e6, Output: 2e6},
		Emit: func(e segment.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	}
	return s.Run(ctx)
}

// Run is what the store knows.
func (w *World) Run() memory.Run {
	r, _ := w.Store.Look(w.Snapshot.Run.UID)
	return r
}

// Events are the names of the events so far, deltas left out.
func (w *World) Events() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, e := range w.events {
		if e.Name != "Delta" {
			names = append(names, e.Name)
		}
	}
	return names
}
