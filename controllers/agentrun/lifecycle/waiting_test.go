package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

var (
	asked  = noon.Add(-time.Minute)
	expiry = asked.Add(time.Hour)
)

func ask(index int, seats int32) contract.Ask {
	return contract.Ask{Turn: 2, Index: index, Tool: "payments/refund", Effect: v1alpha1.EffectSend, Digest: "d", Pool: "finance", Seats: seats, ExpiresSeconds: 3600}
}

func answered(seq int64, index int, seat, seats int32, phase v1alpha1.ApprovalPhase) contract.Delivery {
	return contract.Delivery{Seq: seq, Turn: 2, Index: index, Digest: "d", Seat: seat, Seats: seats, Phase: phase}
}

// parked waits with its first attempt over.
func parked(asks []contract.Ask, inbox ...contract.Delivery) *Admission {
	a := admitted(attempts(ended(first, yielded)), outcome(contract.Outcome{Yield: contract.YieldWaiting, Wait: &contract.Wait{Cursor: 5, Asks: asks}}))
	a.OutcomeAt, a.Inbox, a.Waits = asked, inbox, 1
	return a
}

func standing(index int, seat int32) Request {
	return Request{Turn: 2, Index: index, Digest: "d", Seat: seat, Pool: "finance", Until: expiry.Add(-time.Minute)}
}

// doubtful asks what came of a call.
var doubtful = func() contract.Ask {
	a := ask(0, 1)
	a.Type = v1alpha1.ApprovalIndeterminate
	return a
}()

// spoken is what was said about what came of it, on the request that is named by its number.
func spoken(seq int64, phase v1alpha1.ApprovalPhase) contract.Delivery {
	d := answered(seq, 0, 1, 1, phase)
	d.Type, d.Request = v1alpha1.ApprovalIndeterminate, types.UID(fmt.Sprint("q", seq))
	return d
}

// questioned is a request about it that was not withdrawn.
func questioned(uid types.UID, ordinal int) Request {
	r := standing(0, 1)
	r.UID, r.Type, r.Ordinal, r.Until = uid, v1alpha1.ApprovalIndeterminate, ordinal, expiry
	return r
}

// again1 is the request that was made when the first was in vain.
func again1(r Request) Request {
	r.Ordinal = 1
	return r
}

func withdrawn(r Request) Request {
	r.Withdrawn = true
	return r
}

func TestDecideAboutARunThatWaits(t *testing.T) {
	t.Parallel()
	waits := func(message string, until time.Time, keys []RequestKey, do ...Effect) Decision {
		return Decision{
			Do:     do,
			Report: Report{Phase: v1alpha1.RunWaiting, Reason: v1alpha1.ReasonAwaitingApproval, Message: message, Waiting: &Waiting{Requests: keys, Until: until}},
			Wake:   until.Add(grace),
		}
	}
	const call = v1alpha1.ApprovalCall
	const one = "payments/refund wants a decision of pool finance by 2026-01-01 12:59:00Z"
	const kept = "payments/refund wants a decision of pool finance by 2026-01-01 12:58:00Z"
	const unsure = "nobody knows what a call of payments/refund has done, and pool finance is asked by 2026-01-01 12:59:00Z"
	next := Decision{
		Do:     []Effect{Start{AttemptKey{Segment: 1}}},
		Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 1 waits for its pod"},
		Wake:   noon.Add(Patience),
	}
	tests := map[string]struct {
		given    *Admission
		requests []Request
		blocked  string
		at       time.Time
		want     Decision
	}{
		"each seat of each call is asked about at once": {
			given: parked([]contract.Ask{ask(0, 2), ask(1, 1)}),
			want: waits(one+"; 3 requests are open", expiry, []RequestKey{{call, 2, 0, 1, 0}, {call, 2, 0, 2, 0}, {call, 2, 1, 1, 0}},
				Raise{Ask: ask(0, 2), Seat: 1}, Raise{Ask: ask(0, 2), Seat: 2}, Raise{Ask: ask(1, 1), Seat: 1}),
		},
		"a request that stands is waited for, until it says": {
			given: parked([]contract.Ask{ask(0, 1)}), requests: []Request{standing(0, 1)},
			want: waits(kept, expiry.Add(-time.Minute), []RequestKey{{call, 2, 0, 1, 0}}),
		},
		"one that was withdrawn is asked anew": {
			given: parked([]contract.Ask{ask(0, 1)}), requests: []Request{withdrawn(standing(0, 1))},
			want: waits(one, expiry, []RequestKey{{call, 2, 0, 1, 1}}, Raise{Ask: ask(0, 1), Seat: 1, Ordinal: 1}),
		},
		"and the new one stands": {
			given: parked([]contract.Ask{ask(0, 1)}), requests: []Request{withdrawn(standing(0, 1)), again1(standing(0, 1))},
			want: waits(kept, expiry.Add(-time.Minute), []RequestKey{{call, 2, 0, 1, 1}}),
		},
		"a request about other arguments is none": {
			given: parked([]contract.Ask{ask(0, 1)}), requests: []Request{{Turn: 2, Digest: "other", Seat: 1, Until: expiry}},
			want: waits(one, expiry, []RequestKey{{call, 2, 0, 1, 0}}, Raise{Ask: ask(0, 1), Seat: 1}),
		},
		"an approval begins the next segment":         {given: parked([]contract.Ask{ask(0, 1), ask(1, 1)}, answered(6, 0, 1, 1, v1alpha1.ApprovalApproved)), want: next},
		"so does a denial":                            {given: parked([]contract.Ask{ask(0, 2)}, answered(6, 0, 2, 2, v1alpha1.ApprovalDenied)), want: next},
		"so does an expiry":                           {given: parked([]contract.Ask{ask(0, 1)}, answered(6, 0, 1, 1, v1alpha1.ApprovalExpired)), want: next},
		"so does one that came before the run parked": {given: parked([]contract.Ask{ask(0, 1)}, answered(6, 0, 1, 1, v1alpha1.ApprovalApproved)), requests: []Request{standing(0, 1)}, want: next},
		"one seat of two is not enough": {
			given: parked([]contract.Ask{ask(0, 2)}, answered(6, 0, 1, 2, v1alpha1.ApprovalApproved)), requests: []Request{standing(0, 1), standing(0, 2)},
			want: waits(kept, expiry.Add(-time.Minute), []RequestKey{{call, 2, 0, 2, 0}}),
		},
		"two seats of two are": {given: parked([]contract.Ask{ask(0, 2)}, answered(6, 0, 1, 2, v1alpha1.ApprovalApproved), answered(7, 0, 2, 2, v1alpha1.ApprovalApproved)), want: next},
		"a later call that is decided waits for the first": {
			given: parked([]contract.Ask{ask(0, 1), ask(1, 1)}, answered(6, 1, 1, 1, v1alpha1.ApprovalApproved)), requests: []Request{standing(0, 1), standing(1, 1)},
			want: waits(kept, expiry.Add(-time.Minute), []RequestKey{{call, 2, 0, 1, 0}}),
		},
		"a decision that the segment had seen is not waited for": {
			given: parked([]contract.Ask{ask(0, 1)}, answered(5, 0, 1, 1, v1alpha1.ApprovalApproved)),
			want:  Decision{Do: []Effect{Finish{End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonIncompatibleSession, Message: "a segment waits for a decision that it had seen", At: noon}}}, Again: true},
		},
		"a request that the API server refuses is not tried again at once, and the run says why": {
			given: parked([]contract.Ask{ask(0, 1)}), blocked: "exceeded quota",
			want: func() Decision {
				d := waits(one+", and nobody can be asked: exceeded quota", expiry, []RequestKey{{call, 2, 0, 1, 0}})
				d.Wake = noon.Add(askEvery)
				return d
			}(),
		},
		"a run that could ask nobody ends when the time to decide is over": {
			given: parked([]contract.Ask{ask(0, 1)}), blocked: "exceeded quota", at: expiry,
			want: Decision{Do: []Effect{Finish{End{
				Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonApprovalNotAsked, At: expiry,
				Message: "payments/refund wants a decision of pool finance, and until that was due nobody could be asked: exceeded quota",
			}}}, Again: true},
		},
		"past the expiry the run looks now and then, until somebody says that it expired": {
			given: parked([]contract.Ask{ask(0, 1)}), requests: []Request{standing(0, 1)}, at: expiry.Add(time.Hour),
			want: func() Decision {
				d := waits(kept, expiry.Add(-time.Minute), []RequestKey{{call, 2, 0, 1, 0}})
				d.Wake = expiry.Add(time.Hour + askEvery)
				return d
			}(),
		},
		"what was asked of two stays so though the policy now wants one": {
			given: parked([]contract.Ask{ask(0, 1)}, answered(6, 0, 1, 2, v1alpha1.ApprovalApproved)), requests: []Request{withdrawn(standing(0, 2))},
			want: waits(one, expiry, []RequestKey{{call, 2, 0, 2, 1}}, Raise{Ask: ask(0, 2), Seat: 2, Ordinal: 1}),
		},
		"an ordinal is not used again though its request is gone": {
			given: parked([]contract.Ask{ask(0, 1)}), requests: []Request{withdrawn(again1(standing(0, 1)))},
			want: waits(one, expiry, []RequestKey{{call, 2, 0, 1, 2}}, Raise{Ask: ask(0, 1), Seat: 1, Ordinal: 2}),
		},
		"what came of a call is asked of one person": {
			given: parked([]contract.Ask{doubtful}),
			want:  waits(unsure, expiry, []RequestKey{{v1alpha1.ApprovalIndeterminate, 2, 0, 1, 0}}, Raise{Ask: doubtful, Seat: 1}),
		},
		"a question whether a call may run does not stand for one about what came of it, nor does its answer": {
			given: parked([]contract.Ask{doubtful}, answered(6, 0, 1, 1, v1alpha1.ApprovalApproved)), requests: []Request{standing(0, 1)},
			want: waits(unsure, expiry, []RequestKey{{v1alpha1.ApprovalIndeterminate, 2, 0, 1, 0}}, Raise{Ask: doubtful, Seat: 1}),
		},
		"nor the other way round": {
			given: parked([]contract.Ask{ask(0, 1)}, spoken(6, v1alpha1.ApprovalHappened)), requests: []Request{questioned("q", 0)},
			want: waits(one, expiry, []RequestKey{{call, 2, 0, 1, 0}}, Raise{Ask: ask(0, 1), Seat: 1}),
		},
		"a question about what came of a call stands": {
			given: parked([]contract.Ask{doubtful}), requests: []Request{questioned("q", 0)},
			want: waits(unsure, expiry, []RequestKey{{v1alpha1.ApprovalIndeterminate, 2, 0, 1, 0}}),
		},
		"that it happened begins the next segment": {given: parked([]contract.Ask{doubtful}, spoken(6, v1alpha1.ApprovalHappened)), want: next},
		"that it did not does":                     {given: parked([]contract.Ask{doubtful}, spoken(6, v1alpha1.ApprovalNotHappened)), want: next},
		"to try again does":                        {given: parked([]contract.Ask{doubtful}, spoken(6, v1alpha1.ApprovalRetry)), want: next},
		"that nobody said does":                    {given: parked([]contract.Ask{doubtful}, spoken(6, v1alpha1.ApprovalExpired)), want: next},
		"after another try it is asked again": {
			given: parked([]contract.Ask{doubtful}, spoken(5, v1alpha1.ApprovalRetry)), requests: []Request{questioned("q5", 0)},
			want: waits(unsure, expiry, []RequestKey{{v1alpha1.ApprovalIndeterminate, 2, 0, 1, 1}}, Raise{Ask: doubtful, Seat: 1, Ordinal: 1}),
		},
		"and the second question stands": {
			given: parked([]contract.Ask{doubtful}, spoken(5, v1alpha1.ApprovalRetry)), requests: []Request{questioned("q5", 0), questioned("q", 1)},
			want: waits(unsure, expiry, []RequestKey{{v1alpha1.ApprovalIndeterminate, 2, 0, 1, 1}}),
		},
		"a wait for nothing goes on": {given: parked(nil), want: next},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := tc.at
			if now.IsZero() {
				now = noon
			}
			got := Decide(Observed{Now: now, Held: true, Admission: tc.given, Requests: tc.requests, Blocked: tc.blocked})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Decide() (-want +got):\n%s", diff)
			}
		})
	}
}
