package segment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
)

// Doubt is what this process has found out about a call that may have been sent and is not settled.
//
//	begun, not settled ─┬─ a person has said ──┬─ Happened ───────────► answered
//	                    │                      ├─ NotHappened ────────► failed
//	                    │                      ├─ Retry, and it is gone ► made again
//	                    │                      └─ nothing in time ────► indeterminate
//	                    ├─ harmless to repeat ─────────────────────────► made again
//	                    ├─ the probe has said ─┬─ it happened ────────► answered
//	                    │                      └─ not, and it is gone ► made again
//	                    └─ onIndeterminate ────┬─ Ask ────────────────► the run waits
//	                                           └─ TellModel, FailRun ─► indeterminate
//
// Whatever makes it again keeps the key, and none of it does before the process that made it is gone: of two that send, the probe
// and the person have seen one.
type Doubt struct {
	// Told is what the model is told if nothing more is found out. It is nil of a call that this process has not tried.
	Told *CallResult
	// Probed is what the probe has said since the call was last tried, or nil if it was not asked.
	Probed *Finding
	// Again is how often this process has made the call again because of what the probe said.
	Again int
}

// Finding is what a probe has found out about a call.
type Finding struct {
	// Says is Happened or NotHappened, or empty if the probe could not tell.
	Says v1alpha1.Verdict
	// Text is the answer of the probe, or why it could not tell.
	Text string
}

// inDoubt names the act for a call that may have been sent and is not settled. Nil means that it may be made again.
func (s Situation) inDoubt(t Transcript, a Answered, i int) Act {
	c := s.Journal[CallKey{a.Turn, i}]
	d := s.Doubts[c.CallKey]
	word, said := s.said(c, d)
	switch {
	case said && word.Phase == v1alpha1.ApprovalHappened:
		return c.settled(happened(word))
	case said && word.Phase == v1alpha1.ApprovalNotHappened:
		return c.settled(notHappened(word))
	case said && word.Phase == v1alpha1.ApprovalExpired:
		return c.settled(d.told("People were asked what came of it, and nobody said so in time."))
	case said && c.again():
		return nil
	case said:
		return c.settled(d.told("A person wanted it made again, which was not done: the process that made it may still be at work."))
	case d.Told == nil && c.repeatable():
		return nil
	default:
		return s.findOut(t, a, i, d)
	}
}

// said is what a person has said of the call since it was last made.
func (s Situation) said(c Call, d Doubt) (contract.Delivery, bool) {
	word, said := contract.Resolved(s.Inbox, c.Turn, c.Index, c.Digest)
	return word, said && d.Told == nil && !slices.Contains(c.Approvals, word.Request)
}

// wanted is the newest word of a person that a call is to be made again, or nil. Each intent that makes it again holds it, also one
// that a probe has led to: it was said about an earlier try, and is used up.
func (s Situation) wanted(c Call) *contract.Delivery {
	if word, said := contract.Resolved(s.Inbox, c.Turn, c.Index, c.Digest); said && word.Phase == v1alpha1.ApprovalRetry {
		return &word
	}
	return nil
}

// again reports whether the call may be made again if somebody knows that this is right.
func (c Call) again() bool { return c.Gone || c.repeatable() }

// findOut asks the probe, heeds what it has said, and else goes by the rule of the definition. Nil means that the call may be made
// again.
func (s Situation) findOut(t Transcript, a Answered, i int, d Doubt) Act {
	c := s.Journal[CallKey{a.Turn, i}]
	if d.Probed == nil {
		permit, why := s.Gate.Probe(s.proposal(a, i), s.circumstances(0))
		switch {
		case permit.Valid():
			return s.probe(t, c, d, permit)
		case why != "":
			d.Probed = &Finding{Text: why}
		}
	}
	switch p := d.Probed; {
	case p != nil && p.Says == v1alpha1.VerdictHappened:
		return c.settled(seen(p.Text))
	case p != nil && p.Says == v1alpha1.VerdictNotHappened && c.again() && d.Again+1 < int(s.Retry.MaxAttempts):
		return nil
	}
	return s.byRule(a, i, d)
}

// probe asks, if there is time left in this segment.
func (s Situation) probe(t Transcript, c Call, d Doubt, permit gate.ProbePermit) Act {
	act := s.handOver(t, s.Now.Add(time.Duration(permit.Tool().TimeoutSeconds)*time.Second))
	y, yields := act.(Yield)
	switch {
	case act == nil:
		return Probe{permit}
	case yields && y.Outcome.Yield == contract.YieldCeiling: // nobody will ask
		return c.settled(d.told(""))
	default:
		return act
	}
}

// byRule goes by the rule of the definition. FailRun ends the run once the call is settled.
func (s Situation) byRule(a Answered, i int, d Doubt) Act {
	c := s.Journal[CallKey{a.Turn, i}]
	if s.OnIndeterminate != v1alpha1.IndeterminateAsk {
		return c.settled(d.told(""))
	}
	return Yield{contract.Outcome{Yield: contract.YieldWaiting, Wait: &contract.Wait{
		Cursor: s.cursor(), Asks: []contract.Ask{s.Gate.Doubt(s.proposal(a, i), s.circumstances(0), c.known(d))},
	}}}
}

// known is what is known of the call, for whoever is asked.
func (c Call) known(d Doubt) string {
	note := "The process that made this call was lost before it had an answer."
	if d.Told != nil {
		note = "The call was sent and no answer tells what came of it."
	}
	if p := d.Probed; p != nil && p.Says == v1alpha1.VerdictNotHappened {
		note += " The probe of the tool has not seen it happen."
	} else if p != nil {
		note += " The probe of the tool could not tell: " + p.Text + "."
	}
	if !c.again() {
		note += " The process that made it was not seen to end, so that Retry does not make it again."
	}
	return note
}

// settled settles the call with what was found out.
func (c Call) settled(r CallResult) Act {
	r.Bytes = max(r.Bytes, int64(len(r.Text)))
	return Refuse{Settlement{CallKey: c.CallKey, Tool: c.Tool, Effect: c.Effect, Digest: c.Digest, Result: r}}
}

// told is what the model is told of a call of which nothing more is found out. besides is a sentence more, or empty.
func (d Doubt) told(besides string) CallResult {
	r := unknown()
	if d.Told != nil {
		r = *d.Told
	}
	r.Text = strings.TrimSpace(r.Text + " " + besides)
	return r
}

func happened(w contract.Delivery) CallResult {
	return CallResult{Kind: ResultAnswered, Text: fmt.Sprintf("The answer of the call was lost, and its tool was not asked again: %s. Do not repeat it.", says(w, "it took effect"))}
}

func notHappened(w contract.Delivery) CallResult {
	return CallResult{
		Kind: ResultFailed, Code: CodeNotHappened,
		Text: fmt.Sprintf("The call was not carried out: %s. If it is still wanted, propose it again.", says(w, "it did not take effect")),
	}
}

// CodeNotHappened means that a person says that the call did not take effect.
const CodeNotHappened = v1alpha1.ReasonNotHappened

// says is who said what of a call, and why, in one line.
func says(w contract.Delivery, what string) string {
	line := func(s string, limit int) string {
		return strings.TrimRight(contract.Clip(strings.Join(strings.Fields(s), " "), limit), ". ")
	}
	who := line(w.By, 128)
	if who == "" {
		who = "somebody"
	}
	text := who + " says that " + what
	if why := line(w.Reason, 512); why != "" {
		text += ": " + why
	}
	return text
}

// seen is the result of a call that the probe has seen.
func seen(text string) CallResult {
	return CallResult{Kind: ResultAnswered, Text: "The answer of the call was lost. It took effect: its tool was asked about it, and the answer was:\n" + text}
}

// abandoned settles a call that this process has given up, in a run that ends before anybody finds out more; nil if there is none.
func (s Situation) abandoned(t Transcript) Act {
	a, _ := t.last().(Answered)
	for i := range a.Calls {
		c := s.Journal[CallKey{a.Turn, i}]
		switch d := s.Doubts[c.CallKey]; {
		case !c.Begun || c.Result != nil || d.Told == nil:
		case d.Probed != nil && d.Probed.Says == v1alpha1.VerdictHappened:
			return c.settled(seen(d.Probed.Text))
		default:
			return c.settled(*d.Told)
		}
	}
	return nil
}

// cursor is the newest delivery that this segment has seen.
func (s Situation) cursor() int64 {
	var newest int64
	for _, d := range s.Inbox {
		newest = max(newest, d.Seq)
	}
	return newest
}
