package segment_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
)

// rule is an agent whose definition says what follows when nobody knows, and whose tool refund has a probe if probed.
func rule(r v1alpha1.OnIndeterminate, probed bool) func(*contract.Snapshot) {
	return func(s *contract.Snapshot) {
		s.Agent.OnIndeterminate = r
		segmenttest.Offer(s, map[string]v1alpha1.Effect{"refund": v1alpha1.EffectSend}, func(t *v1alpha1.CompiledTool) {
			if probed {
				t.Probe = v1alpha1.CompiledProbe{
					Tool: "find", Digest: t.Digest, Arguments: `{'key': key, 'n': args.n}`, Happened: `answer.paid`, TimeoutSeconds: 10, MaxResultBytes: 4096,
				}
			}
		})
	}
}

// How the outcome of the first call is lost.
var (
	// killed dies in the call, and is seen to have ended.
	killed = loss{dies: true, seen: true}
	// silent dies in the call, and nobody sees it end.
	silent = loss{dies: true}
	// unanswered gets no answer and lives.
	unanswered = loss{}
)

type loss struct{ dies, seen bool }

// lost has a run lose the outcome of its call refund{"n":1}, and goes on until the run waits or ends. Every later call answers "paid".
func (l loss) run(t *testing.T, w *segmenttest.World, m segment.Model) {
	t.Helper()
	w.Store.Policy(allow)
	w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
		if l.dies {
			return segment.CallResult{}, segmenttest.ErrKilled
		}
		if len(w.Tools.Calls()) > 1 {
			return paid, nil
		}
		return segment.CallResult{Kind: segment.ResultIndeterminate, Text: "The server was silent."}, nil
	}
	if l.dies {
		if _, err := w.Segment(t.Context(), m, nil); !errors.Is(err, segmenttest.ErrKilled) {
			t.Fatalf("it survived: %v", err)
		}
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) { return paid, nil }
		if l.seen {
			w.Store.Terminated(w.Snapshot.Run.UID)
		} else {
			time.Sleep(contract.LeaseTTL + time.Second)
		}
	}
	done(t, w, m)
}

var paid = segment.CallResult{Kind: segment.ResultAnswered, Text: "paid"}

// word says what came of the call that the run waits for.
func word(t *testing.T, w *segmenttest.World, n int, phase v1alpha1.ApprovalPhase) {
	t.Helper()
	wait := outcome(t, w, n).Wait
	if wait == nil || len(wait.Asks) != 1 || wait.Asks[0].Type != v1alpha1.ApprovalIndeterminate {
		t.Fatalf("segment %d does not ask what came of a call: %+v", n, outcome(t, w, n))
	}
	d := contract.Delivery{
		Type: v1alpha1.ApprovalIndeterminate, Request: types.UID(fmt.Sprint("q", n)), Digest: wait.Asks[0].Digest, Seat: 1, Seats: 1, Phase: phase,
	}
	if phase != v1alpha1.ApprovalExpired {
		d.By, d.Reason = "alice", "looked it up."
	}
	w.Store.Decide(w.Snapshot.Run.UID, d)
	if !wait.Over(w.Run().Inbox) {
		t.Fatal("the wait goes on")
	}
}

func refunded() *segmenttest.Model {
	return segmenttest.Script(segmenttest.Calls(segmenttest.Call("refund", `{"n":1}`)), segmenttest.Says("ok"))
}

// settledAs checks how often the tool was called, and what is written of the call.
func settledAs(t *testing.T, w *segmenttest.World, calls int, kind segment.ResultKind, says string) {
	t.Helper()
	c := w.Run().Journal[segment.CallKey{}]
	if c.Result == nil || c.Result.Kind != kind || !strings.Contains(c.Result.Text, says) || len(w.Tools.Calls()) != calls {
		t.Errorf("settled %+v after %v, want %s with %q after %d calls", c.Result, w.Tools.Calls(), kind, says, calls)
	}
}

func TestWhatCameOfACallIsAsked(t *testing.T) {
	type row struct {
		of    loss
		says  v1alpha1.ApprovalPhase
		calls int
		kind  segment.ResultKind
		told  string
	}
	for name, tc := range map[string]row{
		"it happened":                             {killed, v1alpha1.ApprovalHappened, 1, segment.ResultAnswered, "alice says that it took effect: looked it up. Do not repeat it"},
		"it did not happen":                       {killed, v1alpha1.ApprovalNotHappened, 1, segment.ResultFailed, "alice says that it did not take effect"},
		"try again":                               {killed, v1alpha1.ApprovalRetry, 2, segment.ResultAnswered, "paid"},
		"nobody says anything":                    {killed, v1alpha1.ApprovalExpired, 1, segment.ResultIndeterminate, "nobody said so in time"},
		"it happened, of one that got no answer":  {unanswered, v1alpha1.ApprovalHappened, 1, segment.ResultAnswered, "took effect"},
		"try again, of one that got no answer":    {unanswered, v1alpha1.ApprovalRetry, 2, segment.ResultAnswered, "paid"},
		"it happened, of one that may still work": {silent, v1alpha1.ApprovalHappened, 1, segment.ResultAnswered, "took effect"},
		"try again, of one that may still work":   {silent, v1alpha1.ApprovalRetry, 1, segment.ResultIndeterminate, "may still be at work"},
	} {
		story(t, name, func(t *testing.T) {
			w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, false))
			m := refunded()
			tc.of.run(t, w, m)
			if c := w.Run().Journal[segment.CallKey{}]; c.Result != nil || !c.Begun {
				t.Fatalf("the call is not left open while people are asked: %+v", c)
			}
			word(t, w, 0, tc.says)
			done(t, w, m)
			settledAs(t, w, tc.calls, tc.kind, tc.told)
			if got := outcome(t, w, 1); got.Result != "ok" || len(m.Prompts()) != 2 {
				t.Errorf("ended %+v after %d model calls", got, len(m.Prompts()))
			}
		})
	}
	story(t, "the question says who is asked, about what and what is known", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, false))
		silent.run(t, w, refunded())
		got := outcome(t, w, 0).Wait.Asks[0]
		want := contract.Ask{
			Type: v1alpha1.ApprovalIndeterminate, Tool: "crm/refund", Effect: v1alpha1.EffectSend, Arguments: `{"n":1}`, Digest: contract.Digest([]byte(`{"n":1}`)),
			Note: "The process that made this call was lost before it had an answer. The process that made it was not seen to end, so that Retry does not make it again.",
			Pool: "default", Seats: 1, ExpiresSeconds: 86400,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	story(t, "each 'try again' is good for one try, and what came of that is asked anew", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, false))
		m := refunded()
		unanswered.run(t, w, m)
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			return segment.CallResult{Kind: segment.ResultIndeterminate, Text: "silent again"}, nil
		}
		word(t, w, 0, v1alpha1.ApprovalRetry)
		done(t, w, m)
		if len(w.Tools.Calls()) != 2 {
			t.Fatalf("called %v", w.Tools.Calls())
		}
		if diff := cmp.Diff([]types.UID{"q0"}, w.Run().Intents[segment.CallKey{}].Approvals); diff != "" {
			t.Error(diff)
		}
		word(t, w, 1, v1alpha1.ApprovalNotHappened)
		done(t, w, m)
		settledAs(t, w, 2, segment.ResultFailed, "did not take effect")
	})
	story(t, "a process that dies in the second try does not make a third by the same word", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, false))
		m := refunded()
		killed.run(t, w, m)
		word(t, w, 0, v1alpha1.ApprovalRetry)
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			return segment.CallResult{}, segmenttest.ErrKilled
		}
		if _, err := w.Segment(t.Context(), m, nil); !errors.Is(err, segmenttest.ErrKilled) {
			t.Fatal(err)
		}
		w.Store.Terminated(w.Snapshot.Run.UID)
		done(t, w, m)
		if len(w.Tools.Calls()) != 2 || outcome(t, w, 1).Yield != contract.YieldWaiting {
			t.Errorf("called %v, ended %+v", w.Tools.Calls(), outcome(t, w, 1))
		}
	})
	story(t, "a word that is used up stays so though a probe has the call made once more", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, true))
		m, deaf := refunded(), func(gate.ProbePermit) (segment.CallResult, error) {
			return segment.CallResult{Kind: segment.ResultFailed}, nil
		}
		w.Tools.Ask = deaf
		killed.run(t, w, m)
		word(t, w, 0, v1alpha1.ApprovalRetry)
		w.Tools.Ask = func(gate.ProbePermit) (segment.CallResult, error) {
			return segment.CallResult{Kind: segment.ResultAnswered, Text: `{"paid":false}`}, nil
		}
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			if len(w.Tools.Calls()) == 2 {
				return segment.CallResult{Kind: segment.ResultIndeterminate, Text: "silent"}, nil
			}
			return segment.CallResult{}, segmenttest.ErrKilled
		}
		if _, err := w.Segment(t.Context(), m, nil); !errors.Is(err, segmenttest.ErrKilled) {
			t.Fatal(err)
		}
		w.Store.Terminated(w.Snapshot.Run.UID)
		w.Tools.Ask, w.Tools.Do = deaf, func(context.Context, gate.Permit) (segment.CallResult, error) { return paid, nil }
		done(t, w, m)
		if len(w.Tools.Calls()) != 3 || outcome(t, w, 1).Wait == nil {
			t.Errorf("called %v, ended %+v", w.Tools.Calls(), outcome(t, w, 1))
		}
	})
	story(t, "an approval of the call is no word about what came of it", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, false))
		m := refunded()
		killed.run(t, w, m)
		a := outcome(t, w, 0).Wait.Asks[0]
		answer(w, a, v1alpha1.ApprovalApproved)
		if outcome(t, w, 0).Wait.Over(w.Run().Inbox) {
			t.Error("the wait is over")
		}
		done(t, w, m)
		if len(w.Tools.Calls()) != 1 || outcome(t, w, 1).Wait == nil {
			t.Errorf("called %v, ended %+v", w.Tools.Calls(), outcome(t, w, 1))
		}
	})
	story(t, "a policy that denies wins against 'try again'", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, false))
		m := refunded()
		killed.run(t, w, m)
		word(t, w, 0, v1alpha1.ApprovalRetry)
		w.Store.Policy(deny)
		done(t, w, m)
		if len(w.Tools.Calls()) != 1 || outcome(t, w, 1).Wait == nil {
			t.Errorf("called %v, ended %+v", w.Tools.Calls(), outcome(t, w, 1))
		}
	})
}

func TestARunThatFailsOverACall(t *testing.T) {
	for name, of := range map[string]loss{"killed": killed, "unanswered": unanswered} {
		story(t, name, func(t *testing.T) {
			w := segmenttest.New(t, rule(v1alpha1.IndeterminateFailRun, false))
			m := refunded()
			of.run(t, w, m)
			settledAs(t, w, 1, segment.ResultIndeterminate, "")
			if got := outcome(t, w, 0); got.Yield != contract.YieldFailed || got.Code != v1alpha1.ReasonCallIndeterminate || len(m.Prompts()) != 1 {
				t.Errorf("ended %+v after %d model calls", got, len(m.Prompts()))
			}
		})
	}
}

// TestDoubtful holds which tools are asked about after a call whose outcome was lost: those of which nobody has found out more.
func TestDoubtful(t *testing.T) {
	for says, asks := range map[v1alpha1.ApprovalPhase]bool{
		v1alpha1.ApprovalHappened: false, v1alpha1.ApprovalNotHappened: false, v1alpha1.ApprovalRetry: false, v1alpha1.ApprovalExpired: true,
	} {
		story(t, string(says), func(t *testing.T) {
			w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, false))
			m := segmenttest.Script(segmenttest.Calls(segmenttest.Call("refund", `{"n":1}`)), segmenttest.Calls(segmenttest.Call("refund", `{"n":2}`)), segmenttest.Says("ok"))
			killed.run(t, w, m)
			word(t, w, 0, says)
			done(t, w, m)
			got := outcome(t, w, 1)
			if asked := got.Wait != nil && got.Wait.Asks[0].Type == "" && got.Wait.Asks[0].Turn == 1; asked != asks {
				t.Errorf("ended %+v", got)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	reply := func(text string) func(gate.ProbePermit) (segment.CallResult, error) {
		return func(gate.ProbePermit) (segment.CallResult, error) {
			return segment.CallResult{Kind: segment.ResultAnswered, Text: text}, nil
		}
	}
	fails := func(gate.ProbePermit) (segment.CallResult, error) {
		return segment.CallResult{Kind: segment.ResultFailed, Code: "NoAnswer", Text: "down"}, nil
	}
	for name, tc := range map[string]struct {
		of     loss
		answer func(gate.ProbePermit) (segment.CallResult, error)
		calls  int
		kind   segment.ResultKind
		told   string
	}{
		"has seen it":                                   {killed, reply(`{"paid":true,"id":"R-7"}`), 1, segment.ResultAnswered, `{"paid":true,"id":"R-7"}`},
		"has not seen it":                               {killed, reply(`{"paid":false}`), 2, segment.ResultAnswered, "paid"},
		"has seen what may still be at work":            {silent, reply(`{"paid":true}`), 1, segment.ResultAnswered, "It took effect"},
		"has not seen what may still be at work":        {silent, reply(`{"paid":false}`), 1, segment.ResultIndeterminate, "unknown"},
		"has seen one that got no answer":               {unanswered, reply(`{"paid":true}`), 1, segment.ResultAnswered, "It took effect"},
		"has not seen one that got no answer":           {unanswered, reply(`{"paid":false}`), 2, segment.ResultAnswered, "paid"},
		"fails":                                         {killed, fails, 1, segment.ResultIndeterminate, "unknown"},
		"fails over one that got no answer":             {unanswered, fails, 1, segment.ResultIndeterminate, "The server was silent."},
		"answers what its expression cannot read":       {killed, reply(`paid`), 1, segment.ResultIndeterminate, "unknown"},
		"answers what is neither true nor false":        {killed, reply(`{"paid":"yes"}`), 1, segment.ResultIndeterminate, "unknown"},
		"is cut, so that it is no JSON":                 {killed, reply(`{"paid":true,"note":"xx` + "\n[cut: 20 of 90 bytes are shown]"), 1, segment.ResultIndeterminate, "unknown"},
		"has seen it, though two answers stand in line": {killed, reply(`{"paid":true} {"paid":false}`), 1, segment.ResultIndeterminate, "unknown"},
	} {
		story(t, name, func(t *testing.T) {
			w := segmenttest.New(t, rule(v1alpha1.IndeterminateTellModel, true))
			w.Tools.Ask = tc.answer
			m := refunded()
			tc.of.run(t, w, m)
			settledAs(t, w, tc.calls, tc.kind, tc.told)
			if got := outcome(t, w, 0); got.Result != "ok" {
				t.Errorf("ended %+v", got)
			}
			probes := w.Tools.Probes()
			if len(probes) != 1 || !strings.HasPrefix(probes[0], `find{"key":"`) || !strings.HasSuffix(probes[0], `","n":1}`) {
				t.Errorf("asked %q", probes)
			}
			if i := w.Run().Intents[segment.CallKey{}]; len(probes) == 1 && !strings.Contains(probes[0], `"`+i.Key+`"`) {
				t.Errorf("asked %q about the key %q", probes[0], i.Key)
			}
		})
	}
	story(t, "that never sees a call has it made as often as anything is tried", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateTellModel, true))
		w.Tools.Ask = reply(`{"paid":false}`)
		w.Store.Policy(allow)
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			return segment.CallResult{Kind: segment.ResultIndeterminate, Text: "silent"}, nil
		}
		done(t, w, refunded())
		settledAs(t, w, 3, segment.ResultIndeterminate, "silent")
	})
	story(t, "that could not tell is told to the people who are asked", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, true))
		w.Tools.Ask = fails
		killed.run(t, w, refunded())
		if note := outcome(t, w, 0).Wait.Asks[0].Note; !strings.Contains(note, "The probe of the tool could not tell: it did not answer.") {
			t.Errorf("noted %q", note)
		}
	})
	story(t, "that the policy denies is not asked", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateTellModel, true))
		killed.run(t, w, refunded()) // under a policy that allows all
		w = segmenttest.New(t, rule(v1alpha1.IndeterminateTellModel, true))
		w.Store.Policy(contract.PolicySet{Sources: []contract.PolicySource{{Namespace: "support", Name: "default", Rules: []v1alpha1.PolicyRule{
			{Name: "all", Match: v1alpha1.PolicyMatch{Tools: []string{"crm/refund"}}, Action: v1alpha1.PolicyAllow},
			{Name: "none", Match: v1alpha1.PolicyMatch{Tools: []string{"crm/find"}}, Action: v1alpha1.PolicyDeny},
		}}}})
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			return segment.CallResult{Kind: segment.ResultIndeterminate, Text: "silent"}, nil
		}
		done(t, w, refunded())
		if len(w.Tools.Probes()) != 0 {
			t.Errorf("asked %q", w.Tools.Probes())
		}
		settledAs(t, w, 1, segment.ResultIndeterminate, "silent")
	})
	story(t, "whose key is not there is a fault, and the next attempt asks", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateTellModel, true))
		w.Store.Policy(allow)
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			return segment.CallResult{Kind: segment.ResultIndeterminate, Text: "silent"}, nil
		}
		w.Tools.Ask = func(gate.ProbePermit) (segment.CallResult, error) {
			return segment.CallResult{}, &segment.FaultError{Fault: contract.Fault{Code: contract.FaultSecretMissing}}
		}
		m := refunded()
		if fault, err := w.Segment(t.Context(), m, nil); err != nil || fault == nil || fault.Code != contract.FaultSecretMissing {
			t.Fatal(fault, err)
		}
		w.Tools.Ask = reply(`{"paid":true}`)
		done(t, w, m)
		settledAs(t, w, 1, segment.ResultAnswered, "It took effect")
	})
}

func TestARunThatEndsOverACallInDoubt(t *testing.T) {
	story(t, "because it is cancelled", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, true))
		w.Store.Policy(allow)
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			w.Store.Cancel(w.Snapshot.Run.UID)
			time.Sleep(20 * time.Second) // longer than a beat, which sees the cancel
			return segment.CallResult{Kind: segment.ResultIndeterminate, Text: "silent"}, nil
		}
		done(t, w, refunded())
		settledAs(t, w, 1, segment.ResultIndeterminate, "silent")
		if got := outcome(t, w, 0); got.Yield != contract.YieldCancelled || len(w.Tools.Probes()) != 0 {
			t.Errorf("ended %+v, asked %q", got, w.Tools.Probes())
		}
	})
	story(t, "because it is cancelled while the probe is asked, which has seen it", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, true))
		w.Store.Policy(allow)
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			return segment.CallResult{Kind: segment.ResultIndeterminate, Text: "silent"}, nil
		}
		w.Tools.Ask = func(gate.ProbePermit) (segment.CallResult, error) {
			w.Store.Cancel(w.Snapshot.Run.UID)
			time.Sleep(20 * time.Second) // longer than a beat, which sees the cancel
			return segment.CallResult{Kind: segment.ResultAnswered, Text: `{"paid":true}`}, nil
		}
		done(t, w, refunded())
		settledAs(t, w, 1, segment.ResultAnswered, "It took effect")
		if got := outcome(t, w, 0); got.Yield != contract.YieldCancelled {
			t.Errorf("ended %+v", got)
		}
	})
	story(t, "because its tool is no longer what it was", func(t *testing.T) {
		w := segmenttest.New(t, rule(v1alpha1.IndeterminateAsk, false))
		m := refunded()
		killed.run(t, w, m)
		word(t, w, 0, v1alpha1.ApprovalRetry)
		w.Tools.Resent = func(j segment.Recorder) error { // as the invoker does when it cannot prepare what may have been sent
			if err := j.Settle(t.Context(), segment.CallResult{Kind: segment.ResultIndeterminate, Text: "an earlier attempt may have sent it"}); err != nil {
				return err
			}
			return &segment.EndError{Code: v1alpha1.ReasonContractChanged, Message: "crm/refund is another one"}
		}
		done(t, w, m)
		settledAs(t, w, 1, segment.ResultIndeterminate, "an earlier attempt")
		if got := outcome(t, w, 1); got.Code != v1alpha1.ReasonContractChanged {
			t.Errorf("ended %+v", got)
		}
	})
}

// TestACallWithAKey is made again by itself, until that is no use: then it is in doubt like any other.
func TestACallWithAKey(t *testing.T) {
	keyed := func(s *contract.Snapshot) {
		rule(v1alpha1.IndeterminateAsk, false)(s)
		s.Agent.Tools[0].Idempotency = v1alpha1.IdempotencyKey
	}
	story(t, "whose process was lost", func(t *testing.T) {
		w := segmenttest.New(t, keyed)
		silent.run(t, w, refunded())
		settledAs(t, w, 2, segment.ResultAnswered, "paid")
	})
	story(t, "that nothing answers", func(t *testing.T) {
		w := segmenttest.New(t, keyed)
		m := refunded()
		unanswered.run(t, w, m)
		word(t, w, 0, v1alpha1.ApprovalHappened)
		done(t, w, m)
		settledAs(t, w, 1, segment.ResultAnswered, "took effect")
	})
	story(t, "that is refused before it is made again", func(t *testing.T) {
		w := segmenttest.New(t, keyed)
		m := refunded()
		w.Store.Policy(allow)
		w.Tools.Do = func(context.Context, gate.Permit) (segment.CallResult, error) {
			return segment.CallResult{}, segmenttest.ErrKilled
		}
		_, _ = w.Segment(t.Context(), m, nil)
		w.Store.Policy(deny)
		w.Store.Terminated(w.Snapshot.Run.UID)
		done(t, w, m)
		word(t, w, 0, v1alpha1.ApprovalHappened)
		done(t, w, m)
		settledAs(t, w, 1, segment.ResultAnswered, "took effect")
	})
}
