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
			tool := (w.first + t.Turn + i + w.d.n(len(tools))) % len(tools)
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
	toolLoses   // it is not carried out, and nobody hears of it
)

// toolAnswer is what becomes of a call. fatal says that its process does not live to hear of it.
type toolAnswer struct {
	at    time.Time
	kind  int
	fatal bool
}

// fate is what becomes of a call, and whether its process dies of it.
type fate struct {
	kind int
	dies bool
}

var fates = []fate{{toolAnswers, false}, {toolSilent, false}, {toolLoses, false}, {toolSilent, true}, {toolLoses, true}}

// execute is a call that reaches its tool.
func (w *world) execute(p *process, permit gate.Permit) toolAnswer {
	a := toolAnswer{at: w.now.Add(time.Duration(w.d.n(4)) * time.Second)}
	switch {
	case len(w.fates) > 0 && !repeatable(permit.Tool()):
		a.kind, a.fatal = w.fates[0].kind, w.fates[0].dies
		w.fates = w.fates[1:]
	case w.d.once(3):
		a.kind = toolFails + w.d.n(4)
	}
	if w.d.once(15) {
		a.at = w.now.Add(70 * time.Second) // later than its timeout
	}
	w.tell("   %s is sent %s: %s", permit.Tool().Name, permit.Arguments(), [...]string{"done", "fails", "refuses", "done, without an answer", "not done, without an answer"}[a.kind])
	done := a.kind != toolRefuses && a.kind != toolLoses
	if done {
		w.done[segment.CallKey{Turn: permit.Turn(), Index: permit.Index()}] = true
	}
	w.laws.executed(p, permit, done)
	return a
}

// probeAnswer is what a probe says, and when. Empty is no answer; what cannot be read is one all the same.
type probeAnswer struct {
	at   time.Time
	text string
	says v1alpha1.Verdict
}

// probed is a question that reaches its tool. A probe is honest, and does not always tell.
func (w *world) probed(k segment.CallKey) probeAnswer {
	a := probeAnswer{at: w.now.Add(time.Duration(w.d.n(3)) * time.Second)}
	if w.d.once(10) {
		a.at = w.now.Add(30 * time.Second) // later than its timeout
	}
	switch {
	case w.deaf > 0:
		w.deaf--
	case w.d.once(4):
	case w.d.once(4):
		a.text = `{"found": "perhaps"}`
	case w.done[k]:
		a.text, a.says = `{"found": true}`, v1alpha1.VerdictHappened
	default:
		a.text, a.says = `{"found": false}`, v1alpha1.VerdictNotHappened
	}
	w.tell("   the probe is asked about %s and says: %s", keyName(k), a.text)
	return a
}

// requestsAbout is how many requests are about the call of q.
func (w *world) requestsAbout(q *v1alpha1.ApprovalRequest) (n int) {
	for _, other := range w.cluster.requests {
		if *other.Spec.Call.Turn == *q.Spec.Call.Turn && *other.Spec.Call.Index == *q.Spec.Call.Index {
			n++
		}
	}
	return n
}

// words are what people may say of a call of which nobody knows.
var words = []v1alpha1.Verdict{v1alpha1.VerdictRetry, v1alpha1.VerdictNotHappened, v1alpha1.VerdictHappened}

// maxAsks is how often people are asked what came of calls before they have had enough.
const maxAsks = 5

// decide is a person who answers a request, perhaps too late.
func (w *world) decide(q *v1alpha1.ApprovalRequest) {
	verdict := v1alpha1.VerdictApproved
	switch {
	case q.Spec.Type == v1alpha1.ApprovalIndeterminate && w.asks > maxAsks: // a policy may stand against every Retry
		verdict = v1alpha1.VerdictHappened
	case q.Spec.Type == v1alpha1.ApprovalIndeterminate:
		w.asks++
		verdict = words[(w.opinion+w.d.n(len(words)))%len(words)]
	case w.d.once(4):
		verdict = v1alpha1.VerdictDenied
	}
	by := [...]string{"alice", "bob", "carol"}[(w.requestsAbout(q)+w.d.n(3))%3] // asked again, it is another's turn
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
		w.laws.decisions[string(q.UID)] = decision{kind: q.Spec.Type, verdict: verdict, by: by, digest: q.Spec.Call.Digest, inTime: w.now.Before(q.Spec.ExpiresAt.Time)}
		w.tell("   %s by %s", verdict, by)
	}
}
