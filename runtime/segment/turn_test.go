package segment_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
)

// desk is an agent with a tool of each effect.
func desk(s *contract.Snapshot) {
	segmenttest.Offer(s, map[string]v1alpha1.Effect{"get": v1alpha1.EffectRead, "note": v1alpha1.EffectWrite, "refund": v1alpha1.EffectSend})
}

func deskWith(change func(*contract.Snapshot)) func(*contract.Snapshot) {
	return func(s *contract.Snapshot) {
		desk(s)
		change(s)
	}
}

// allow is a policy that lets everything run.
var allow = contract.PolicySet{Sources: []contract.PolicySource{{Namespace: "support", Name: "default", Rules: []v1alpha1.PolicyRule{{Name: "all", Action: v1alpha1.PolicyAllow}}}}}

var deny = contract.PolicySet{Sources: []contract.PolicySource{{Namespace: "support", Name: "default", Rules: []v1alpha1.PolicyRule{{Name: "none", Action: v1alpha1.PolicyDeny}}}}}

func outcome(t *testing.T, w *segmenttest.World, n int) contract.Outcome {
	t.Helper()
	o, there := w.Run().Outcomes[n]
	if !there {
		t.Fatalf("segment %d left no outcome; there are %+v", n, w.Run().Outcomes)
	}
	return o
}

// answer decides on the ask as the manager delivers it.
func answer(w *segmenttest.World, a contract.Ask, phase v1alpha1.ApprovalPhase) {
	w.Store.Decide(w.Snapshot.Run.UID, contract.Delivery{
		Request: "r", Turn: a.Turn, Index: a.Index, Digest: a.Digest, Seat: 1, Seats: a.Seats, Phase: phase, By: "alice", Reason: "because",
	})
}

func results(m *segmenttest.Model) []string {
	ps := m.Prompts()
	var out []string
	for _, msg := range ps[len(ps)-1].Conversation {
		if msg.Role == prompt.Tool {
			out = append(out, msg.Text)
		}
	}
	return out
}

func TestCalls(t *testing.T) {
	story(t, "a read runs, and the model goes on with its result", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{"id": 1}`)), segmenttest.Says("42"))
		done(t, w, m)
		if diff := cmp.Diff(contract.Outcome{Yield: contract.YieldCompleted, Result: "42"}, outcome(t, w, 0)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{`get{"id":1}`}, w.Tools.Calls()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"done"}, results(m)); diff != "" {
			t.Error(diff)
		}
		want := []string{"ModelCalled", "ModelAnswered", "CallStarted", "CallSettled", "ModelCalled", "ModelAnswered", "Yielded"}
		if diff := cmp.Diff(want, w.Events()); diff != "" {
			t.Error(diff)
		}
		if got := m.Prompts()[0].Tools; len(got) != 3 || got[0].Name != "get" || got[2].Name != "refund" {
			t.Errorf("the model was offered %+v", got)
		}
	})
	story(t, "a send waits for people, and the run goes on with the same turn once they have approved", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("refund", `{"amount":120}`)), segmenttest.Says("paid"))
		done(t, w, m)
		wait := outcome(t, w, 0).Wait
		if wait == nil || len(wait.Asks) != 1 || wait.Asks[0].Arguments != `{"amount":120}` || wait.Asks[0].Pool != "default" || len(w.Tools.Calls()) != 0 {
			t.Fatalf("waits for %+v, called %v", wait, w.Tools.Calls())
		}
		answer(w, wait.Asks[0], v1alpha1.ApprovalApproved)
		done(t, w, m)
		if got := outcome(t, w, 1); got.Result != "paid" || len(m.Prompts()) != 2 || len(w.Tools.Calls()) != 1 {
			t.Errorf("%+v after %d model calls and %v", got, len(m.Prompts()), w.Tools.Calls())
		}
	})
	for phase, word := range map[v1alpha1.ApprovalPhase]string{v1alpha1.ApprovalDenied: "alice", v1alpha1.ApprovalExpired: "nobody"} {
		story(t, "the model is told that a call was "+string(phase), func(t *testing.T) {
			w := segmenttest.New(t, desk)
			m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("refund", `{}`)), segmenttest.Says("sorry"))
			done(t, w, m)
			answer(w, outcome(t, w, 0).Wait.Asks[0], phase)
			done(t, w, m)
			got := results(m)
			if len(got) != 1 || !strings.Contains(strings.ToLower(got[0]), word) || len(w.Tools.Calls()) != 0 || outcome(t, w, 1).Result != "sorry" {
				t.Errorf("told %q, called %v, ended %+v", got, w.Tools.Calls(), outcome(t, w, 1))
			}
		})
	}
	story(t, "all gated calls of a turn are asked about together, and run in their order", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		m := segmenttest.Script(
			segmenttest.Calls(segmenttest.Call("get", `{}`), segmenttest.Call("note", `{"n":1}`), segmenttest.Call("get", `{"late":true}`), segmenttest.Call("refund", `{"n":2}`)),
			segmenttest.Says("both"))
		done(t, w, m)
		asks := outcome(t, w, 0).Wait.Asks
		if len(asks) != 2 || asks[0].Tool != "crm/note" || asks[1].Tool != "crm/refund" {
			t.Fatalf("asks about %+v", asks)
		}
		answer(w, asks[1], v1alpha1.ApprovalApproved) // the later one first
		done(t, w, m)
		again := outcome(t, w, 1).Wait
		if again == nil || len(again.Asks) != 1 || again.Asks[0].Tool != "crm/note" {
			t.Fatalf("goes on waiting for %+v", again)
		}
		answer(w, asks[0], v1alpha1.ApprovalApproved)
		done(t, w, m)
		if diff := cmp.Diff([]string{`get{}`, `note{"n":1}`, `get{"late":true}`, `refund{"n":2}`}, w.Tools.Calls()); diff != "" {
			t.Error(diff)
		}
		if len(m.Prompts()) != 2 || outcome(t, w, 2).Result != "both" {
			t.Errorf("%d model calls, ended %+v", len(m.Prompts()), outcome(t, w, 2))
		}
	})
	story(t, "segments that resume a wait do not use up limits.segments, nor does waiting use active time", func(t *testing.T) {
		w := segmenttest.New(t, deskWith(func(s *contract.Snapshot) { s.Agent.Limits.Segments, s.Agent.Limits.ActiveSeconds = 1, 300 }))
		m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("refund", `{"n":1}`)), segmenttest.Calls(segmenttest.Call("refund", `{"n":2}`)), segmenttest.Says("ok").Takes(time.Second))
		for n := range 2 {
			done(t, w, m)
			time.Sleep(24 * time.Hour)
			answer(w, outcome(t, w, n).Wait.Asks[0], v1alpha1.ApprovalApproved)
		}
		done(t, w, m)
		if got := outcome(t, w, 2); got.Result != "ok" || w.Run().Active > 5*time.Second {
			t.Errorf("ended %+v after %s of active time", got, w.Run().Active)
		}
	})
	story(t, "a remainder of one sends one of ten writes", func(t *testing.T) {
		w := segmenttest.New(t, deskWith(func(s *contract.Snapshot) { s.Agent.Limits.ToolCalls = 1 }))
		w.Store.Policy(allow)
		var ten []segment.ProposedCall
		for range 10 {
			ten = append(ten, segmenttest.Call("note", `{}`))
		}
		done(t, w, segmenttest.Script(segmenttest.Calls(ten...)))
		got := outcome(t, w, 0)
		if got.Yield != contract.YieldCeiling || got.Message != "limits.toolCalls: 1 of 1 used" || got.Result == "" || len(w.Tools.Calls()) != 1 {
			t.Errorf("ended %+v after %v", got, w.Tools.Calls())
		}
	})
	story(t, "people are asked about no more calls than the limits allow", func(t *testing.T) {
		w := segmenttest.New(t, deskWith(func(s *contract.Snapshot) { s.Agent.Limits.ToolCalls = 2 }))
		done(t, w, segmenttest.Script(segmenttest.Calls(segmenttest.Call("note", `{"n":1}`), segmenttest.Call("note", `{"n":2}`), segmenttest.Call("note", `{"n":3}`))))
		if got := len(outcome(t, w, 0).Wait.Asks); got != 2 {
			t.Errorf("asked about %d", got)
		}
	})
	story(t, "active time that is used up within a turn ends the run before the next call", func(t *testing.T) {
		w := segmenttest.New(t, deskWith(func(s *contract.Snapshot) { s.Agent.Limits.ActiveSeconds = 30 }))
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			time.Sleep(40 * time.Second)
			return segment.CallResult{Kind: segment.ResultAnswered, Text: "done"}, nil
		}
		done(t, w, segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{}`), segmenttest.Call("get", `{"n":2}`))))
		if got := outcome(t, w, 0); got.Yield != contract.YieldCeiling || !strings.HasPrefix(got.Message, "limits.activeSeconds") || len(w.Tools.Calls()) != 1 {
			t.Errorf("ended %+v after %v", got, w.Tools.Calls())
		}
	})
	story(t, "an answer with too many calls is refused whole", func(t *testing.T) {
		w := segmenttest.New(t, deskWith(func(s *contract.Snapshot) { s.Agent.Limits.ToolCalls = 1000 }))
		var many []segment.ProposedCall
		for range 65 {
			many = append(many, segmenttest.Call("get", `{}`))
		}
		m := segmenttest.Script(segmenttest.Calls(many...), segmenttest.Says("ok"))
		done(t, w, m)
		if got := results(m); len(got) != 65 || !strings.Contains(got[64], "Propose fewer") || len(w.Tools.Calls()) != 0 {
			t.Errorf("told %d results, called %v", len(got), w.Tools.Calls())
		}
	})
	story(t, "after a call whose outcome nobody knows, the tool is asked about whatever the policy allows; reads are not", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		w.Store.Policy(allow)
		w.Tools.Do = func(_ context.Context, p gate.Permit) (segment.CallResult, error) {
			if p.Tool().Tool == "refund" {
				return segment.CallResult{Kind: segment.ResultIndeterminate, Text: "unknown"}, nil
			}
			return segment.CallResult{Kind: segment.ResultAnswered, Text: "done"}, nil
		}
		m := segmenttest.Script(
			segmenttest.Calls(segmenttest.Call("refund", `{"n":1}`)),
			segmenttest.Calls(segmenttest.Call("get", `{}`), segmenttest.Call("note", `{}`), segmenttest.Call("refund", `{"n":2}`)))
		done(t, w, m)
		wait := outcome(t, w, 0).Wait
		if wait == nil || len(wait.Asks) != 1 || wait.Asks[0].Tool != "crm/refund" || wait.Asks[0].Pool != "default" ||
			!strings.Contains(wait.Asks[0].Note, "Nobody knows") {
			t.Fatalf("waits for %+v", wait)
		}
		if diff := cmp.Diff([]string{`refund{"n":1}`, `get{}`, `note{}`}, w.Tools.Calls()); diff != "" {
			t.Error(diff)
		}
	})
	story(t, "an unknown tool ends the run before anything of its turn is called", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		done(t, w, segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{}`), segmenttest.Call("rm", `{}`))))
		if got := outcome(t, w, 0); got.Code != v1alpha1.ReasonUnknownTool || len(w.Tools.Calls()) != 0 {
			t.Errorf("ended %+v after %v", got, w.Tools.Calls())
		}
	})
	story(t, "malformed and cut arguments are never dispatched, and the model is told", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		cut := segmenttest.Calls(segmenttest.Call("get", `{"id":1}`))
		cut.Answer.Finish = segment.FinishLength
		m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{"id":`)), cut, segmenttest.Says("ok"))
		done(t, w, m)
		if got := results(m); len(got) != 2 || len(w.Tools.Calls()) != 0 || outcome(t, w, 0).Result != "ok" {
			t.Errorf("told %q, called %v, ended %+v", got, w.Tools.Calls(), outcome(t, w, 0))
		}
	})
	story(t, "a failure is told to the model, or ends the run where the definition says so", func(t *testing.T) {
		fails := func(context.Context, gate.Permit) (segment.CallResult, error) {
			return segment.CallResult{Kind: segment.ResultFailed, Code: "ToolFailed", Text: "no such customer"}, nil
		}
		w := segmenttest.New(t, desk)
		w.Tools.Do = fails
		m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{}`)), segmenttest.Says("none"))
		done(t, w, m)
		if got := results(m); len(got) != 1 || got[0] != "no such customer" {
			t.Errorf("told %q", got)
		}
		w = segmenttest.New(t, deskWith(func(s *contract.Snapshot) { s.Agent.OnToolFailure = v1alpha1.ToolFailureFailRun }))
		w.Tools.Do = fails
		done(t, w, segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{}`), segmenttest.Call("get", `{}`))))
		if got := outcome(t, w, 0); got.Code != v1alpha1.ReasonToolFailed || len(w.Tools.Calls()) != 1 {
			t.Errorf("ended %+v after %v", got, w.Tools.Calls())
		}
	})
	story(t, "a run that falls silent after its work has a result", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		done(t, w, segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{}`)), segmenttest.Says("")))
		if got := outcome(t, w, 0); got.Yield != contract.YieldCompleted || got.Result != "The agent gave no answer. It took 2 turns and made 1 tool calls." {
			t.Errorf("ended %+v", got)
		}
	})
}

func TestCallsAndTrouble(t *testing.T) {
	killed := func(context.Context, gate.Permit) (segment.CallResult, error) {
		return segment.CallResult{}, segmenttest.ErrKilled
	}
	for tool, want := range map[string]struct {
		calls int
		told  string
	}{
		"get":    {2, "done"},
		"refund": {1, "Whether it took effect is unknown"},
	} {
		story(t, "a process killed between intent and result: "+tool, func(t *testing.T) {
			w := segmenttest.New(t, desk)
			w.Store.Policy(allow)
			m := segmenttest.Script(segmenttest.Calls(segmenttest.Call(tool, `{}`)), segmenttest.Says("ok"))
			w.Tools.Do = killed
			if _, err := w.Segment(t.Context(), m, nil); err == nil {
				t.Fatal("it survived")
			}
			w.Tools.Do = nil
			time.Sleep(contract.LeaseTTL + time.Second)
			done(t, w, m)
			if got := results(m); len(got) != 1 || !strings.Contains(got[0], want.told) || len(w.Tools.Calls()) != want.calls || len(m.Prompts()) != 2 {
				t.Errorf("told %q, called %v", got, w.Tools.Calls())
			}
		})
	}
	story(t, "a policy that denies reaches the next call of a run in flight", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		w.Store.Policy(allow)
		first := true
		w.Tools.Before = func(gate.Permit) error { // between the judgement and the intent
			if first {
				first = false
				w.Store.Policy(deny)
			}
			return nil
		}
		m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("note", `{}`)), segmenttest.Says("ok"))
		done(t, w, m)
		if got := results(m); len(got) != 1 || !strings.Contains(got[0], "support/default/none") || len(w.Tools.Calls()) != 0 {
			t.Errorf("told %q, called %v", got, w.Tools.Calls())
		}
	})
	story(t, "a policy that denies wins against an approval", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("refund", `{}`)), segmenttest.Says("ok"))
		done(t, w, m)
		answer(w, outcome(t, w, 0).Wait.Asks[0], v1alpha1.ApprovalApproved)
		w.Store.Policy(deny)
		done(t, w, m)
		if len(w.Tools.Calls()) != 0 {
			t.Errorf("called %v", w.Tools.Calls())
		}
	})
	story(t, "a cancel between judgement and intent keeps the call from beginning", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		w.Tools.Before = func(gate.Permit) error {
			w.Store.Cancel(w.Snapshot.Run.UID)
			return nil
		}
		done(t, w, segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{}`))))
		if got := outcome(t, w, 0); got.Yield != contract.YieldCancelled || len(w.Tools.Calls()) != 0 {
			t.Errorf("ended %+v after %v", got, w.Tools.Calls())
		}
	})
	story(t, "a cancel during a call lets it end, and nothing follows", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			w.Store.Cancel(w.Snapshot.Run.UID)
			time.Sleep(20 * time.Second) // longer than a beat, which sees the cancel
			return segment.CallResult{Kind: segment.ResultAnswered, Text: "done"}, nil
		}
		done(t, w, segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{}`), segmenttest.Call("get", `{}`))))
		if got := outcome(t, w, 0); got.Yield != contract.YieldCancelled || len(w.Tools.Calls()) != 1 {
			t.Errorf("ended %+v after %v", got, w.Tools.Calls())
		}
	})
	story(t, "a call that may not end before the hard timer is left to the next segment", func(t *testing.T) {
		w := segmenttest.New(t, func(s *contract.Snapshot) {
			segmenttest.Offer(s, map[string]v1alpha1.Effect{"get": v1alpha1.EffectRead}, func(c *v1alpha1.CompiledTool) { c.TimeoutSeconds = 200 })
		})
		m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{}`)), segmenttest.Says("ok"))
		done(t, w, m)
		done(t, w, m)
		if outcome(t, w, 0).Yield != contract.YieldCheckpoint || outcome(t, w, 1).Result != "ok" || len(w.Tools.Calls()) != 1 {
			t.Errorf("%+v after %v", w.Run().Outcomes, w.Tools.Calls())
		}
	})
	story(t, "a contract that has changed ends the run with its name", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		w.Tools.Before = func(gate.Permit) error {
			return &segment.EndError{Code: v1alpha1.ReasonContractChanged, Message: "crm/get is another one"}
		}
		done(t, w, segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{}`))))
		if got := outcome(t, w, 0); got.Code != v1alpha1.ReasonContractChanged || got.Message != "crm/get is another one" {
			t.Errorf("ended %+v", got)
		}
	})
	story(t, "a Secret that is not there is a fault, and the call is made by the next attempt", func(t *testing.T) {
		w := segmenttest.New(t, desk)
		w.Tools.Before = func(gate.Permit) error {
			return &segment.FaultError{Fault: contract.Fault{Code: contract.FaultSecretMissing, Message: "no key"}}
		}
		m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("get", `{}`)), segmenttest.Says("ok"))
		fault, err := w.Segment(t.Context(), m, nil)
		if err != nil || fault == nil || fault.Code != contract.FaultSecretMissing {
			t.Fatalf("left with %+v, %v", fault, err)
		}
		w.Tools.Before = nil
		done(t, w, m)
		if got := outcome(t, w, 0); got.Result != "ok" || len(w.Tools.Calls()) != 1 {
			t.Errorf("ended %+v after %v", got, w.Tools.Calls())
		}
	})
	story(t, "a frozen contract that is not the pinned one ends the run once", func(t *testing.T) {
		w := segmenttest.New(t, deskWith(func(s *contract.Snapshot) { s.Tools[0].Description = "Does something else." }))
		m := segmenttest.Script(segmenttest.Says("ok"))
		done(t, w, m)
		if got := outcome(t, w, 0); got.Code != v1alpha1.ReasonIncompatibleSession || len(m.Prompts()) != 0 {
			t.Errorf("ended %+v after %d model calls", got, len(m.Prompts()))
		}
	})
}
