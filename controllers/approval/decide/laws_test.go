package decide

import (
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// TestDecideLaws walks every shape that an observation can have and checks what must hold in all of them.
func TestDecideLaws(t *testing.T) {
	t.Parallel()
	honours := func(d Decision) bool {
		return d.Report.Final() && d.Report.Phase != v1alpha1.ApprovalExpired && d.Report.Phase != v1alpha1.ApprovalWithdrawn
	}
	// told says that the ledger has it already: then there is nothing left to decide.
	told := func(o Observed) bool { return o.Delivered != nil }
	laws := map[string]func(o Observed, d Decision) bool{
		"an end is final: nothing else is reported": func(o Observed, d Decision) bool {
			return o.recorded() == "" || d.Report == (Report{})
		},
		"no decision is honoured unless the guard holds": func(o Observed, d Decision) bool {
			return !honours(d) || told(o) || o.Guard == Holds
		},
		"a decision first seen after the expiry is not honoured": func(o Observed, d Decision) bool {
			return !honours(d) || told(o) || o.Now.Before(one)
		},
		"no decision is honoured for a run that is over or about a call that is settled": func(o Observed, d Decision) bool {
			return !honours(d) || told(o) || !o.RunGone && o.Known && !o.Over && !o.Settled
		},
		"no decision is honoured that was seen without the guard, or on a request that is older than the guard": func(o Observed, d Decision) bool {
			return !honours(d) || told(o) || len(o.Request.Status.Conditions) == 0 && !o.Request.CreationTimestamp.Time.Before(o.Since)
		},
		"nobody is asked again before the guard holds": func(o Observed, d Decision) bool {
			return d.Report.Reason != v1alpha1.ReasonNotGuarded || o.Guard == Holds
		},
		"nobody approves a call twice": func(o Observed, d Decision) bool {
			return d.Report.Phase != v1alpha1.ApprovalApproved || told(o) || !slices.Contains(o.Approvers, o.Request.Spec.Decision.By)
		},
		"whom the run acts for decides nothing, and neither does nobody": func(o Observed, d Decision) bool {
			by := o.Request.Spec.Decision.By
			return !honours(d) || told(o) || by != "" && by != o.Request.Spec.Requester.User
		},
		"what is honoured is what was decided": func(o Observed, d Decision) bool {
			return !honours(d) || told(o) || string(o.Request.Spec.Decision.Verdict) == string(d.Report.Phase)
		},
		"what is honoured answers what was asked": func(o Observed, d Decision) bool {
			return !honours(d) || told(o) || answers(o.Request.Spec.Type, o.Request.Spec.Decision.Verdict)
		},
		"a delivery says what was asked": func(o Observed, d Decision) bool {
			return d.Deliver == nil || (d.Deliver.Type == v1alpha1.ApprovalIndeterminate) == (o.Request.Spec.Type == v1alpha1.ApprovalIndeterminate)
		},
		"the status follows what the run was told": func(o Observed, d Decision) bool {
			return !told(o) || o.recorded() != "" || d.Report.Phase == o.Delivered.Phase
		},
		"what is delivered is what the status says": func(o Observed, d Decision) bool {
			if d.Deliver == nil {
				return true
			}
			phase := o.recorded()
			if phase == "" {
				phase = d.Report.Phase
			}
			return d.Deliver.Phase == phase && phase != v1alpha1.ApprovalWithdrawn
		},
		"every end but a withdrawal is delivered": func(o Observed, d Decision) bool {
			phase := o.recorded()
			if d.Report.Final() {
				phase = d.Report.Phase
			}
			return phase == "" || phase == v1alpha1.ApprovalWithdrawn || told(o) || !o.Known || d.Deliver != nil
		},
		"nothing is delivered twice, or to a run that the ledger does not know": func(o Observed, d Decision) bool {
			return d.Deliver == nil || !told(o) && o.Known
		},
		"a delivery names its request, and who decided if somebody did": func(o Observed, d Decision) bool {
			v := d.Deliver
			return v == nil || v.Request == o.Request.UID && v.Digest == digest && (v.By == "") == (v.Phase == v1alpha1.ApprovalExpired)
		},
		"the guard is asked at most once, and before anything else is done": func(o Observed, d Decision) bool {
			return !d.AskGuard || o.Guard == Unasked && reflect.DeepEqual(d, Decision{AskGuard: true})
		},
		"the guard is doubted only over a decision": func(o Observed, d Decision) bool {
			return d.Report.Guard != Broken || o.decided() && d.Report.Why != ""
		},
		"what stays open looks again, at the expiry at the latest": func(_ Observed, d Decision) bool {
			return d.Report.Phase != v1alpha1.ApprovalPending || !d.Wake.IsZero() && !d.Wake.After(one)
		},
		"a run that is over is not woken": func(o Observed, d Decision) bool {
			return !d.Poke || !o.RunGone && o.Known && !o.Over
		},
		"a run that goes on hears of every end": func(o Observed, d Decision) bool {
			return !d.Report.Final() || d.Poke || o.RunGone || !o.Known || o.Over
		},
		"arguments are never told": func(_ Observed, d Decision) bool {
			return !strings.Contains(d.Report.Message+d.Report.Why, "secret")
		},
		"a report has a reason and a message that an event can hold": func(_ Observed, d Decision) bool {
			r := d.Report
			return r == (Report{}) || r.Reason != "" && r.Message != "" && len(r.Message) <= contract.MaxMessage && len(r.Why) <= contract.MaxMessage
		},
	}
	n := 0
	for o := range everyObserved() {
		n++
		d := Decide(o)
		if n%101 == 0 && !reflect.DeepEqual(d, Decide(o)) {
			t.Fatalf("the same observation gives another decision\ngiven %+v\ngot %+v", o, d)
		}
		for law, holds := range laws {
			if !holds(o, d) {
				t.Fatalf("broken law: %s\ngiven %+v\nrequest %+v\ngot %+v", law, o, o.Request, d)
			}
		}
	}
	if n < 50_000 {
		t.Errorf("only %d observations", n)
	}
}

func everyObserved() iter.Seq[Observed] {
	return func(yield func(Observed) bool) {
		for r := range everyRequest() {
			for q := range everyQuestion() {
				for _, gone := range []bool{false, true} {
					for _, guard := range []Guard{Unasked, Holds, Broken} {
						for _, approvers := range [][]string{nil, {"bob"}, {"bob", "alice"}} {
							for _, since := range []time.Time{{}, made, made.Add(time.Hour)} {
								if !yield(Observed{Question: q, Request: r, RunGone: gone, Guard: guard, Why: "it is broken", Approvers: approvers, Since: since}) {
									return
								}
							}
						}
					}
				}
			}
		}
	}
}

func everyRequest() iter.Seq[*v1alpha1.ApprovalRequest] {
	decisions := []func(*v1alpha1.ApprovalRequest){
		func(*v1alpha1.ApprovalRequest) {},
		decidedBy(v1alpha1.VerdictApproved, "alice"),
		decidedBy(v1alpha1.VerdictApproved, ""),
		decidedBy(v1alpha1.VerdictApproved, "dana"),
		decidedBy(v1alpha1.VerdictDenied, "alice"),
		decidedBy(v1alpha1.VerdictDenied, ""),
		decidedBy(v1alpha1.VerdictRetry, "alice"),
		decidedBy(v1alpha1.VerdictHappened, "alice"),
		decidedBy(v1alpha1.VerdictNotHappened, "dana"),
		decidedBy("FromTheFuture", "alice"),
		func(r *v1alpha1.ApprovalRequest) {
			r.Spec.Decision = v1alpha1.Decision{Verdict: v1alpha1.VerdictApproved, By: "alice", Reason: strings.Repeat("ü", 1024)}
		},
	}
	phases := []v1alpha1.ApprovalPhase{
		"", v1alpha1.ApprovalPending, v1alpha1.ApprovalApproved, v1alpha1.ApprovalDenied, v1alpha1.ApprovalRetry, v1alpha1.ApprovalExpired, v1alpha1.ApprovalWithdrawn, "FromTheFuture",
	}
	return func(yield func(*v1alpha1.ApprovalRequest) bool) {
		for _, phase := range phases {
			for _, decide := range decisions {
				for _, asks := range []func(*v1alpha1.ApprovalRequest){func(*v1alpha1.ApprovalRequest) {}, unsure} {
					if !yield(request(at(phase), decide, asks)) || !yield(request(at(phase), decide, asks, doubted)) {
						return
					}
				}
			}
		}
	}
}

func everyQuestion() iter.Seq[Question] {
	bools := []bool{false, true}
	return func(yield func(Question) bool) {
		for _, now := range []time.Time{noon, one, one.Add(time.Hour)} {
			for _, known := range bools {
				for _, over := range bools {
					for _, settled := range bools {
						for _, d := range []*contract.Delivery{
							nil, delivered(v1alpha1.ApprovalApproved, "alice", ""), delivered(v1alpha1.ApprovalDenied, "bob", "no"), delivered(v1alpha1.ApprovalExpired, "", ""),
						} {
							if !yield(Question{Now: now, Known: known, Over: over, Settled: settled, Delivered: d}) {
								return
							}
						}
					}
				}
			}
		}
	}
}
