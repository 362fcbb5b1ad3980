package contract_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const digest = "sha256:d"

// of is a delivery for the call 3.0 with the arguments that digest stands for.
func of(seq int64, phase v1alpha1.ApprovalPhase, seat, seats int32) contract.Delivery {
	d := contract.Delivery{Seq: seq, Request: types.UID(fmt.Sprintf("r%d", seq)), Turn: 3, Digest: digest, Seat: seat, Seats: seats, Phase: phase}
	if phase != v1alpha1.ApprovalExpired {
		d.By, d.Reason = fmt.Sprintf("p%d", seq), "because"
	}
	return d
}

func approved(seq int64, seat, seats int32) contract.Delivery {
	return of(seq, v1alpha1.ApprovalApproved, seat, seats)
}

func TestAnswered(t *testing.T) {
	t.Parallel()
	elsewhere := func(change func(*contract.Delivery)) contract.Delivery {
		d := approved(1, 1, 1)
		change(&d)
		return d
	}
	pending := contract.Answer{Phase: v1alpha1.ApprovalPending, Seats: 1, Open: []int32{1}}
	tests := map[string]struct {
		given []contract.Delivery
		seats int32
		want  contract.Answer
	}{
		"nobody has said anything":                  {nil, 2, contract.Answer{Phase: v1alpha1.ApprovalPending, Seats: 2, Open: []int32{1, 2}}},
		"nobody is to be asked":                     {nil, 0, pending},
		"another call was approved":                 {[]contract.Delivery{elsewhere(func(d *contract.Delivery) { d.Index = 1 })}, 1, pending},
		"another turn was approved":                 {[]contract.Delivery{elsewhere(func(d *contract.Delivery) { d.Turn = 2 })}, 1, pending},
		"other arguments were denied":               {[]contract.Delivery{elsewhere(func(d *contract.Delivery) { d.Digest, d.Phase = "sha256:e", v1alpha1.ApprovalDenied })}, 1, pending},
		"what came of it was asked in vain":         {[]contract.Delivery{unsure(1, v1alpha1.ApprovalExpired)}, 1, pending},
		"a word of a later version":                 {[]contract.Delivery{of(1, "Deferred", 1, 1)}, 1, pending},
		"the request was withdrawn":                 {[]contract.Delivery{of(1, v1alpha1.ApprovalWithdrawn, 1, 1)}, 1, pending},
		"the only seat has approved":                {[]contract.Delivery{approved(1, 1, 1)}, 1, contract.Answer{Phase: v1alpha1.ApprovalApproved, By: []string{"p1"}, Requests: []types.UID{"r1"}, Seats: 1}},
		"one of two seats":                          {[]contract.Delivery{approved(1, 2, 2)}, 2, contract.Answer{Phase: v1alpha1.ApprovalPending, By: []string{"p1"}, Requests: []types.UID{"r1"}, Seats: 2, Open: []int32{1}}},
		"both seats":                                {[]contract.Delivery{approved(1, 2, 2), approved(2, 1, 2)}, 2, contract.Answer{Phase: v1alpha1.ApprovalApproved, By: []string{"p1", "p2"}, Requests: []types.UID{"r1", "r2"}, Seats: 2}},
		"the same seat twice":                       {[]contract.Delivery{approved(1, 1, 2), approved(2, 1, 2)}, 2, contract.Answer{Phase: v1alpha1.ApprovalPending, By: []string{"p1"}, Requests: []types.UID{"r1"}, Seats: 2, Open: []int32{2}}},
		"a seat that there is not":                  {[]contract.Delivery{approved(1, 2, 1)}, 1, pending},
		"more are to be asked than there are seats": {nil, math.MaxInt32, contract.Answer{Phase: v1alpha1.ApprovalPending, Seats: 5, Open: []int32{1, 2, 3, 4, 5}}},
		"fewer are to be asked than nobody":         {nil, math.MinInt32, pending},
		"a seat of more than there are":             {[]contract.Delivery{approved(1, 1, math.MaxInt32)}, 1, pending},
		"a seat of none":                            {[]contract.Delivery{approved(1, 1, 0)}, 2, contract.Answer{Phase: v1alpha1.ApprovalPending, Seats: 2, Open: []int32{1, 2}}},
		"approved, more are asked now":              {[]contract.Delivery{approved(1, 1, 1)}, 3, contract.Answer{Phase: v1alpha1.ApprovalApproved, By: []string{"p1"}, Requests: []types.UID{"r1"}, Seats: 1}},
		"one of two, fewer are asked now": {
			[]contract.Delivery{approved(1, 1, 2)}, 1, contract.Answer{Phase: v1alpha1.ApprovalPending, By: []string{"p1"}, Requests: []types.UID{"r1"}, Seats: 2, Open: []int32{2}},
		},
		"one approves, one denies": {
			[]contract.Delivery{approved(1, 1, 2), of(2, v1alpha1.ApprovalDenied, 2, 2)},
			2,
			contract.Answer{Phase: v1alpha1.ApprovalDenied, By: []string{"p2"}, Reason: "because", Requests: []types.UID{"r2"}},
		},
		"one approves, one does not answer": {
			[]contract.Delivery{approved(1, 1, 2), of(2, v1alpha1.ApprovalExpired, 2, 2)},
			2,
			contract.Answer{Phase: v1alpha1.ApprovalExpired, Requests: []types.UID{"r2"}},
		},
		"one does not answer, one denies": {
			[]contract.Delivery{of(1, v1alpha1.ApprovalExpired, 1, 2), of(2, v1alpha1.ApprovalDenied, 2, 2)},
			2,
			contract.Answer{Phase: v1alpha1.ApprovalDenied, By: []string{"p2"}, Reason: "because", Requests: []types.UID{"r2"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, contract.Answered(tc.given, 3, 0, digest, tc.seats)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// unsure is what was said of what came of the call.
func unsure(seq int64, phase v1alpha1.ApprovalPhase) contract.Delivery {
	d := of(seq, phase, 1, 1)
	d.Type = v1alpha1.ApprovalIndeterminate
	return d
}

// TestResolved takes the newest word about what came of the very call, and none about whether it may run.
func TestResolved(t *testing.T) {
	t.Parallel()
	other := unsure(9, v1alpha1.ApprovalHappened)
	other.Digest = "sha256:e"
	for name, tc := range map[string]struct {
		given []contract.Delivery
		want  int64
	}{
		"nobody has said anything":                  {nil, 0},
		"nobody has approved it in time":            {[]contract.Delivery{of(1, v1alpha1.ApprovalExpired, 1, 1)}, 0},
		"it was approved":                           {[]contract.Delivery{approved(1, 1, 1)}, 0},
		"nobody has said what came of it in time":   {[]contract.Delivery{unsure(1, v1alpha1.ApprovalExpired)}, 1},
		"to try again, and then that it happened":   {[]contract.Delivery{unsure(1, v1alpha1.ApprovalRetry), unsure(2, v1alpha1.ApprovalHappened)}, 2},
		"whatever the order in which they are read": {[]contract.Delivery{unsure(2, v1alpha1.ApprovalHappened), unsure(1, v1alpha1.ApprovalRetry)}, 2},
		"something else of other arguments":         {[]contract.Delivery{unsure(1, v1alpha1.ApprovalRetry), other}, 1},
		"an approval on the wrong question":         {[]contract.Delivery{unsure(1, v1alpha1.ApprovalApproved)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, said := contract.Resolved(tc.given, 3, 0, digest)
			if got.Seq != tc.want || said != (tc.want != 0) {
				t.Errorf("got %+v, %t", got, said)
			}
			w := contract.Wait{Cursor: 1, Asks: []contract.Ask{{Type: v1alpha1.ApprovalIndeterminate, Turn: 3, Digest: digest, Seats: 1}}}
			if over := w.Over(tc.given); over != (tc.want > 1) {
				t.Errorf("over is %t for what was not seen", over)
			}
		})
	}
}

// TestLawsOfAnswers goes through all inboxes of up to three deliveries about a call.
func TestLawsOfAnswers(t *testing.T) {
	t.Parallel()
	var choices []contract.Delivery
	for _, phase := range []v1alpha1.ApprovalPhase{v1alpha1.ApprovalApproved, v1alpha1.ApprovalDenied, v1alpha1.ApprovalExpired, v1alpha1.ApprovalWithdrawn} {
		for seat := int32(0); seat <= 2; seat++ {
			for seats := int32(0); seats <= 2; seats++ {
				choices = append(choices, of(0, phase, seat, seats))
			}
		}
	}
	var visit func(list []contract.Delivery)
	visit = func(list []contract.Delivery) {
		for want := range int32(3) {
			lawful(t, list, want)
		}
		if len(list) == 3 {
			return
		}
		for _, d := range choices {
			d.Seq = int64(len(list) + 1)
			visit(append(slices.Clone(list), d))
		}
	}
	visit(nil)
}

func lawful(t *testing.T, list []contract.Delivery, want int32) {
	t.Helper()
	a := contract.Answered(list, 3, 0, digest, want)
	says := func(phase v1alpha1.ApprovalPhase) bool {
		return slices.ContainsFunc(list, func(d contract.Delivery) bool { return d.Phase == phase })
	}
	stopped := says(v1alpha1.ApprovalDenied) || says(v1alpha1.ApprovalExpired)
	switch a.Phase {
	case v1alpha1.ApprovalApproved:
		for seat := int32(1); seat <= a.Seats; seat++ {
			if !slices.ContainsFunc(list, func(d contract.Delivery) bool { return d.Phase == v1alpha1.ApprovalApproved && d.Seat == seat }) {
				t.Errorf("%+v is approved without seat %d", list, seat)
			}
		}
		if stopped || a.Seats < 1 || len(a.Open) > 0 {
			t.Errorf("%+v is approved: %+v", list, a)
		}
	case v1alpha1.ApprovalPending:
		if stopped || len(a.Open) == 0 {
			t.Errorf("%+v is pending: %+v", list, a)
		}
	default:
		if !says(a.Phase) {
			t.Errorf("%+v is %s, which nobody said", list, a.Phase)
		}
		if says(v1alpha1.ApprovalDenied) && a.Phase != v1alpha1.ApprovalDenied {
			t.Errorf("%+v is %s, and somebody has denied it", list, a.Phase)
		}
	}
}

func TestOver(t *testing.T) {
	t.Parallel()
	first := contract.Ask{Turn: 3, Digest: digest, Seats: 2}
	second := contract.Ask{Turn: 3, Index: 1, Digest: digest, Seats: 1}
	forSecond := approved(7, 1, 1)
	forSecond.Index = 1
	tests := map[string]struct {
		wait  contract.Wait
		given []contract.Delivery
		want  bool
	}{
		"nothing was decided":                 {contract.Wait{Asks: []contract.Ask{first}}, nil, false},
		"one of two seats":                    {contract.Wait{Asks: []contract.Ask{first}}, []contract.Delivery{approved(1, 1, 2)}, false},
		"both seats":                          {contract.Wait{Asks: []contract.Ask{first}}, []contract.Delivery{approved(1, 1, 2), approved(2, 2, 2)}, true},
		"the last seat, after the wait began": {contract.Wait{Cursor: 1, Asks: []contract.Ask{first}}, []contract.Delivery{approved(1, 1, 2), approved(2, 2, 2)}, true},
		"denied before the wait began, which the segment saw": {
			contract.Wait{Cursor: 1, Asks: []contract.Ask{first}}, []contract.Delivery{of(1, v1alpha1.ApprovalDenied, 1, 2)}, false,
		},
		"denied while the segment parked": {
			contract.Wait{Asks: []contract.Ask{first}}, []contract.Delivery{of(1, v1alpha1.ApprovalDenied, 1, 2)}, true,
		},
		"expired":                                {contract.Wait{Asks: []contract.Ask{first}}, []contract.Delivery{of(1, v1alpha1.ApprovalExpired, 1, 2)}, true},
		"the second, which runs after the first": {contract.Wait{Asks: []contract.Ask{first, second}}, []contract.Delivery{forSecond}, false},
		"nothing is asked":                       {contract.Wait{}, nil, true},
	}
	for name, tc := range tests {
		if got := tc.wait.Over(tc.given); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAWaitThatNoSegmentLeaves(t *testing.T) {
	t.Parallel()
	const arguments = `{"amount":120}`
	sound := contract.Ask{
		Turn: 3, Tool: "payments/refund", Effect: v1alpha1.EffectSend, Arguments: arguments, Digest: contract.Digest([]byte(arguments)),
		Policy: v1alpha1.ApprovalPolicyReference{Namespace: "team", Name: "default", Rule: "money"}, Pool: "finance", Seats: 2, ExpiresSeconds: 3600,
	}
	asks := func(n int) (w contract.Wait) {
		for i := range n {
			a := sound
			a.Index = i
			w.Asks = append(w.Asks, a)
		}
		return w
	}
	but := func(change func(*contract.Ask)) contract.Wait {
		w := asks(2)
		change(&w.Asks[1])
		return w
	}
	shown := func(n int) contract.Wait {
		return but(func(a *contract.Ask) {
			a.Arguments = strings.Repeat("x", n)
			a.Digest = contract.Digest([]byte(a.Arguments))
		})
	}
	for name, w := range map[string]contract.Wait{
		"one ask": asks(1), "as many as can be": asks(contract.MaxAsks),
		"no rule asks":        but(func(a *contract.Ask) { a.Policy = v1alpha1.ApprovalPolicyReference{} }),
		"only the digest":     but(func(a *contract.Ask) { a.Arguments = "" }),
		"as much as is shown": shown(contract.MaxShownArguments),
		"a later turn":        but(func(a *contract.Ask) { a.Turn, a.Index = 4, 0 }),
		"as much as there is": but(func(a *contract.Ask) {
			a.Index, a.Tool, a.Seats, a.ExpiresSeconds, a.Pool = math.MaxInt32, strings.Repeat("t", 512), 5, 2592000, strings.Repeat("p", 63)
		}),
	} {
		if err := w.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, w := range map[string]contract.Wait{
		"no asks": {}, "too many asks": asks(contract.MaxAsks + 1), "a cursor below all": {Cursor: -1, Asks: asks(1).Asks},
		"more seats than there are": but(func(a *contract.Ask) { a.Seats = math.MaxInt32 }), "six seats": but(func(a *contract.Ask) { a.Seats = 6 }),
		"no seats": but(func(a *contract.Ask) { a.Seats = 0 }), "no turn": but(func(a *contract.Ask) { a.Turn = -1 }),
		"a turn beyond all": but(func(a *contract.Ask) { a.Turn = math.MaxInt32 + 1 }), "no index": but(func(a *contract.Ask) { a.Index = -1 }),
		"an index beyond all": but(func(a *contract.Ask) { a.Index = math.MaxInt32 + 1 }), "twice the same call": but(func(a *contract.Ask) { a.Index = 0 }),
		"in another order": but(func(a *contract.Ask) { a.Turn = 2 }), "no tool": but(func(a *contract.Ask) { a.Tool = "" }),
		"a tool that is too long": but(func(a *contract.Ask) { a.Tool = strings.Repeat("t", 513) }), "no such effect": but(func(a *contract.Ask) { a.Effect = "Burn" }),
		"more than is shown": shown(contract.MaxShownArguments + 1), "other arguments": but(func(a *contract.Ask) { a.Arguments = `{"amount":1}` }),
		"no digest": but(func(a *contract.Ask) { a.Digest = "" }), "half a digest": but(func(a *contract.Ask) { a.Digest = a.Digest[:70] }),
		"half a policy":         but(func(a *contract.Ask) { a.Policy.Name = "" }),
		"a rule that is long":   but(func(a *contract.Ask) { a.Policy.Rule = strings.Repeat("r", 64) }),
		"a policy that is long": but(func(a *contract.Ask) { a.Policy.Name = strings.Repeat("n", 254) }),
		"a namespace that is":   but(func(a *contract.Ask) { a.Policy.Namespace = strings.Repeat("n", 64) }),
		"no pool":               but(func(a *contract.Ask) { a.Pool = "" }), "a pool that is none": but(func(a *contract.Ask) { a.Pool = "Finance/x" }),
		"a pool that is long": but(func(a *contract.Ask) { a.Pool = strings.Repeat("p", 64) }), "no time": but(func(a *contract.Ask) { a.ExpiresSeconds = 0 }),
		"more than 30 days": but(func(a *contract.Ask) { a.ExpiresSeconds = 2592001 }),
	} {
		if err := w.Check(); err == nil {
			t.Errorf("%s: no error", name)
		} else if len(err.Error()) > 256 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}
