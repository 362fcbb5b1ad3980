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

// settle gives each call to the answer that proposed it. One whose answer cannot be read, or is not there, gets a step of its own.
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

	proposed := map[int]*Step{}
	for _, of := range steps {
		for i := range of {
			if of[i].Answered != nil {
				proposed[of[i].Turn] = &of[i]
			}
		}
	}
	stray := map[int]*Step{}
	for _, c := range ordered {
		switch {
		case proposed[c.Turn] != nil:
			proposed[c.Turn].Calls = append(proposed[c.Turn].Calls, c)
		case stray[c.Turn] != nil:
			stray[c.Turn].Calls = append(stray[c.Turn].Calls, c)
		default:
			stray[c.Turn] = &Step{
				At: cmp.Or(c.BegunAt, c.SettledAt), Generation: c.Generation, Turn: c.Turn, Calls: []Call{c},
				Unreadable: "the answer that proposed these calls is not among what can be read",
			}
		}
	}
	for _, s := range stray {
		n := s.Calls[0].Segment
		steps[n] = append(steps[n], *s)
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
			p.call(i, &proposed, known[i])
			delete(known, i)
		}
	}
	for _, c := range s.Calls {
		if known[c.Index] != nil {
			p.call(c.Index, nil, &c)
		}
	}
}

// call tells of a call that was proposed so, or of which no proposal can be read. c is nil for one that is not in the journal.
func (p *printer) call(index int, proposed *segment.ProposedCall, c *Call) {
	name := ""
	switch {
	case proposed != nil:
		name = proposed.Tool
	case c != nil:
		name = c.Tool
	}
	p.line("  call %d: %s", index, name)
	if proposed != nil {
		p.text(proposed.Arguments)
	}
	if c == nil {
		p.line("    not begun")
		return
	}
	for _, d := range c.Decisions {
		p.line("    %s  %s", instant(d.At), d.words())
	}
	if !c.BegunAt.IsZero() {
		p.line("    %s  begun: %s", instant(c.BegunAt), c.Tool+c.grounds())
	}
	switch {
	case c.Result != nil:
		p.line("    %s  %s", instant(c.SettledAt), came(*c))
		p.result(*c.Result)
	case !c.BegunAt.IsZero():
		p.line("    has no result yet; it may have been sent")
	default:
		p.line("    not begun")
	}
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
	return strings.ToLower(string(d.Phase)) + by + seat + why
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
