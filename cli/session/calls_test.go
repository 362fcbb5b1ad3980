package session_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/cli/session"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// called is a run whose only answer proposed a call for each way in which one can stand.
func called(t *testing.T) session.Rows {
	t.Helper()
	r := rows(t)
	a := answered(0, 1, "", segment.FinishCalls)
	for _, tool := range []string{"search", "order", "refund", "mail", "delete", "later"} {
		a.Calls = append(a.Calls, segment.ProposedCall{Tool: tool, Arguments: `{"q":"` + "\x1b[2K" + `x"}`})
	}
	begun := func(index int, tool string, effect v1alpha1.Effect) session.Call {
		return session.Call{
			Index: index, Generation: 1, Tool: tool, Effect: effect, Digest: "sha256:4711", BegunAt: at(7),
		}
	}
	ended := func(c session.Call, result segment.CallResult) session.Call {
		c.SettledAt, c.Result = at(9), &result
		return c
	}
	ordered := begun(1, "shop/order", v1alpha1.EffectSend)
	ordered.Rule, ordered.PolicyVersion = "team/money/orders", 3
	ordered.Approvals, ordered.ApprovedBy = []types.UID{"r1", "r2"}, []string{"dana", "bob\x1b[2J"}
	r.Entries, r.Usage, r.End = []session.EntryRow{entry(t, 1, 1, 0, a)}, nil, nil
	r.Calls = []session.Call{
		ended(begun(0, "web/search", v1alpha1.EffectRead), segment.CallResult{Kind: segment.ResultAnswered, Text: strings.Repeat("line \x1b]0;title\x07\n", 40), Bytes: 5000}),
		ended(ordered, segment.CallResult{Kind: segment.ResultIndeterminate, Code: "Timeout", Text: "nobody knows"}),
		ended(session.Call{Index: 2, Generation: 1, Tool: "shop/refund", Effect: v1alpha1.EffectSend}, segment.CallResult{Kind: segment.ResultRefused, Code: "Denied", Text: "denied: \u202etoo much"}),
		ended(begun(3, "mail/send", v1alpha1.EffectSend), segment.CallResult{Kind: segment.ResultFailed, Code: "ToolFailed", Text: "no such mailbox", Bytes: 15}),
		begun(4, "shop/delete", v1alpha1.EffectWrite),
	}
	decided := func(seconds, index int, seat int32, phase v1alpha1.ApprovalPhase, by, reason string) session.Decision {
		return session.Decision{At: at(seconds), Delivery: contract.Delivery{
			Seq: int64(seconds), Request: "r1", Index: index, Digest: "sha256:4711", Seat: seat, Seats: 2, Phase: phase, By: by, Reason: reason,
		}}
	}
	r.Inbox = []session.Decision{
		decided(4, 1, 1, v1alpha1.ApprovalApproved, "dana", ""), decided(5, 1, 2, v1alpha1.ApprovalApproved, "bob", "fine\nby me"),
		decided(6, 2, 1, v1alpha1.ApprovalDenied, "eve", "\x1b[31mtoo much"),
	}
	r.Outcomes = []session.OutcomeRow{{
		Outcome: session.Outcome{At: at(10), Generation: 1, Outcome: contract.Outcome{Yield: contract.YieldWaiting}},
		Wait:    `{"cursor":6,"asks":[{"turn":0,"index":5,"tool":"shop/later","effect":"Send","digest":"sha256:4712","pool":"finance","seats":2,"expiresSeconds":3600}]}`,
	}}
	return r
}

const toldOfCalls = `Segment 0
  2026-12-01T10:00:01Z  turn 0, try 1: gpt-5.4 answered, finish calls
  2026-12-01T10:00:04Z  call 1 of turn 0: approved by dana (seat 1 of 2)
  2026-12-01T10:00:05Z  call 1 of turn 0: approved by bob (seat 2 of 2): fine by me
  2026-12-01T10:00:06Z  call 2 of turn 0: denied by eve (seat 1 of 2): too much
  call 0: search
  │ {"q":"x"}
    2026-12-01T10:00:07Z  begun: web/search (Read), arguments sha256:4711
    2026-12-01T10:00:09Z  sent and answered, 5000 bytes
  │ line
  │ line
  │ line
  │ line
  │ line
  │ line
  │ line
  │ line
  │ line
  │ line
  │ line
  │ line
    the first 192 of the 640 bytes that the model read
  call 1: order
  │ {"q":"x"}
    2026-12-01T10:00:07Z  begun: shop/order (Send), arguments sha256:4711, approved by dana and bob, by rule team/money/orders
    2026-12-01T10:00:09Z  indeterminate Timeout: sent, and nobody knows what came of it
  │ nobody knows
  call 2: refund
  │ {"q":"x"}
    2026-12-01T10:00:09Z  refused Denied, not sent
  │ denied: too much
  call 3: mail
  │ {"q":"x"}
    2026-12-01T10:00:07Z  begun: mail/send (Send), arguments sha256:4711
    2026-12-01T10:00:09Z  failed ToolFailed, 15 bytes
  │ no such mailbox
  call 4: delete
  │ {"q":"x"}
    2026-12-01T10:00:07Z  begun: shop/delete (Write), arguments sha256:4711
    has no result yet; it may have been sent
  call 5: later
  │ {"q":"x"}
    waits for approval
  2026-12-01T10:00:10Z  ended: waiting (for people to decide)
    asks finance for 2 to approve call 5 of turn 0, shop/later (Send), arguments sha256:4712, within 1h0m0s
`

func TestCallsAreTold(t *testing.T) {
	t.Parallel()
	text := session.Text(session.Fold(called(t)))
	_, got, _ := strings.Cut(text, "\n\nSegment 0")
	got, _, _ = strings.Cut("Segment 0"+got, "\nEnd\n")
	if diff := cmp.Diff(toldOfCalls, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// parked is a run that asked about two of its three calls, made one of them in the next segment, and asked on.
func parked(t *testing.T) session.Rows {
	t.Helper()
	r := rows(t)
	a := answered(0, 1, "", segment.FinishCalls)
	for _, tool := range []string{"order", "search", "refund"} {
		a.Calls = append(a.Calls, segment.ProposedCall{Tool: tool, Arguments: `{}`})
	}
	b := answered(1, 1, "Done.", segment.FinishStop)
	call := func(index, number, begun int, tool string) session.Call {
		return session.Call{
			Index: index, Segment: number, Generation: int64(number + 1), Tool: tool, Effect: v1alpha1.EffectSend,
			BegunAt: at(begun), SettledAt: at(begun + 2), Result: &segment.CallResult{Kind: segment.ResultAnswered, Text: "ok", Bytes: 2},
		}
	}
	decided := func(seconds, index int, by string) session.Decision {
		return session.Decision{At: at(seconds), Delivery: contract.Delivery{Index: index, Seat: 1, Seats: 1, Phase: v1alpha1.ApprovalApproved, By: by}}
	}
	parks := func(seconds, number int, wait string) session.OutcomeRow {
		return session.OutcomeRow{Segment: number, Wait: wait, Outcome: session.Outcome{
			At: at(seconds), Generation: int64(number + 1), Outcome: contract.Outcome{Yield: contract.YieldWaiting},
		}}
	}
	const order, refund = `{"index":0,"tool":"shop/order","effect":"Send","digest":"d0","pool":"desk","seats":1,"expiresSeconds":60}`,
		`{"index":2,"tool":"shop/refund","effect":"Send","digest":"d2","pool":"desk","seats":1,"expiresSeconds":60}`
	r.Usage, r.Generation, r.Segment = nil, 3, 2
	r.Entries = []session.EntryRow{entry(t, 1, 1, 0, a), entry(t, 50, 3, 2, b)}
	r.Calls = []session.Call{call(0, 1, 20, "shop/order"), call(1, 1, 23, "web/search"), call(2, 2, 40, "shop/refund")}
	r.Inbox = []session.Decision{decided(12, 0, "dana"), decided(30, 2, "bob")}
	r.Outcomes = []session.OutcomeRow{
		parks(10, 0, `{"asks":[`+order+`,`+refund+`]}`), parks(26, 1, `{"asks":[`+refund+`]}`),
		{Segment: 2, Outcome: session.Outcome{At: at(51), Generation: 3, Outcome: contract.Outcome{Yield: contract.YieldCompleted}}},
	}
	return r
}

const (
	proposedTold = `Segment 0
  2026-12-01T10:00:01Z  turn 0, try 1: gpt-5.4 answered, finish calls
  call 0: order
  │ {}
    waits for approval; segment 1 goes on with it
  call 1: search
  │ {}
    segment 1 goes on with it
  call 2: refund
  │ {}
    waits for approval; segment 2 goes on with it
  2026-12-01T10:00:10Z  ended: waiting (for people to decide)
    asks desk for 1 to approve call 0 of turn 0, shop/order (Send), arguments d0, within 1m0s
    asks desk for 1 to approve call 2 of turn 0, shop/refund (Send), arguments d2, within 1m0s
  2026-12-01T10:00:12Z  call 0 of turn 0: approved by dana
`
	orderTold = `  call 0 of turn 0: shop/order
    2026-12-01T10:00:20Z  begun: shop/order (Send)
    2026-12-01T10:00:22Z  sent and answered, 2 bytes
  │ ok
`
	searchTold = `  call 1 of turn 0: web/search
    2026-12-01T10:00:23Z  begun: web/search (Send)
    2026-12-01T10:00:25Z  sent and answered, 2 bytes
  │ ok
`
	askedOnTold = `  2026-12-01T10:00:26Z  ended: waiting (for people to decide)
    asks desk for 1 to approve call 2 of turn 0, shop/refund (Send), arguments d2, within 1m0s
`
	refundTold = `
Segment 2
  call 2 of turn 0: shop/refund
    2026-12-01T10:00:40Z  begun: shop/refund (Send)
    2026-12-01T10:00:42Z  sent and answered, 2 bytes
  │ ok
  2026-12-01T10:00:50Z  turn 1, try 1: gpt-5.4 answered, finish stop
  │ Done.
  2026-12-01T10:00:51Z  ended: completed
`
)

func TestACallIsToldWhereItHappened(t *testing.T) {
	t.Parallel()
	untouched := strings.NewReplacer("; segment 1 goes on with it", "", "; segment 2 goes on with it", "", "segment 1 goes on with it", "not begun")
	for name, tc := range map[string]struct {
		given func(*session.Rows)
		want  string
	}{
		"after its approval, in the segment that made it": {
			given: func(*session.Rows) {},
			want: proposedTold + "\nSegment 1\n" + orderTold + searchTold + askedOnTold +
				"  2026-12-01T10:00:30Z  call 2 of turn 0: approved by bob\n" + refundTold,
		},
		"an approval that comes while another call is made stands between them": {
			given: func(r *session.Rows) { r.Inbox[1].At = at(22) },
			want: proposedTold + "\nSegment 1\n" + orderTold + "  2026-12-01T10:00:22Z  call 2 of turn 0: approved by bob\n" + searchTold +
				askedOnTold + refundTold,
		},
		"one that was approved and not begun waits": {
			given: func(r *session.Rows) {
				r.Calls, r.Outcomes, r.Entries, r.Inbox, r.Segment, r.Generation, r.End = nil, r.Outcomes[:1], r.Entries[:1], r.Inbox[:1], 0, 1, nil
			},
			want: untouched.Replace(proposedTold),
		},
		"one that nobody decided on before the run ended waited": {
			given: func(r *session.Rows) {
				r.Calls, r.Outcomes, r.Entries, r.Inbox, r.Segment, r.Generation = nil, r.Outcomes[:1], r.Entries[:1], nil, 0, 1
			},
			want: strings.Replace(strings.ReplaceAll(untouched.Replace(proposedTold), "waits for approval", "waited for approval until the run ended, and was not begun"),
				"  2026-12-01T10:00:12Z  call 0 of turn 0: approved by dana\n", "", 1),
		},
		"one that a segment has just begun": {
			given: func(r *session.Rows) {
				r.Calls, r.Outcomes, r.Entries, r.Inbox, r.Segment, r.Generation, r.End = r.Calls[:1], r.Outcomes[:1], r.Entries[:1], r.Inbox[:1], 1, 2, nil
				r.Calls[0].SettledAt, r.Calls[0].Result = time.Time{}, nil
			},
			want: strings.NewReplacer("; segment 2 goes on with it", "", "    segment 1 goes on with it", "    not begun").Replace(proposedTold) +
				"\nSegment 1\n  call 0 of turn 0: shop/order\n    2026-12-01T10:00:20Z  begun: shop/order (Send)\n    has no result yet; it may have been sent\n  has no outcome yet\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := parked(t)
			tc.given(&given)
			text := session.Text(session.Fold(given))
			_, got, _ := strings.Cut(text, "\n\nSegment 0")
			got, _, _ = strings.Cut("Segment 0"+got, "\nEnd\n")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONHoldsAllOfACall(t *testing.T) {
	t.Parallel()
	given := called(t)
	body, err := json.Marshal(session.Fold(given))
	if err != nil {
		t.Fatal(err)
	}
	var got session.Session
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	want := given.Calls
	want[1].Decisions, want[2].Decisions = given.Inbox[:2], given.Inbox[2:]
	if diff := cmp.Diff(want, got.Segments[0].Steps[0].Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if w := got.Segments[0].Outcome.Wait; w == nil || w.Asks[0].Pool != "finance" {
		t.Errorf("it waits for %+v", w)
	}
}

func TestFoldOfCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given func(*session.Rows)
		want  func(session.Session) any
		is    any
	}{
		"calls of an answer that cannot be read are told beside it": {
			given: func(r *session.Rows) { r.Entries[0].Schema = 7 },
			want: func(s session.Session) any {
				steps := s.Segments[0].Steps
				return []any{len(steps), steps[0].Unreadable != "", len(steps[1].Calls), steps[1].Unreadable != ""}
			},
			is: []any{2, true, 5, true},
		},
		"a call that was decided on and not begun is there": {
			given: func(r *session.Rows) { r.Calls = nil },
			want: func(s session.Session) any {
				calls := s.Segments[0].Steps[0].Calls
				return []any{len(calls), calls[0].Index, len(calls[0].Decisions), calls[0].Result == nil}
			},
			is: []any{2, 1, 2, true},
		},
		"a call that another segment made is told there, once": {
			given: func(r *session.Rows) { r.Calls[1].Segment, r.Calls[1].Generation = 1, 2 },
			want: func(s session.Session) any {
				there := s.Segments[1].Steps[0]
				return []any{len(s.Segments), len(s.Segments[0].Steps[0].Calls), there.Resumed, there.Generation, len(there.Calls), there.Calls[0].Index, len(there.Calls[0].Decisions)}
			},
			is: []any{2, 4, true, int64(2), 1, 1, 2},
		},
		"what is waited for may be of another version": {
			given: func(r *session.Rows) { r.Outcomes[0].Wait = `{"asks":7}` },
			want: func(s session.Session) any {
				o := s.Segments[0].Outcome
				return []any{o.Wait == nil, o.Unreadable != "", o.Yield}
			},
			is: []any{true, true, contract.YieldWaiting},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := called(t)
			tc.given(&given)
			s := session.Fold(given)
			if diff := cmp.Diff(tc.is, tc.want(s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := session.Text(s); strings.ContainsAny(text, "\x1b\x07\u202e") {
				t.Errorf("text holds control sequences: %q", text)
			}
		})
	}
}
