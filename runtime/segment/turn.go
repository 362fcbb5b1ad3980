package segment

import (
	"fmt"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
)

// turn names the next act of a turn whose calls are not all settled; nil means that they are. Calls run in the order in
// which they were proposed: one behind another that waits for people waits too.
func (s Situation) turn(t Transcript, a Answered) Act {
	for i, c := range a.Calls {
		if s.Gate == nil || !s.Gate.Offers(c.Tool) {
			return Yield{failed(v1alpha1.ReasonUnknownTool, fmt.Sprintf("the model called %q, which the agent was not offered; nothing of that turn was called", contract.Clip(c.Tool, 64)))}
		}
		switch r := s.Journal[CallKey{a.Turn, i}].Result; {
		case r == nil:
		case r.Kind == ResultFailed && s.OnToolFailure == v1alpha1.ToolFailureFailRun:
			return Yield{failed(v1alpha1.ReasonToolFailed, fmt.Sprintf("the tool %q failed (%s), and the definition says onToolFailure: FailRun", contract.Clip(c.Tool, 64), r.Code))}
		case r.Kind == ResultIndeterminate && s.OnIndeterminate == v1alpha1.IndeterminateFailRun:
			return Yield{failed(v1alpha1.ReasonCallIndeterminate, fmt.Sprintf("nobody knows what call %d of turn %d, of the tool %q, has done, and the definition says onIndeterminate: FailRun", i, a.Turn, contract.Clip(c.Tool, 64)))}
		}
	}
	for i := range a.Calls {
		if s.Journal[CallKey{a.Turn, i}].Result == nil {
			return s.call(t, a, i)
		}
	}
	return nil
}

// maxCalls is the most calls of one answer that are looked at. An answer with more is refused whole, call by call.
const maxCalls = 64

// crowded is the result of a call in an answer with too many.
func crowded(n int) CallResult {
	text := fmt.Sprintf("Your answer has %d calls, and at most %d are taken. Nothing was called. Propose fewer at a time.", n, maxCalls)
	return CallResult{Kind: ResultRefused, Code: "TooManyCalls", Text: text, Bytes: int64(len(text))}
}

// call names the act for the first call of a turn that is not settled.
func (s Situation) call(t Transcript, a Answered, i int) Act {
	begun := s.Journal[CallKey{a.Turn, i}]
	var word *contract.Delivery
	if begun.Begun {
		if act := s.inDoubt(t, a, i); act != nil {
			return act
		}
		word = s.wanted(begun)
	}
	if len(a.Calls) > maxCalls {
		return Refuse{Settlement{CallKey: CallKey{a.Turn, i}, Tool: contract.Clip(a.Calls[i].Tool, 128), Result: crowded(len(a.Calls))}}
	}
	left := int(s.Limits.ToolCalls) - s.Journal.sent()
	if begun.Begun { // it has its place among them already
		left++
	}
	switch v := s.judge(a, i, left, word).(type) {
	case gate.Granted:
		if over := s.overtime(); over != "" {
			return Yield{s.ceiling(t, over)}
		}
		timeout := time.Duration(v.Permit.Tool().TimeoutSeconds) * time.Second
		if act := s.handOver(t, s.Now.Add(timeout)); act != nil {
			return act
		}
		return Invoke{v.Permit}
	case gate.Refused:
		if begun.Begun && begun.Effect != v1alpha1.EffectRead { // it may have been sent before it was refused
			return s.byRule(a, i, s.Doubts[begun.CallKey])
		}
		r := CallResult{Kind: ResultRefused, Code: v.Code, Text: v.Text, Bytes: int64(len(v.Text))}
		if begun.Begun {
			r.Text = "The process that made the call was lost, and now the call is refused. It changed nothing."
			r.Bytes = int64(len(r.Text))
		}
		return Refuse{Settlement{CallKey: CallKey{a.Turn, i}, Tool: v.Tool, Effect: v.Effect, Digest: v.Digest, Result: r}}
	case gate.Wanted:
		return Yield{contract.Outcome{Yield: contract.YieldWaiting, Wait: s.wait(a, i, left)}}
	case gate.Unusable:
		return Yield{failed(v1alpha1.ReasonIncompatibleSession, v.Message)}
	case gate.Exhausted:
		return Yield{s.ceiling(t, fmt.Sprintf("toolCalls: %d of %d used", s.Journal.sent(), s.Limits.ToolCalls))}
	default: // Unknown was seen before the turn's first call
		return Yield{failed(v1alpha1.ReasonUnknownTool, "the model called a tool that it was not offered")}
	}
}

// judge has the gate judge a call. again is a person's word that it is to be made again, if it was made before and there is one.
func (s Situation) judge(a Answered, i, left int, again *contract.Delivery) gate.Verdict {
	c := s.circumstances(left)
	c.Again = again
	return s.Gate.Judge(s.proposal(a, i), c)
}

func (s Situation) proposal(a Answered, i int) gate.Proposal {
	c := a.Calls[i]
	return gate.Proposal{Turn: a.Turn, Index: i, Tool: c.Tool, Arguments: c.Arguments, Cut: a.Finish == FinishLength}
}

func (s Situation) circumstances(left int) gate.Circumstances {
	return gate.Circumstances{Left: left, Rules: s.Rules, PolicyVersion: s.PolicyVersion, Inbox: s.Inbox, Doubtful: s.Journal.doubtful()}
}

// wait asks about call i and, at the same time, about every later call of the turn that wants a decision, as far as the
// limits reach.
func (s Situation) wait(a Answered, i, left int) *contract.Wait {
	w := &contract.Wait{Cursor: s.cursor()}
	for ; i < len(a.Calls) && left > 0; i++ {
		if s.Journal[CallKey{a.Turn, i}].Result != nil {
			continue
		}
		switch v := s.judge(a, i, left, nil).(type) {
		case gate.Wanted:
			w.Asks = append(w.Asks, v.Ask)
			left--
		case gate.Granted: // it waits its turn behind those that are asked about
			left--
		case gate.Refused, gate.Exhausted, gate.Unknown, gate.Unusable: // it uses up nothing
		}
	}
	return w
}

// unknown is the result of a call that was begun by a process which is gone.
func unknown() CallResult {
	const text = "The call was sent, or was about to be sent, when the process that made it was lost. Whether it took effect is unknown. " +
		"Do not assume either, and do not repeat it before you have found out."
	return CallResult{Kind: ResultIndeterminate, Code: "ProcessLost", Text: text, Bytes: int64(len(text))}
}

// doubtful are the tools of which nobody knows what a call has done.
func (j Journal) doubtful() map[string]bool {
	var tools map[string]bool
	for _, c := range j {
		if c.Result != nil && c.Result.Kind == ResultIndeterminate && c.Effect != v1alpha1.EffectRead {
			if tools == nil {
				tools = map[string]bool{}
			}
			tools[c.Tool] = true
		}
	}
	return tools
}

// sent is how many calls have been begun.
func (j Journal) sent() int {
	n := 0
	for _, c := range j {
		if c.Begun {
			n++
		}
	}
	return n
}
