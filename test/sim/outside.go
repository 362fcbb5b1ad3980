package sim

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// reply is what the model answers, and when.
type reply struct {
	at     time.Time
	answer segment.Answered
	fault  *segment.CallError
}

// ask is one request to the model. It never answers the same twice: the calls of a turn are others when it is asked again.
func (w *world) ask(p *process, t segment.Think) reply {
	w.laws.asked(p)
	w.asked++
	r := reply{at: w.now.Add(time.Duration(1+w.d.n(3)) * time.Second)}
	if w.d.once(12) {
		r.at = w.now.Add(100 * time.Second)
	}
	switch {
	case w.d.once(7):
		r.fault = &segment.CallError{Retryable: true, Code: "Overloaded"}
	case w.d.once(12):
		r.fault = &segment.CallError{Retryable: true, Code: "RateLimited", RetryAfter: time.Duration(1+w.d.n(140)) * time.Second}
	case w.d.once(60):
		r.fault = &segment.CallError{Code: v1alpha1.ReasonRequestRefused}
	}
	r.answer = segment.Answered{Turn: t.Turn, Try: t.Try, Raw: []byte(`{"n":` + itoa(w.asked) + `}`), Finish: segment.FinishStop, Text: "done"}
	if t.Turn < len(w.script) {
		r.answer.Finish, r.answer.Text = segment.FinishCalls, ""
		for i := range w.script[t.Turn] {
			tool := (t.Turn + i + w.d.n(len(tools))) % len(tools)
			r.answer.Calls = append(r.answer.Calls, proposal(tool, w.asked*8+i))
		}
	}
	return r
}

// What a tool may do with a call.
const (
	toolAnswers = iota
	toolFails
	toolRefuses // it is not carried out, and says so
	toolSilent  // it is carried out, and nobody hears of it
)

type toolAnswer struct {
	at   time.Time
	kind int
}

// execute is a call that reaches its tool.
func (w *world) execute(p *process, permit gate.Permit) toolAnswer {
	a := toolAnswer{at: w.now.Add(time.Duration(w.d.n(4)) * time.Second)}
	if w.d.once(3) {
		a.kind = 1 + w.d.n(3)
	}
	if w.d.once(15) {
		a.at = w.now.Add(70 * time.Second) // later than its timeout
	}
	w.tell("   %s is sent %s: %s", permit.Tool().Name, permit.Arguments(), [...]string{"done", "fails", "refuses", "done, without an answer"}[a.kind])
	w.laws.executed(p, permit, a.kind != toolRefuses)
	return a
}

// decide is a person who answers a request, perhaps too late.
func (w *world) decide(q *v1alpha1.ApprovalRequest) {
	verdict := v1alpha1.VerdictApproved
	if w.d.once(4) {
		verdict = v1alpha1.VerdictDenied
	}
	by := [...]string{"alice", "bob", "carol"}[(len(w.cluster.requests)+w.d.n(3))%3] // asked again, it is another's turn
	for i, live := range w.cluster.requests {
		if live.UID != q.UID {
			continue
		}
		changed := *live
		changed.Spec.Decision.Verdict, changed.Spec.Decision.By = verdict, by
		if w.bugs.LateCounts {
			changed.Spec.ExpiresAt = metav1.NewTime(w.now.Add(time.Hour))
		}
		w.cluster.requests[i] = &changed
		w.cluster.changed(ofRequests)
		w.laws.decisions[string(q.UID)] = decision{verdict: verdict, by: by, digest: q.Spec.Call.Digest, inTime: w.now.Before(q.Spec.ExpiresAt.Time)}
		w.tell("   %s by %s", verdict, by)
	}
}
