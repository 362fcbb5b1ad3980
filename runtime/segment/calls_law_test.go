package segment_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/policy"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
)

// TestNextLawsOfCalls walks every state of a turn with two calls, under every policy, decision and situation, and checks what must
// hold in all of them.
func TestNextLawsOfCalls(t *testing.T) {
	t.Parallel()
	g := deskGate(t)
	n := 0
	for _, first := range proposals {
		for _, second := range proposals {
			turn := segment.Answered{Calls: []segment.ProposedCall{first, second}, Finish: segment.FinishCalls}
			for j := range everyJournal(turn) {
				for _, set := range []contract.PolicySet{{}, allow, deny} {
					rules := policy.Compile(set)
					for _, inbox := range everyInbox(turn) {
						for _, s := range everySituation() {
							for _, calls := range []int32{1, 2, 3} {
								s.OnIndeterminate = []v1alpha1.OnIndeterminate{v1alpha1.IndeterminateTellModel, v1alpha1.IndeterminateAsk, v1alpha1.IndeterminateFailRun}[n%3]
								s.Gate, s.Rules, s.PolicyVersion, s.Journal, s.Inbox = g, rules, 1, *j, inbox
								s.HardEnd, s.Limits.ToolCalls = noon.Add(120*time.Second), calls
								n++
								lawsOfCalls(t, turn, s, n%97 == 0)
							}
						}
					}
				}
			}
		}
	}
	if n < 200_000 {
		t.Errorf("only %d cases", n)
	}
}

func lawsOfCalls(t *testing.T, turn segment.Answered, s segment.Situation, twice bool) {
	t.Helper()
	tr := segment.Transcript{turn}
	act := segment.Next(tr, s)
	broken := func(law string) {
		t.Helper()
		t.Fatalf("broken law: %s\nturn %+v\njournal %+v\ninbox %+v\nsituation %+v\nact %+v", law, turn.Calls, s.Journal, s.Inbox, s, act)
	}
	if twice && !reflect.DeepEqual(act, segment.Next(tr, s)) {
		broken("the same state gives the same act")
	}
	settled := func(i int) bool { return s.Journal[segment.CallKey{Index: i}].Result != nil }
	begun := 0
	for _, c := range s.Journal {
		if c.Begun {
			begun++
		}
	}
	switch a := act.(type) {
	case segment.Think:
		if !settled(0) || !settled(1) {
			broken("the model is asked only when every call has its result")
		}
	case segment.Invoke:
		i := a.Permit.Index()
		c := s.Journal[segment.CallKey{Index: i}]
		switch {
		case settled(i):
			broken("a settled call is never made again")
		case i == 1 && !settled(0):
			broken("calls are made in their order")
		case c.Begun && c.Effect != v1alpha1.EffectRead && (!c.Gone || len(c.Approvals) > 0 || !retried(s.Inbox, i)):
			broken("a call that may have been sent is made again only where that is harmless, or once by a person's word when its process is gone")
		case s.Cancelled || s.Stopping:
			broken("nothing begins in a run that is cancelled or a pod that goes")
		case s.Appended > 0 && s.Now.Add(60*time.Second).After(s.HardEnd):
			broken("a call that is not the segment's first act fits before the hard timer")
		case !c.Begun && begun >= int(s.Limits.ToolCalls):
			broken("no call begins beyond the limit")
		}
	case segment.Refuse:
		c, kind := s.Journal[a.Settlement.CallKey], a.Settlement.Result.Kind
		word, said := contract.Resolved(s.Inbox, 0, a.Settlement.Index, c.Digest)
		switch {
		case settled(a.Settlement.Index):
			broken("a call is settled once")
		case kind == segment.ResultAnswered && (!c.Begun || !said || word.Phase != v1alpha1.ApprovalHappened):
			broken("that a call was answered is said only of one that may have been sent, by a person who says so")
		case kind == segment.ResultFailed && (!c.Begun || !said || word.Phase != v1alpha1.ApprovalNotHappened):
			broken("that a call did not happen is said only by a person who says so")
		case c.Begun && c.Effect != v1alpha1.EffectRead && kind == segment.ResultRefused:
			broken("of a call that may have been sent it is never said that it was refused")
		case c.Begun && c.Effect != v1alpha1.EffectRead && kind == segment.ResultIndeterminate && s.OnIndeterminate == v1alpha1.IndeterminateAsk && !said:
			broken("where people are asked, nothing is given up before they were")
		}
	case segment.Yield:
		if w := a.Outcome.Wait; (w != nil) != (a.Outcome.Yield == contract.YieldWaiting) || w != nil && (len(w.Asks) == 0 || w.Over(s.Inbox)) {
			broken("a run waits for calls that nobody has decided on, and for nothing else")
		}
		if w := a.Outcome.Wait; w != nil && w.Asks[0].Type == v1alpha1.ApprovalIndeterminate {
			c := s.Journal[segment.CallKey{Index: w.Asks[0].Index}]
			if !c.Begun || c.Result != nil || c.Effect == v1alpha1.EffectRead || s.OnIndeterminate != v1alpha1.IndeterminateAsk || len(w.Asks) > 1 {
				broken("what came of a call is asked of one that may have been sent, where people are to be asked")
			}
		} else if w != nil && begun+anew(w.Asks, s.Journal) > int(s.Limits.ToolCalls) {
			broken("people are asked about no more calls than the limits allow")
		}
	case segment.Probe:
		broken("only what a tool declares is asked")
	case segment.Leave, segment.Pause:
	}
}

// anew is how many of the asks are about calls that have no place among those that were begun yet.
func anew(asks []contract.Ask, j segment.Journal) int {
	n := 0
	for _, a := range asks {
		if !j[segment.CallKey{Index: a.Index}].Begun {
			n++
		}
	}
	return n
}

// retried reports whether a person has said that the call is to be made again.
func retried(inbox []contract.Delivery, i int) bool {
	return slices.ContainsFunc(inbox, func(d contract.Delivery) bool {
		return d.Type == v1alpha1.ApprovalIndeterminate && d.Phase == v1alpha1.ApprovalRetry && d.Index == i
	})
}

var proposals = []segment.ProposedCall{
	{Tool: "get", Arguments: `{}`}, {Tool: "refund", Arguments: `{}`}, {Tool: "refund", Arguments: `{"a":`}, {Tool: "rm", Arguments: `{}`},
}

func deskGate(t *testing.T) *gate.Gate {
	t.Helper()
	var s contract.Snapshot
	segmenttest.Offer(&s, map[string]v1alpha1.Effect{"get": v1alpha1.EffectRead, "refund": v1alpha1.EffectSend})
	g, err := gate.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// everyJournal is what two calls can have come to, calls beside the model's words included.
func everyJournal(turn segment.Answered) map[*segment.Journal]bool {
	states := func(i int) []*segment.Call {
		effect := v1alpha1.EffectSend
		if turn.Calls[i].Tool == "get" {
			effect = v1alpha1.EffectRead
		}
		c := segment.Call{CallKey: segment.CallKey{Index: i}, Tool: fmt.Sprint("crm/", turn.Calls[i].Tool), Effect: effect}
		if canonical, err := contract.Canonical([]byte(turn.Calls[i].Arguments)); err == nil {
			c.Digest = contract.Digest(canonical)
		}
		orphan, answered, refused := c, c, c
		gone, spent := c, c
		gone.Begun, gone.Gone, spent.Begun, spent.Gone, spent.Approvals = true, true, true, true, []types.UID{"word"}
		orphan.Begun, answered.Begun = true, true
		answered.Result = &segment.CallResult{Kind: segment.ResultAnswered}
		refused.Result = &segment.CallResult{Kind: segment.ResultRefused}
		return []*segment.Call{nil, &orphan, &gone, &spent, &answered, &refused}
	}
	all := map[*segment.Journal]bool{}
	for _, a := range states(0) {
		for _, b := range states(1) {
			j := segment.Journal{}
			for _, c := range []*segment.Call{a, b} {
				if c != nil {
					j[c.CallKey] = *c
				}
			}
			all[&j] = true
		}
	}
	return all
}

// everyInbox is what can have been decided: nothing, yes or no to the first, yes to the second, yes to other arguments.
func everyInbox(turn segment.Answered) [][]contract.Delivery {
	digest := func(i int) string {
		canonical, err := contract.Canonical([]byte(turn.Calls[i].Arguments))
		if err != nil {
			return "none"
		}
		return contract.Digest(canonical)
	}
	d := func(i int, digest string, phase v1alpha1.ApprovalPhase) []contract.Delivery {
		return []contract.Delivery{{Seq: 1, Request: "r", Index: i, Digest: digest, Seat: 1, Seats: 1, Phase: phase, By: "alice"}}
	}
	word := func(phase v1alpha1.ApprovalPhase) []contract.Delivery {
		w := d(0, digest(0), phase)
		w[0].Type, w[0].Request = v1alpha1.ApprovalIndeterminate, "word"
		return w
	}
	return [][]contract.Delivery{
		nil,
		word(v1alpha1.ApprovalHappened), word(v1alpha1.ApprovalNotHappened), word(v1alpha1.ApprovalRetry), word(v1alpha1.ApprovalExpired),
		d(0, digest(0), v1alpha1.ApprovalApproved), d(0, digest(0), v1alpha1.ApprovalDenied), d(1, digest(1), v1alpha1.ApprovalApproved),
		d(0, "other", v1alpha1.ApprovalApproved),
	}
}
