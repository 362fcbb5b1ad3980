package corpus

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
	"github.com/ekiden-dev/ekiden/test/bare"
)

// story is a run that one version leaves in the middle of something and another one goes on with.
type story struct {
	// leave makes the run and leaves it.
	leave func(t *testing.T, r *bare.Run)
	// then is what the manager decides about it when it comes back.
	then lifecycle.Effect
	// decide is what people do meanwhile, if anything.
	decide func(t *testing.T, r *bare.Run)
	// goes is the attempt that carries the run on, model what the model says from there.
	goes  ledger.AttemptKey
	model *segmenttest.Model
	// calls reach their tools from there. result is how the run ends.
	calls  []string
	result string
	// read is what the first request of the model has to hold: the session was read.
	read []string
}

// first and second are the attempts that the stories are about.
var (
	first  = ledger.AttemptKey{}
	again  = ledger.AttemptKey{Attempt: 1}
	second = ledger.AttemptKey{Segment: 1}
)

// closed is what a manager does about an attempt that has left an outcome.
func closed(k ledger.AttemptKey) lifecycle.Close {
	return lifecycle.Close{AttemptKey: k, End: lifecycle.AttemptEnd{Class: lifecycle.Yielded, Message: "it left an outcome"}}
}

func stories() map[string]story {
	return map[string]story{
		"between-two-segments": {
			leave: func(t *testing.T, r *bare.Run) {
				t.Helper()
				r.Admit(t, r.Snapshot(), bare.Allow())
				stop := make(chan struct{})
				r.Segment(t, first, closing{segmenttest.Script(segmenttest.Cut("The first \"half\" \u00e9 \u2028 ")), stop}, stop)
			},
			then: closed(first), goes: second, model: segmenttest.Script(segmenttest.Says("and the second.")),
			result: "The first \"half\" \u00e9 \u2028 and the second.", read: []string{"Order what is missing.", "The first \"half\""},
		},
		"killed-between-two-turns": {
			leave: func(t *testing.T, r *bare.Run) {
				t.Helper()
				r.Admit(t, r.Snapshot(), bare.Allow())
				r.Tools.Do = dies("look")
				r.Segment(t, first, segmenttest.Script(bare.Calls("order"), bare.Calls("look")), nil)
				killed(t, r, first)
			},
			// The read that was under way is done again, what was ordered is not.
			goes: again, model: segmenttest.Script(segmenttest.Says("It is ordered.")), calls: []string{`look{"n":0}`},
			result: "It is ordered.", read: []string{"done"},
		},
		"killed-in-a-call": {
			leave: func(t *testing.T, r *bare.Run) {
				t.Helper()
				r.Admit(t, r.Snapshot(), bare.Allow())
				r.Tools.Do = dies("order")
				r.Segment(t, first, segmenttest.Script(bare.Calls("order")), nil)
				killed(t, r, first)
			},
			goes: again, model: segmenttest.Script(segmenttest.Says("Nobody knows whether it was ordered.")),
			result: "Nobody knows whether it was ordered.", read: []string{"is unknown"},
		},
		"killed-in-a-call-with-a-key": {
			leave: func(t *testing.T, r *bare.Run) {
				t.Helper()
				s := r.Snapshot()
				for i := range s.Agent.Tools {
					s.Agent.Tools[i].Idempotency = v1alpha1.IdempotencyKey
				}
				r.Admit(t, s, bare.Allow())
				r.Tools.Do = dies("order")
				r.Segment(t, first, segmenttest.Script(bare.Calls("order")), nil)
				killed(t, r, first)
			},
			goes: again, model: segmenttest.Script(segmenttest.Says("It is ordered.")), calls: []string{`order{"n":0}`},
			result: "It is ordered.", read: []string{"done"},
		},
		"in-doubt-and-asked": {
			leave: inDoubt, then: closed(again), decide: resolves(v1alpha1.ApprovalHappened), goes: second,
			model: segmenttest.Script(segmenttest.Says("It was ordered.")), result: "It was ordered.", read: []string{"alice", "not today"},
		},
		"in-doubt-and-told-to-try-again": {
			leave: func(t *testing.T, r *bare.Run) {
				t.Helper()
				inDoubt(t, r)
				resolves(v1alpha1.ApprovalRetry)(t, r)
			},
			then: closed(again), goes: second, model: segmenttest.Script(segmenttest.Says("It is ordered.")), calls: []string{`order{"n":0}`},
			result: "It is ordered.", read: []string{"done"},
		},
		"parked-and-approved": {
			leave: func(t *testing.T, r *bare.Run) {
				t.Helper()
				r.Admit(t, r.Snapshot(), contract.PolicySet{})
				r.Segment(t, first, segmenttest.Script(bare.Calls("look", "order")), nil)
			},
			then: closed(first), decide: decides(v1alpha1.ApprovalApproved, 1, 1), goes: second,
			model: segmenttest.Script(segmenttest.Says("It is ordered.")), calls: []string{`order{"n":1}`}, result: "It is ordered.", read: []string{"done"},
		},
		"parked-and-denied": {
			leave: func(t *testing.T, r *bare.Run) {
				t.Helper()
				r.Admit(t, r.Snapshot(), contract.PolicySet{})
				r.Segment(t, first, segmenttest.Script(bare.Calls("look", "order")), nil)
			},
			then: closed(first), decide: decides(v1alpha1.ApprovalDenied, 1, 1), goes: second,
			model: segmenttest.Script(segmenttest.Says("It was not to be.")), result: "It was not to be.", read: []string{"denied by alice: not today"},
		},
		"parked-with-one-of-two-approvals": {
			leave: func(t *testing.T, r *bare.Run) {
				t.Helper()
				r.Admit(t, r.Snapshot(), twoSeats())
				r.Segment(t, first, segmenttest.Script(bare.Calls("look", "order")), nil)
				decides(v1alpha1.ApprovalApproved, 1, 2)(t, r)
			},
			then: closed(first), decide: decides(v1alpha1.ApprovalApproved, 2, 2), goes: second,
			model: segmenttest.Script(segmenttest.Says("It is ordered.")), calls: []string{`order{"n":1}`}, result: "It is ordered.", read: []string{"done"},
		},
		"a-try-that-failed": {
			leave: func(t *testing.T, r *bare.Run) {
				t.Helper()
				r.Admit(t, r.Snapshot(), bare.Allow())
				stop := make(chan struct{})
				close(stop)
				busy := segment.CallError{Retryable: true, Code: "Overloaded", Message: "529", RetryAfter: time.Second}
				r.Segment(t, first, segmenttest.Script(segmenttest.Fails(busy)), stop)
				killed(t, r, first)
			},
			goes: again, model: segmenttest.Script(segmenttest.Says("Here I am.")), result: "Here I am.", read: []string{"Order what is missing."},
		},
		"calls-that-were-refused-and-failed": {
			leave: func(t *testing.T, r *bare.Run) {
				t.Helper()
				r.Admit(t, r.Snapshot(), bare.Allow())
				r.Tools.Do = func(_ context.Context, p gate.Permit) (segment.CallResult, error) {
					if p.Turn() > 0 {
						return segment.CallResult{}, segmenttest.ErrKilled
					}
					return segment.CallResult{Kind: segment.ResultFailed, Code: "ToolFailed", Text: "out of stock \u00fc", Bytes: 14}, nil
				}
				mixed := segmenttest.Calls(segmenttest.Call("order", `{"n": 1}`), segmenttest.Call("order", `not JSON`))
				r.Segment(t, first, segmenttest.Script(mixed, bare.Calls("look")), nil)
				killed(t, r, first)
			},
			goes: again, model: segmenttest.Script(segmenttest.Says("There is none.")), calls: []string{`look{"n":0}`},
			result: "There is none.", read: []string{"out of stock \u00fc", "cannot be used"},
		},
	}
}

// closing has the segment hand the run over after its first answer.
type closing struct {
	segment.Model
	stop chan struct{}
}

func (c closing) Answer(ctx context.Context, p prompt.Prompt, emit func(string)) (segment.Answer, error) {
	close(c.stop)
	return c.Model.Answer(ctx, p, emit)
}

// dies is a tool in whose call the process dies.
func dies(tool string) func(context.Context, gate.Permit) (segment.CallResult, error) {
	return func(_ context.Context, p gate.Permit) (segment.CallResult, error) {
		if p.Tool().Tool == tool {
			return segment.CallResult{}, segmenttest.ErrKilled
		}
		return segment.CallResult{Kind: segment.ResultAnswered, Text: "done", Bytes: 4}, nil
	}
}

// killed writes down that the attempt's process was seen to have died.
func killed(t *testing.T, r *bare.Run, k ledger.AttemptKey) {
	t.Helper()
	end := ledger.AttemptEnd{Class: lifecycle.Crashed, Message: "exit code 137", Terminated: true}
	if err := r.Ledger.EndAttempt(t.Context(), r.UID, k, end); err != nil {
		t.Fatal(err)
	}
}

// inDoubt has a process die in a call of which people are to be asked what came of it, and the next one ask.
func inDoubt(t *testing.T, r *bare.Run) {
	t.Helper()
	s := r.Snapshot()
	s.Agent.OnIndeterminate = v1alpha1.IndeterminateAsk
	r.Admit(t, s, bare.Allow())
	r.Tools.Do = dies("order")
	r.Segment(t, first, segmenttest.Script(bare.Calls("order")), nil)
	killed(t, r, first)
	r.Tools.Do = nil
	r.Segment(t, again, segmenttest.Script(), nil)
}

// resolves gives what a person said came of the first call.
func resolves(phase v1alpha1.ApprovalPhase) func(*testing.T, *bare.Run) {
	return func(t *testing.T, r *bare.Run) {
		t.Helper()
		deliver(t, r, contract.Delivery{
			Type: v1alpha1.ApprovalIndeterminate, Digest: contract.Digest([]byte(`{"n":0}`)), Seat: 1, Seats: 1, Phase: phase, By: "alice", Reason: "not today",
		})
	}
}

// decides gives what a person said about the second call of the first turn.
func decides(phase v1alpha1.ApprovalPhase, seat, seats int32) func(*testing.T, *bare.Run) {
	return func(t *testing.T, r *bare.Run) {
		t.Helper()
		deliver(t, r, contract.Delivery{
			Index: 1, Digest: contract.Digest([]byte(`{"n":1}`)), Seat: seat, Seats: seats,
			Phase: phase, By: map[int32]string{1: "alice", 2: "bob"}[seat], Reason: "not today",
		})
	}
}

// deliver delivers what was said by a request about the first turn.
func deliver(t *testing.T, r *bare.Run, d contract.Delivery) {
	t.Helper()
	d.Request = types.UID(fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", d.Seat))
	if err := r.Ledger.Deliver(t.Context(), r.UID, d); err != nil {
		t.Fatal(err)
	}
}

func twoSeats() contract.PolicySet {
	p := bare.Allow()
	p.Sources[0].Rules = []v1alpha1.PolicyRule{{
		Name: "two", Match: v1alpha1.PolicyMatch{Tools: []string{"crm/order"}}, Action: v1alpha1.PolicyRequireApproval,
		Approval: v1alpha1.PolicyApproval{Pool: "finance", Seats: 2, ExpiresSeconds: 86400},
	}}
	return p
}
