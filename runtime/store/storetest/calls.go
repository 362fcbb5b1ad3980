package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

var lawsOfCalls = map[string]func(*testing.T, Fixture){
	"a call is begun, then settled, and a claim reads it so":                          intentThenSettle,
	"the intent of a call of a cancelled run is refused, and what is begun settles":   cancelledIntent,
	"an intent under any policy but the newest is refused":                            oldPolicy,
	"of what stands against an intent the fence comes first, then the cancel":         whyNoIntent,
	"a stale generation can neither begin nor settle what the next one holds":         staleCalls,
	"an intent that nobody settled passes to the next claim, under the newest policy": orphan,
	"an intent that nobody settled can be settled under the next claim":               orphanSettled,
	"of an intent that nobody settled it is known whether its process is gone":        gone,
	"a settled call can neither be begun nor changed":                                 settledForGood,
	"a call that was begun cannot be begun with other arguments or another key":       otherIntent,
	"a repeated begin or settle adds nothing":                                         repeatedCalls,
	"a begin and a settle whose answer was lost can be repeated":                      lostCalls,
	"a repeated begin is refused once the run is cancelled or the policy has changed": repeatedTooLate,
	"a refused call is settled without an intent":                                     refusedCall,
	"the inbox is read in the order in which it was filled, and each run has its own": inbox,
	"a claim and a session read the newest policy":                                    newestPolicy,
	"each pulse tells the version of the newest policy":                               pulses,
	"a claim counts the segments before it that ended waiting":                        waits,
	"a waiting outcome comes back whole, and can be repeated":                         waitingOutcome,
	"an outcome waits if and only if it says for what":                                waitingForNothing,
	"what Postgres cannot hold is cleaned from calls too":                             cleanedCalls,
	"what is larger than a store holds is cut":                                        boundedCalls,
	"calls that begin and settle at the same time do not hurt each other":             concurrentCalls,
}

// Intent is the intent of a call that was judged without any policy.
func Intent(turn, index int) segment.Intent {
	return segment.Intent{
		CallKey: segment.CallKey{Turn: turn, Index: index}, Tool: "shop/order", Effect: v1alpha1.EffectSend, Idempotency: v1alpha1.IdempotencyKey,
		Digest: digestOf(turn, index), Key: fmt.Sprintf("key-%d-%d", turn, index),
	}
}

// Settlement settles the call of Intent.
func Settlement(turn, index int, kind segment.ResultKind) segment.Settlement {
	return segment.Settlement{
		CallKey: segment.CallKey{Turn: turn, Index: index}, Tool: "shop/order", Effect: v1alpha1.EffectSend, Digest: digestOf(turn, index),
		Result: segment.CallResult{Kind: kind, Code: "Code", Text: "It <is> so.\n", Bytes: 1 << 40},
	}
}

func digestOf(turn, index int) string { return contract.Digest(fmt.Appendf(nil, "%d/%d", turn, index)) }

func rules(name string) contract.PolicySet {
	return contract.PolicySet{Schema: contract.PolicySchema, Sources: []contract.PolicySource{{Namespace: "team", Name: name}}}
}

// call is what the journal holds of Intent, settled if result is not nil.
func call(turn, index int, generation int64, result *segment.CallResult) segment.Call {
	i := Intent(turn, index)
	return segment.Call{
		CallKey: i.CallKey, Tool: i.Tool, Effect: i.Effect, Idempotency: i.Idempotency, Digest: i.Digest, Generation: generation, Begun: true, Result: result,
	}
}

func begun(t *testing.T, s segment.Session, i segment.Intent) segment.Pulse {
	t.Helper()
	p, err := s.Begin(t.Context(), i)
	if err != nil {
		t.Fatalf("beginning: %v", err)
	}
	return p
}

func settled(t *testing.T, s segment.Session, e segment.Settlement) segment.Pulse {
	t.Helper()
	p, err := s.Settle(t.Context(), e)
	if err != nil {
		t.Fatalf("settling: %v", err)
	}
	return p
}

// journal is what another claim reads. The claim before it ends.
func (f Fixture) journal(t *testing.T, run types.UID) segment.Journal {
	t.Helper()
	f.lapse(t, run)
	c, _ := f.claim(t, run, segment.Newest)
	return c.Journal
}

func intentThenSettle(t *testing.T, f Fixture) {
	run := f.admitted(t)
	c, s := f.claim(t, run, 0)
	same(t, c.Journal, segment.Journal{})
	i := Intent(2, 1)
	i.Rule, i.Approvals, i.By = "team/policy/rule", []types.UID{types.UID(uuid.NewString()), types.UID(uuid.NewString())}, []string{"jane", "bob"}
	begun(t, s, i)
	begun(t, s, Intent(3, 0))
	e := Settlement(2, 1, segment.ResultAnswered)
	settled(t, s, e)
	f.counts(t, run, Count{Calls: 2})
	want := call(2, 1, c.Generation, &e.Result)
	want.Approvals = i.Approvals
	same(t, f.journal(t, run), segment.Journal{
		i.CallKey:           want,
		{Turn: 3, Index: 0}: call(3, 0, c.Generation, nil),
	})
}

func cancelledIntent(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	begun(t, s, Intent(0, 0))
	f.Cancel(t, run)
	_, err := s.Begin(t.Context(), Intent(0, 1))
	is(t, err, segment.ErrCancelled)
	f.counts(t, run, Count{Calls: 1})
	same(t, settled(t, s, Settlement(0, 0, segment.ResultAnswered)).Cancelled, true)
	settled(t, s, Settlement(0, 1, segment.ResultRefused))
	f.counts(t, run, Count{Calls: 2})
	ok(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCancelled}, nil))
}

func oldPolicy(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	under := func(index int, version int64) segment.Intent {
		i := Intent(0, index)
		i.PolicyVersion = version
		return i
	}
	begun(t, s, under(0, 0))
	for version := int64(1); version <= 3; version++ {
		f.Policy(t, rules("p"))
		for _, other := range []int64{0, version - 1, version + 1} {
			_, err := s.Begin(t.Context(), under(int(version), other))
			is(t, err, segment.ErrPolicyChanged)
		}
		f.counts(t, run, Count{Calls: int(version)})
		begun(t, s, under(int(version), version))
	}
	settled(t, s, Settlement(0, 0, segment.ResultAnswered)) // under whichever policy
}

func whyNoIntent(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, old := f.claim(t, run, 0)
	f.lapse(t, run)
	_, s := f.claim(t, run, 0)
	settled(t, s, Settlement(0, 0, segment.ResultRefused))
	f.Policy(t, rules("p"))
	_, err := s.Begin(t.Context(), Intent(0, 0)) // settled as well
	is(t, err, segment.ErrPolicyChanged)
	f.Cancel(t, run)
	_, err = s.Begin(t.Context(), Intent(0, 0))
	is(t, err, segment.ErrCancelled)
	_, err = old.Begin(t.Context(), Intent(0, 0))
	is(t, err, segment.ErrFenced)
}

func staleCalls(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, old := f.claim(t, run, 0)
	begun(t, old, Intent(0, 0))
	f.lapse(t, run)
	c, s := f.claim(t, run, 0)
	for range 2 {
		for index := range 2 {
			_, err := old.Begin(t.Context(), Intent(0, index))
			is(t, err, segment.ErrFenced)
			_, err = old.Settle(t.Context(), Settlement(0, index, segment.ResultAnswered))
			is(t, err, segment.ErrFenced)
		}
		begun(t, s, Intent(0, 0)) // the second time over it passes to the next claim
	}
	same(t, f.journal(t, run), segment.Journal{{}: call(0, 0, c.Generation, nil)})
}

func orphan(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, old := f.claim(t, run, 0)
	begun(t, old, Intent(0, 0))
	f.lapse(t, run)
	f.Policy(t, rules("p"))
	c, s := f.claim(t, run, 0)
	i := Intent(0, 0)
	_, err := s.Begin(t.Context(), i)
	is(t, err, segment.ErrPolicyChanged)
	i.PolicyVersion, i.Rule = 1, "team/p/rule"
	begun(t, s, i)
	f.counts(t, run, Count{Calls: 1})
	e := Settlement(0, 0, segment.ResultAnswered)
	settled(t, s, e)
	same(t, f.journal(t, run), segment.Journal{{}: call(0, 0, c.Generation, &e.Result)})
}

// gone tells what is known of the process that wrote the newest intent, whatever became of others.
func gone(t *testing.T, f Fixture) {
	look := func(run types.UID) bool {
		return f.journal(t, run)[segment.CallKey{}].Gone
	}
	silent := f.admitted(t) // for longer than its lease, as a paused one is
	_, s := f.claim(t, silent, 0)
	begun(t, s, Intent(0, 0))
	same(t, look(silent), false)

	seen := f.admitted(t)
	_, s = f.claim(t, seen, 0)
	begun(t, s, Intent(0, 0))
	f.Terminated(t, seen)
	same(t, look(seen), true)

	later := f.admitted(t) // the one that came after it was seen to end, and has not begun the call
	_, s = f.claim(t, later, 0)
	begun(t, s, Intent(0, 0))
	f.lapse(t, later)
	f.claim(t, later, 0)
	f.Terminated(t, later)
	same(t, look(later), false)

	passed := f.admitted(t) // it has begun the call anew since
	_, s = f.claim(t, passed, 0)
	begun(t, s, Intent(0, 0))
	f.Terminated(t, passed)
	_, s = f.claim(t, passed, 0)
	begun(t, s, Intent(0, 0))
	same(t, look(passed), false)

	parked := f.admitted(t)
	_, s = f.claim(t, parked, 0)
	begun(t, s, Intent(0, 0))
	ok(t, s.Yield(t.Context(), waiting(), nil))
	same(t, look(parked), true)

	settles := f.admitted(t)
	_, s = f.claim(t, settles, 0)
	begun(t, s, Intent(0, 0))
	settled(t, s, Settlement(0, 0, segment.ResultAnswered))
	f.Terminated(t, settles)
	same(t, look(settles), false) // nobody asks
}

func orphanSettled(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, old := f.claim(t, run, 0)
	begun(t, old, Intent(0, 0))
	f.lapse(t, run)
	c, s := f.claim(t, run, 0)
	e := Settlement(0, 0, segment.ResultIndeterminate)
	e.Tool, e.Effect, e.Digest = "", "", "" // the intent has said so already
	settled(t, s, e)
	_, err := old.Settle(t.Context(), Settlement(0, 0, segment.ResultAnswered))
	is(t, err, segment.ErrFenced)
	same(t, f.journal(t, run), segment.Journal{{}: call(0, 0, c.Generation, &e.Result)})
}

func settledForGood(t *testing.T, f Fixture) {
	run := f.admitted(t)
	c, s := f.claim(t, run, 0)
	begun(t, s, Intent(0, 0))
	first := Settlement(0, 0, segment.ResultAnswered)
	settled(t, s, first)
	for range 2 { // under its claim, and under the next one
		_, err := s.Begin(t.Context(), Intent(0, 0))
		if err == nil {
			t.Error("a settled call was begun again")
		}
		for _, never := range []error{segment.ErrFenced, segment.ErrCancelled, segment.ErrPolicyChanged, segment.ErrUnavailable} {
			if errors.Is(err, never) {
				t.Errorf("beginning a settled call: %v", err)
			}
		}
		other := Settlement(0, 0, segment.ResultFailed)
		other.Result.Text = "something else"
		settled(t, s, other)
		f.lapse(t, run)
		_, s = f.claim(t, run, 0)
	}
	same(t, f.journal(t, run), segment.Journal{{}: call(0, 0, c.Generation, &first.Result)})
}

func otherIntent(t *testing.T, f Fixture) {
	run := f.admitted(t)
	c, s := f.claim(t, run, 0)
	begun(t, s, Intent(0, 0))
	for range 2 { // under its claim, and under the next one
		for _, change := range []func(*segment.Intent){
			func(i *segment.Intent) { i.Digest = digestOf(9, 9) }, func(i *segment.Intent) { i.Key = "another" },
		} {
			i := Intent(0, 0)
			change(&i)
			if _, err := s.Begin(t.Context(), i); err == nil {
				t.Errorf("a call that was begun was begun as %+v", i)
			}
		}
		f.lapse(t, run)
		_, s = f.claim(t, run, 0)
	}
	same(t, f.journal(t, run), segment.Journal{{}: call(0, 0, c.Generation, nil)})
}

func repeatedCalls(t *testing.T, f Fixture) {
	run := f.admitted(t)
	c, s := f.claim(t, run, 0)
	for range 3 {
		begun(t, s, Intent(0, 0))
	}
	first := Settlement(0, 0, segment.ResultAnswered)
	for range 3 {
		settled(t, s, first)
	}
	f.counts(t, run, Count{Calls: 1})
	same(t, f.journal(t, run), segment.Journal{{}: call(0, 0, c.Generation, &first.Result)})
}

func lostCalls(t *testing.T, f Fixture) {
	if f.Lose == nil {
		t.Log("this store loses no answers")
		return
	}
	run := f.admitted(t)
	c, s := f.claim(t, run, 0)
	unavailableOnce(t, f, func() error { _, err := s.Begin(t.Context(), Intent(0, 0)); return err })
	first := Settlement(0, 0, segment.ResultAnswered)
	unavailableOnce(t, f, func() error { _, err := s.Settle(t.Context(), first); return err })
	second := Settlement(0, 1, segment.ResultRefused)
	unavailableOnce(t, f, func() error { _, err := s.Settle(t.Context(), second); return err })
	f.counts(t, run, Count{Calls: 2})
	f.Lose(0)
	_, err := s.Policy(t.Context())
	is(t, err, segment.ErrUnavailable)
	_, err = s.Policy(t.Context())
	ok(t, err)
	same(t, f.journal(t, run)[segment.CallKey{}], call(0, 0, c.Generation, &first.Result))
}

func repeatedTooLate(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	begun(t, s, Intent(0, 0))
	f.Policy(t, rules("p"))
	_, err := s.Begin(t.Context(), Intent(0, 0))
	is(t, err, segment.ErrPolicyChanged)
	f.Cancel(t, run)
	_, err = s.Begin(t.Context(), Intent(0, 0))
	is(t, err, segment.ErrCancelled)
	settled(t, s, Settlement(0, 0, segment.ResultRefused)) // it was begun, and not sent
	f.counts(t, run, Count{Calls: 1})
}

func refusedCall(t *testing.T, f Fixture) {
	run := f.admitted(t)
	c, s := f.claim(t, run, 0)
	e := Settlement(4, 2, segment.ResultRefused)
	settled(t, s, e)
	settled(t, s, e)
	bare := segment.Settlement{CallKey: segment.CallKey{Turn: 4, Index: 3}, Tool: "shop/order", Result: segment.CallResult{Kind: segment.ResultRefused}}
	settled(t, s, bare) // nothing else of it was known
	same(t, f.journal(t, run), segment.Journal{
		e.CallKey:    {CallKey: e.CallKey, Tool: e.Tool, Effect: e.Effect, Digest: e.Digest, Generation: c.Generation, Result: &e.Result},
		bare.CallKey: {CallKey: bare.CallKey, Tool: bare.Tool, Generation: c.Generation, Result: &bare.Result},
	})
}

func delivery(turn, index int, seat int32, phase v1alpha1.ApprovalPhase) contract.Delivery {
	return contract.Delivery{
		Request: types.UID(uuid.NewString()), Turn: turn, Index: index, Digest: digestOf(turn, index), Seat: seat, Seats: 3,
		Phase: phase, By: "jane", Reason: "why <not>\nso",
	}
}

func inbox(t *testing.T, f Fixture) {
	run, other := f.admitted(t), f.admitted(t)
	want := []contract.Delivery{
		delivery(3, 1, 2, v1alpha1.ApprovalApproved), delivery(0, 0, 1, v1alpha1.ApprovalDenied), delivery(3, 1, 1, v1alpha1.ApprovalApproved), {
			Request: types.UID(uuid.NewString()), Turn: 1, Digest: digestOf(1, 0), Seat: 1, Seats: 1, Phase: v1alpha1.ApprovalExpired,
		}, {
			Type: v1alpha1.ApprovalIndeterminate, Request: types.UID(uuid.NewString()), Turn: 3, Index: 1, Digest: digestOf(3, 1), Seat: 1, Seats: 1,
			Phase: v1alpha1.ApprovalRetry, By: "jane",
		},
	}
	for _, d := range want {
		f.Decide(t, run, d)
		f.Decide(t, other, delivery(0, 0, 1, v1alpha1.ApprovalApproved))
	}
	c, _ := f.claim(t, run, 0)
	last := int64(0)
	for i, d := range c.Inbox {
		if d.Seq <= last {
			t.Errorf("delivery %d after %d", d.Seq, last)
		}
		last, c.Inbox[i].Seq = d.Seq, 0
	}
	same(t, c.Inbox, want)
	f.Decide(t, run, delivery(9, 9, 1, v1alpha1.ApprovalApproved))
	f.lapse(t, run)
	c, _ = f.claim(t, run, 0)
	same(t, len(c.Inbox), len(want)+1)
	same(t, c.Inbox[len(want)].Seq > last, true)
	empty, _ := f.claim(t, f.admitted(t), 0)
	same(t, len(empty.Inbox), 0)
}

func newestPolicy(t *testing.T, f Fixture) {
	run := f.admitted(t)
	c, s := f.claim(t, run, 0)
	same(t, c.Policy, contract.Policy{})
	p, err := s.Policy(t.Context())
	ok(t, err)
	same(t, p, contract.Policy{})
	for version := int64(1); version <= 3; version++ {
		set := rules(fmt.Sprint("<p> ", version))
		f.Policy(t, set)
		p, err = s.Policy(t.Context())
		ok(t, err)
		same(t, p, contract.Policy{Version: version, Set: set})
		f.lapse(t, run)
		c, s = f.claim(t, run, 0)
		same(t, c.Policy, p)
	}
}

func pulses(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	for version := range int64(3) {
		n := int(version)
		i := Intent(n, 0)
		i.PolicyVersion = version
		beat, err := s.Beat(t.Context())
		ok(t, err)
		for what, p := range map[string]segment.Pulse{
			"a beat": beat, "an append": appended(t, s, n, Answer(n, "x"), nil), "a repeated append": appended(t, s, n, Answer(n, "x"), nil),
			"a begin": begun(t, s, i), "a settle": settled(t, s, Settlement(n, 0, segment.ResultAnswered)),
		} {
			if p.PolicyVersion != version {
				t.Errorf("%s tells of version %d, want %d", what, p.PolicyVersion, version)
			}
		}
		f.Policy(t, rules("p"))
	}
}

// waiting is an outcome that waits for as much as can be waited for.
func waiting() contract.Outcome {
	return contract.Outcome{Yield: contract.YieldWaiting, Message: "m", Wait: &contract.Wait{Cursor: 7, Asks: []contract.Ask{
		{
			Turn: 1, Index: 2, Tool: "shop/order", Effect: v1alpha1.EffectSend, Arguments: `{"html":"<b>&","nul":"\u0000","half":"\ud800"}`,
			Digest: digestOf(1, 2), Policy: v1alpha1.ApprovalPolicyReference{Name: "p"}, Pool: "finance", Seats: 2, ExpiresSeconds: 3600,
		},
		{Turn: 1, Index: 3, Tool: "shop/refund", Effect: v1alpha1.EffectWrite, Digest: digestOf(1, 3), Pool: "finance", Seats: 1, ExpiresSeconds: 60},
	}}}
}

func waits(t *testing.T, f Fixture) {
	run := f.admitted(t)
	want := 0
	for number, o := range []contract.Outcome{waiting(), {Yield: contract.YieldCheckpoint}, waiting(), waiting(), {Yield: contract.YieldCheckpoint}} {
		c, s := f.claim(t, run, segment.Newest)
		same(t, c.Segment, number)
		same(t, c.Waits, want)
		ok(t, s.Yield(t.Context(), o, nil))
		if o.Yield == contract.YieldWaiting {
			want++
		}
	}
	c, _ := f.claim(t, run, segment.Newest)
	same(t, c.Waits, 3)
}

func waitingOutcome(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	for range 3 { // an equal one, not the same one
		ok(t, s.Yield(t.Context(), waiting(), nil))
	}
	same(t, f.Outcome(t, run, 0), waiting())
	other := waiting()
	other.Wait.Asks[1].Seats++
	is(t, s.Yield(t.Context(), other, nil), segment.ErrFenced)
	same(t, f.Outcome(t, run, 0), waiting())

	_, s = f.claim(t, run, 1)
	ok(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCheckpoint}, nil))
	same(t, f.Outcome(t, run, 1), contract.Outcome{Yield: contract.YieldCheckpoint})
}

func waitingForNothing(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	for _, o := range []contract.Outcome{{Yield: contract.YieldWaiting}, {Yield: contract.YieldCheckpoint, Wait: waiting().Wait}} {
		if err := s.Yield(t.Context(), o, nil); err == nil {
			t.Errorf("%s was accepted, waiting for %v", o.Yield, o.Wait)
		}
	}
	f.counts(t, run, Count{})
	ok(t, s.Yield(t.Context(), waiting(), nil))
}

func boundedCalls(t *testing.T, f Fixture) {
	run := f.admitted(t)
	c, s, err := f.Store.Claim(t.Context(), segment.Ask{Run: run, Holder: strings.Repeat("h", 2000)})
	ok(t, err)
	begun(t, s, Intent(0, 0))
	large := Settlement(0, 0, segment.ResultAnswered)
	large.Result.Code, large.Result.Text = strings.Repeat("c", 100), strings.Repeat("é", record.MaxText)
	settled(t, s, large)
	refused := Settlement(0, 1, segment.ResultRefused)
	refused.Tool = strings.Repeat("t", 1000)
	settled(t, s, refused)
	ok(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldFailed, Code: strings.Repeat("c", 100), Message: strings.Repeat("m", 9000)}, nil))
	o := f.Outcome(t, run, c.Segment)
	same(t, len(o.Code), record.MaxCode)
	same(t, len(o.Message), contract.MaxMessage)
	next, _ := f.claim(t, run, segment.Newest)
	r := next.Journal[large.CallKey].Result
	same(t, len(r.Code), record.MaxCode)
	same(t, len(r.Text), record.MaxText)
	same(t, r.Bytes, large.Result.Bytes)
	same(t, len(next.Journal[refused.CallKey].Tool), record.MaxTool)
}

func cleanedCalls(t *testing.T, f Fixture) {
	run := f.admitted(t)
	c, s := f.claim(t, run, 0)
	i := Intent(0, 0)
	i.Tool, i.Rule, i.By = "a\x00b", "\xff", []string{"ja\x00ne"}
	begun(t, s, i)
	begun(t, s, i) // the repetition is recognised
	e := Settlement(0, 0, segment.ResultFailed)
	e.Result.Code, e.Result.Text = "\x00", "a\x00b\xffc"+strings.Repeat("é", 1000)
	settled(t, s, e)
	bare := segment.Settlement{CallKey: segment.CallKey{Index: 1}, Tool: "\xfe", Result: segment.CallResult{Kind: segment.ResultRefused, Text: "\x00"}}
	settled(t, s, bare)

	want := call(0, 0, c.Generation, &segment.CallResult{
		Kind: segment.ResultFailed, Code: "\uFFFD", Text: "a\uFFFDb\uFFFDc" + strings.Repeat("é", 1000), Bytes: e.Result.Bytes,
	})
	want.Tool = "a\uFFFDb"
	same(t, f.journal(t, run), segment.Journal{
		i.CallKey:    want,
		bare.CallKey: {CallKey: bare.CallKey, Tool: "\uFFFD", Generation: c.Generation, Result: &segment.CallResult{Kind: segment.ResultRefused, Text: "\uFFFD"}},
	})
}

func concurrentCalls(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	var wg sync.WaitGroup
	const n = 10
	for index := range n {
		wg.Go(func() {
			if _, err := s.Begin(t.Context(), Intent(0, index)); err != nil {
				t.Errorf("beginning: %v", err)
			}
			if _, err := s.Settle(t.Context(), Settlement(0, index, segment.ResultAnswered)); err != nil {
				t.Errorf("settling: %v", err)
			}
		})
	}
	for range n {
		_, err := s.Beat(t.Context())
		ok(t, err)
	}
	wg.Wait()
	f.counts(t, run, Count{Calls: n})
	for k, c := range f.journal(t, run) {
		if c.Result == nil {
			t.Errorf("call %v is not settled", k)
		}
	}
}
