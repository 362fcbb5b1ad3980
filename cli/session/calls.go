package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// Call is what the journal holds of a call. What the model proposed, its arguments in particular, is with the answer that
// proposed it.
type Call struct {
	Turn  int `json:"turn"`
	Index int `json:"index"`
	// Segment and Generation are those that last began or settled it.
	Segment    int   `json:"segment"`
	Generation int64 `json:"generation"`
	// Tool is the tool, as server/tool.
	Tool        string               `json:"tool"`
	Effect      v1alpha1.Effect      `json:"effect,omitempty"`
	Idempotency v1alpha1.Idempotency `json:"idempotency,omitempty"`
	// Digest is that of the canonical arguments.
	Digest string `json:"digest,omitempty"`
	Key    string `json:"key,omitempty"`
	// Rule let the call through, under this version of the policy.
	Rule          string `json:"rule,omitempty"`
	PolicyVersion int64  `json:"policyVersion"`
	// Approvals are the requests by which it was approved, ApprovedBy those who approved.
	Approvals  []types.UID `json:"approvals,omitempty"`
	ApprovedBy []string    `json:"approvedBy,omitempty"`
	// Decisions are what people decided about it, oldest first.
	Decisions []Decision `json:"decisions,omitempty"`
	// BegunAt is when its intent was written, just before it was sent. Zero: nothing of it was sent.
	BegunAt   time.Time           `json:"begunAt,omitzero"`
	SettledAt time.Time           `json:"settledAt,omitzero"`
	Result    *segment.CallResult `json:"result,omitempty"`
}

// Decision is what was decided on a seat of a call.
type Decision struct {
	At time.Time `json:"at"`
	contract.Delivery
}

// at is when it first did something, or zero if it has not.
func (c Call) at() time.Time { return cmp.Or(c.BegunAt, c.SettledAt) }

// settle gives each call to the answer that proposed it, or, if another segment made it, to a step of that one. A call whose
// answer cannot be read, or is not there, gets a step of its own too.
func settle(steps map[int][]Step, r Rows) {
	calls := map[segment.CallKey]*Call{}
	for _, c := range r.Calls {
		calls[segment.CallKey{Turn: c.Turn, Index: c.Index}] = &c
	}
	for _, d := range r.Inbox {
		k := segment.CallKey{Turn: d.Turn, Index: d.Index}
		if calls[k] == nil { // decided, and not begun yet
			calls[k] = &Call{Turn: d.Turn, Index: d.Index, Segment: max(r.Segment, 0), Digest: d.Digest}
		}
		calls[k].Decisions = append(calls[k].Decisions, d)
	}
	ordered := make([]Call, 0, len(calls))
	for _, c := range calls {
		ordered = append(ordered, *c)
	}
	slices.SortFunc(ordered, func(a, b Call) int { return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Index, b.Index)) })

	type proposal struct {
		step    *Step
		segment int
	}
	proposed := map[int]proposal{}
	for n, of := range steps {
		for i := range of {
			if of[i].Answered != nil {
				proposed[of[i].Turn] = proposal{&of[i], n}
			}
		}
	}
	type place struct{ segment, turn int }
	apart := map[place]*Step{}
	var places []place // in the order of their calls
	for _, c := range ordered {
		from, known := proposed[c.Turn]
		if known && (from.segment == c.Segment || c.at().IsZero()) {
			from.step.Calls = append(from.step.Calls, c)
			continue
		}
		at := place{c.Segment, c.Turn}
		if apart[at] == nil {
			places = append(places, at)
			apart[at] = &Step{At: c.at(), Generation: c.Generation, Turn: c.Turn, Resumed: known}
			if !known {
				apart[at].Unreadable = "the answer that proposed these calls is not among what can be read"
			}
		}
		apart[at].Calls = append(apart[at].Calls, c)
	}
	for _, at := range places {
		s, of := apart[at], steps[at.segment]
		i := slices.IndexFunc(of, func(other Step) bool { return !s.At.IsZero() && other.At.After(s.At) })
		if i < 0 {
			i = len(of)
		}
		steps[at.segment] = slices.Insert(of, i, *s)
	}
}

// outcome reads what is waited for. What does not parse is marked.
func (o OutcomeRow) outcome() Outcome {
	out := o.Outcome
	if o.Wait != "" {
		out.Wait = &contract.Wait{}
		if err := json.Unmarshal([]byte(o.Wait), out.Wait); err != nil {
			out.Wait, out.Unreadable = nil, "what it waits for: "+err.Error()
		}
	}
	return out
}

// beginning is how much of a result is told, in bytes and lines. JSON holds all of it.
const (
	beginning      = 1000
	beginningLines = 12
)

// calls tells of the calls of a step: those that were proposed, then those of which no proposal can be read.
func (p *printer) calls(s Step) {
	known := map[int]*Call{}
	for i := range s.Calls {
		known[s.Calls[i].Index] = &s.Calls[i]
	}
	if s.Answered != nil {
		for i, proposed := range s.Answered.Calls {
			if c := known[i]; c != nil {
				p.until(c.at())
			}
			p.line("  call %d: %s", i, proposed.Tool)
			p.text(proposed.Arguments)
			switch c := known[i]; {
			case c != nil && !c.at().IsZero():
				p.call(*c)
			default:
				p.waits(segment.CallKey{Turn: s.Turn, Index: i})
			}
			delete(known, i)
		}
	}
	for _, c := range s.Calls {
		if known[c.Index] == nil {
			continue
		}
		p.until(c.at())
		name := fmt.Sprintf("call %d", c.Index)
		if s.Resumed { // its turn is of another segment
			name += fmt.Sprintf(" of turn %d", c.Turn)
		}
		p.line("  %s: %s", name, c.Tool)
		if c.at().IsZero() {
			p.line("    not begun")
			continue
		}
		p.call(c)
	}
}

// waits tells of a call that its segment proposed and did not make.
func (p *printer) waits(k segment.CallKey) {
	later, made := p.made[k]
	switch {
	case p.asked[k] && made:
		p.line("    waits for approval; segment %d goes on with it", later)
	case p.asked[k] && p.over:
		p.line("    waited for approval until the run ended, and was not begun")
	case p.asked[k]:
		p.line("    waits for approval")
	case made:
		p.line("    segment %d goes on with it", later)
	default:
		p.line("    not begun")
	}
}

// call tells what became of a call.
func (p *printer) call(c Call) {
	if !c.BegunAt.IsZero() {
		p.line("    %s  begun: %s", instant(c.BegunAt), c.Tool+c.grounds())
	}
	if c.Result == nil {
		p.line("    has no result yet; it may have been sent")
		return
	}
	p.line("    %s  %s", instant(c.SettledAt), came(c))
	p.result(*c.Result)
}

// until tells the decisions that came before an instant. They are given while nobody works on the run, or while a segment works
// on another call, so they stand where their time is and not with their call. One that came during a call stands after it.
func (p *printer) until(t time.Time) {
	for len(p.decisions) > 0 && p.decisions[0].At.Before(t) {
		p.decision()
	}
}

func (p *printer) decision() {
	d := p.decisions[0]
	p.decisions = p.decisions[1:]
	p.line("  %s  call %d of turn %d: %s", instant(d.At), d.Index, d.Turn, d.words())
}

func (d Decision) words() string {
	seat, by, why := "", "", ""
	if d.Seats > 1 {
		seat = fmt.Sprintf(" (seat %d of %d)", d.Seat, d.Seats)
	}
	if d.By != "" {
		by = " by " + d.By
	}
	if d.Reason != "" {
		why = ": " + d.Reason
	}
	what := strings.ToLower(string(d.Phase))
	switch d.Phase {
	case v1alpha1.ApprovalHappened:
		what = "said to have taken effect"
	case v1alpha1.ApprovalNotHappened:
		what = "said not to have taken effect"
	case v1alpha1.ApprovalRetry:
		what = "to be made again"
	default:
	}
	return what + by + seat + why
}

// grounds is as what and why a call was let through.
func (c Call) grounds() string {
	var b strings.Builder
	if c.Effect != "" {
		b.WriteString(" (" + string(c.Effect) + ")")
	}
	if c.Digest != "" {
		b.WriteString(", arguments " + c.Digest)
	}
	if len(c.ApprovedBy) > 0 {
		b.WriteString(", approved by " + strings.Join(c.ApprovedBy, " and "))
	}
	if c.Rule != "" {
		b.WriteString(", by rule " + c.Rule)
	}
	return b.String()
}

// came is what came of a call.
func came(c Call) string {
	code := ""
	if c.Result.Code != "" {
		code = " " + c.Result.Code
	}
	size := fmt.Sprintf(", %d bytes", c.Result.Bytes)
	switch c.Result.Kind {
	case segment.ResultAnswered:
		return "sent and answered" + code + size
	case segment.ResultFailed:
		return "failed" + code + size
	case segment.ResultIndeterminate:
		return "indeterminate" + code + ": sent, and nobody knows what came of it"
	case segment.ResultRefused:
		return "refused" + code + ", not sent"
	default:
		return string(c.Result.Kind) + code + size
	}
}

func (p *printer) result(r segment.CallResult) {
	if r.Text == "" {
		return
	}
	shown := contract.Clip(r.Text, beginning)
	if lines := strings.SplitAfter(shown, "\n"); len(lines) > beginningLines {
		shown = strings.Join(lines[:beginningLines], "")
	}
	p.text(shown)
	if len(shown) < len(r.Text) {
		p.line("    the first %d of the %d bytes that the model read", len(shown), len(r.Text))
	}
}

// wait tells what an outcome waits for.
func (p *printer) wait(w *contract.Wait) {
	if w == nil {
		return
	}
	for _, a := range w.Asks {
		p.line("    asks %s for %d to approve call %d of turn %d, %s (%s), arguments %s, within %s", a.Pool, a.Seats, a.Index, a.Turn, a.Tool, string(a.Effect),
			a.Digest, (time.Duration(a.ExpiresSeconds) * time.Second).String())
	}
}
