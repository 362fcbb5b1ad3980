package segment_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
)

// story runs a test in a bubble of its own, where time passes only when everybody waits.
func story(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestRun(t *testing.T) {
	overloaded := segment.CallError{Retryable: true, Code: "Overloaded", Message: "529"}
	story(t, "a task and an answer", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		m := segmenttest.Script(segmenttest.Says("42"))
		done(t, w, m)
		if diff := cmp.Diff(contract.Outcome{Yield: contract.YieldCompleted, Result: "42"}, w.Run().Outcomes[0]); diff != "" {
			t.Error(diff)
		}
		want := prompt.Prompt{System: "You sort tickets.", Conversation: []prompt.Message{{Role: prompt.User, Text: "Sort ticket 4711."}}}
		if diff := cmp.Diff([]prompt.Prompt{want}, m.Prompts()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]segment.Usage{{Turn: 0, Try: 1, Tokens: budget.Tokens{Input: 10, Output: 5}, Cost: 20}}, w.Run().Usage); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"ModelCalled", "ModelAnswered", "Yielded"}, w.Events()); diff != "" {
			t.Error(diff)
		}
	})
	story(t, "three segments, each slower than the soft timer, end in one answer", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		m := segmenttest.Script(segmenttest.Cut("a").Takes(91*time.Second), segmenttest.Cut("b").Takes(91*time.Second), segmenttest.Says("c"))
		for range 3 {
			done(t, w, m)
		}
		want := map[int]contract.Outcome{0: {Yield: contract.YieldCheckpoint}, 1: {Yield: contract.YieldCheckpoint}, 2: {Yield: contract.YieldCompleted, Result: "abc"}}
		if diff := cmp.Diff(want, w.Run().Outcomes); diff != "" {
			t.Error(diff)
		}
		// The conversation grows at its end and nowhere else: each request begins with the one before.
		ps := m.Prompts()
		for i := 1; i < len(ps); i++ {
			if diff := cmp.Diff(ps[i-1].Conversation, ps[i].Conversation[:len(ps[i-1].Conversation)]); diff != "" {
				t.Errorf("request %d does not begin with the one before: %s", i, diff)
			}
		}
		if last := ps[2].Conversation[len(ps[2].Conversation)-1]; last.Text != prompt.Continue {
			t.Errorf("the model was not asked to go on but told %q", last.Text)
		}
	})
	story(t, "a first act that takes longer than the hard timer is not cut", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		done(t, w, segmenttest.Script(segmenttest.Says("42").Takes(9*time.Minute)))
		if got := w.Run().Outcomes[0].Yield; got != contract.YieldCompleted {
			t.Errorf("yield %s", got)
		}
	})
	story(t, "a later act is cut at the hard timer, paid for, and made again by the next segment", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		start := time.Now()
		m := segmenttest.Script(segmenttest.Cut("a").Takes(60*time.Second), segmenttest.Says("b").Takes(5*time.Minute), segmenttest.Says("b").Takes(5*time.Minute))
		done(t, w, m)
		if took := time.Since(start); took != 120*time.Second {
			t.Errorf("cut after %s", took)
		}
		if got := w.Run(); got.Outcomes[0].Yield != contract.YieldCheckpoint || len(got.Transcript) != 1 {
			t.Errorf("%+v", got)
		}
		done(t, w, m)
		got := w.Run()
		if got.Outcomes[1].Result != "ab" || len(got.Usage) != 3 {
			t.Errorf("%+v", got)
		}
	})
	story(t, "a try that fails is made again after a pause, and counted", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		m := segmenttest.Script(segmenttest.Fails(overloaded), segmenttest.Fails(overloaded), segmenttest.Says("42"))
		done(t, w, m)
		if n := len(m.Prompts()); n != 3 || w.Run().Outcomes[0].Result != "42" {
			t.Errorf("%d requests, %+v", n, w.Run().Outcomes)
		}
	})
	story(t, "a model that never answers costs exactly as many requests as allowed", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		m := segmenttest.Script(segmenttest.Fails(overloaded), segmenttest.Fails(overloaded), segmenttest.Fails(overloaded))
		done(t, w, m)
		if n := len(m.Prompts()); n != 3 || w.Run().Outcomes[0].Code != v1alpha1.ReasonModelUnavailable {
			t.Errorf("%d requests, %+v", n, w.Run().Outcomes)
		}
	})
	story(t, "a pause that is too long for this segment is left to the next attempt", func(t *testing.T) {
		w := segmenttest.New(t, func(s *contract.Snapshot) { s.Agent.Segment.SoftSeconds = 5 })
		limited := overloaded
		limited.RetryAfter = 30 * time.Second
		m := segmenttest.Script(segmenttest.Fails(limited), segmenttest.Says("42"))
		fault, err := w.Segment(t.Context(), m, nil)
		if err != nil || fault == nil || *fault != (contract.Fault{Code: contract.FaultDeferred, Message: "529", NotBeforeSeconds: 30}) {
			t.Fatalf("%+v, %v", fault, err)
		}
		if w.Run().Held {
			t.Error("the claim was not released")
		}
		time.Sleep(time.Duration(fault.NotBeforeSeconds) * time.Second)
		done(t, w, m)
		if n := len(m.Prompts()); n != 2 || w.Run().Outcomes[0].Result != "42" {
			t.Errorf("%d requests, %+v", n, w.Run().Outcomes)
		}
	})
	story(t, "an endpoint that asks for a longer pause than allowed ends the run", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		limited := overloaded
		limited.RetryAfter = time.Hour
		m := segmenttest.Script(segmenttest.Fails(limited))
		done(t, w, m)
		if got := w.Run().Outcomes[0]; got.Code != v1alpha1.ReasonQuotaExhausted {
			t.Errorf("%+v", got)
		}
	})
	story(t, "a bad key makes exactly one request", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		m := segmenttest.Script(segmenttest.Fails(segment.CallError{Code: v1alpha1.ReasonCredentialsRefused, Message: "401"}))
		done(t, w, m)
		if n := len(m.Prompts()); n != 1 || w.Run().Outcomes[0].Code != v1alpha1.ReasonCredentialsRefused {
			t.Errorf("%d requests, %+v", n, w.Run().Outcomes)
		}
	})
	story(t, "a cancel is seen at the next beat and cuts the model", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		start := time.Now()
		go func() {
			time.Sleep(time.Second)
			w.Store.Cancel(w.Snapshot.Run.UID)
		}()
		done(t, w, segmenttest.Script(segmenttest.Says("42").Takes(9*time.Minute)))
		if took := time.Since(start); took != contract.BeatEvery {
			t.Errorf("took %s", took)
		}
		if got := w.Run(); got.Outcomes[0].Yield != contract.YieldCancelled || len(got.Transcript) != 0 || len(got.Usage) != 1 {
			t.Errorf("%+v", got)
		}
	})
	story(t, "a run that is cancelled before the claim makes no outcome and no request", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		w.Store.Cancel(w.Snapshot.Run.UID)
		m := segmenttest.Script()
		if _, err := w.Segment(t.Context(), m, nil); !errors.Is(err, segment.ErrOver) {
			t.Errorf("%v", err)
		}
		if len(m.Prompts()) != 0 || len(w.Run().Outcomes) != 0 {
			t.Errorf("%+v", w.Run())
		}
	})
	story(t, "a pod that is told to stop may finish the act in hand, and hands over", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		stop := make(chan struct{})
		go func() {
			time.Sleep(time.Second)
			close(stop)
		}()
		if fault, err := w.Segment(t.Context(), segmenttest.Script(segmenttest.Cut("a").Takes(10*time.Second)), stop); fault != nil || err != nil {
			t.Fatal(fault, err)
		}
		if got := w.Run(); got.Outcomes[0].Yield != contract.YieldCheckpoint || len(got.Transcript) != 1 {
			t.Errorf("%+v", got)
		}
	})
	story(t, "a pod that is told to stop and is not done within its grace leaves", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		stop, start := make(chan struct{}), time.Now()
		go func() {
			time.Sleep(time.Second)
			close(stop)
		}()
		fault, err := w.Segment(t.Context(), segmenttest.Script(segmenttest.Says("a").Takes(5*time.Minute)), stop)
		if err != nil || fault == nil || fault.Code != contract.FaultStopped {
			t.Fatal(fault, err)
		}
		if took, grace := time.Since(start), time.Second+contract.StopGrace-contract.SaveTime; took != grace {
			t.Errorf("left after %s, the grace ends after %s", took, grace)
		}
		if w.Run().Held {
			t.Error("the claim was not released")
		}
	})
	story(t, "a run that has ended meanwhile fences the segment out", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		go func() {
			time.Sleep(time.Second)
			w.Store.Finish(w.Snapshot.Run.UID)
		}()
		if _, err := w.Segment(t.Context(), segmenttest.Script(segmenttest.Says("42").Takes(9*time.Minute)), nil); !errors.Is(err, segment.ErrFenced) {
			t.Errorf("%v", err)
		}
		if got := w.Run(); len(got.Transcript) != 0 || len(got.Outcomes) != 0 {
			t.Errorf("%+v", got)
		}
	})
	story(t, "a write that is under way when the beat is fenced is no crash", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		claim, session, err := segment.Take(t.Context(), w.Store, segment.Ask{Run: w.Snapshot.Run.UID, Segment: segment.Newest, Holder: "test"})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(2 * time.Second)
			w.Store.Finish(w.Snapshot.Run.UID)
		}()
		s := segment.Segment{Claim: claim, Session: hanging{session}, Model: segmenttest.Script(segmenttest.Says("42")), Emit: func(segment.Event) {}}
		if _, err := s.Run(t.Context()); !errors.Is(err, segment.ErrFenced) {
			t.Errorf("%v", err)
		}
	})
	story(t, "of two processes of one segment one works and the other waits for the outcome", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		m := segmenttest.Script(segmenttest.Says("42").Takes(time.Minute))
		second := make(chan error)
		go func() {
			time.Sleep(time.Second)
			_, _, err := segment.Take(context.Background(), w.Store, segment.Ask{Run: w.Snapshot.Run.UID, Segment: 0})
			second <- err
		}()
		done(t, w, m)
		if err := <-second; !errors.Is(err, segment.ErrOver) {
			t.Errorf("%v", err)
		}
		if n := len(m.Prompts()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
	story(t, "a process that dies costs one model call, and its successor the rest of its lease", func(t *testing.T) {
		w := segmenttest.New(t, nil)
		m := segmenttest.Script(segmenttest.Cut("a"), segmenttest.Says("b").Takes(time.Minute), segmenttest.Says("b"))
		ctx, kill := context.WithCancel(t.Context())
		go func() {
			time.Sleep(5 * time.Second)
			kill()
		}()
		if _, err := w.Segment(ctx, m, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		done(t, w, m)
		if n := len(m.Prompts()); n != 3 || w.Run().Outcomes[0].Result != "ab" {
			t.Errorf("%d requests, %+v", n, w.Run().Outcomes)
		}
	})
}

func done(t *testing.T, w *segmenttest.World, m segment.Model) {
	t.Helper()
	if fault, err := w.Segment(t.Context(), m, nil); fault != nil || err != nil {
		t.Fatal(fault, err)
	}
}

// hanging is a session whose store takes no entry before the caller gives up.
type hanging struct{ segment.Session }

func (hanging) Append(ctx context.Context, _ int, _ []segment.Entry, _ []segment.Usage) (segment.Pulse, error) {
	<-ctx.Done()
	return segment.Pulse{}, fmt.Errorf("asking: %w", ctx.Err())
}
