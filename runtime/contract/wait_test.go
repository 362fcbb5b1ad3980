package contract_test

import (
	"fmt"
	"slices"
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
		"nobody has said anything":     {nil, 2, contract.Answer{Phase: v1alpha1.ApprovalPending, Seats: 2, Open: []int32{1, 2}}},
		"nobody is to be asked":        {nil, 0, pending},
		"another call was approved":    {[]contract.Delivery{elsewhere(func(d *contract.Delivery) { d.Index = 1 })}, 1, pending},
		"another turn was approved":    {[]contract.Delivery{elsewhere(func(d *contract.Delivery) { d.Turn = 2 })}, 1, pending},
		"other arguments were denied":  {[]contract.Delivery{elsewhere(func(d *contract.Delivery) { d.Digest, d.Phase = "sha256:e", v1alpha1.ApprovalDenied })}, 1, pending},
		"a word of a later version":    {[]contract.Delivery{of(1, "Deferred", 1, 1)}, 1, pending},
		"the request was withdrawn":    {[]contract.Delivery{of(1, v1alpha1.ApprovalWithdrawn, 1, 1)}, 1, pending},
		"the only seat has approved":   {[]contract.Delivery{approved(1, 1, 1)}, 1, contract.Answer{Phase: v1alpha1.ApprovalApproved, By: []string{"p1"}, Requests: []types.UID{"r1"}, Seats: 1}},
		"one of two seats":             {[]contract.Delivery{approved(1, 2, 2)}, 2, contract.Answer{Phase: v1alpha1.ApprovalPending, By: []string{"p1"}, Requests: []types.UID{"r1"}, Seats: 2, Open: []int32{1}}},
		"both seats":                   {[]contract.Delivery{approved(1, 2, 2), approved(2, 1, 2)}, 2, contract.Answer{Phase: v1alpha1.ApprovalApproved, By: []string{"p1", "p2"}, Requests: []types.UID{"r1", "r2"}, Seats: 2}},
		"the same seat twice":          {[]contract.Delivery{approved(1, 1, 2), approved(2, 1, 2)}, 2, contract.Answer{Phase: v1alpha1.ApprovalPending, By: []string{"p1"}, Requests: []types.UID{"r1"}, Seats: 2, Open: []int32{2}}},
		"a seat that there is not":     {[]contract.Delivery{approved(1, 2, 1)}, 1, pending},
		"a seat of none":               {[]contract.Delivery{approved(1, 1, 0)}, 2, contract.Answer{Phase: v1alpha1.ApprovalPending, Seats: 2, Open: []int32{1, 2}}},
		"approved, more are asked now": {[]contract.Delivery{approved(1, 1, 1)}, 3, contract.Answer{Phase: v1alpha1.ApprovalApproved, By: []string{"p1"}, Requests: []types.UID{"r1"}, Seats: 1}},
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
