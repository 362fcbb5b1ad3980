// Package segment runs one bounded stretch of a run: claim, think and act until it must stop, leave an outcome.
//
// The transcript is the whole state. Next looks at it and names the next act, Run performs the act through the
// ports and appends what came of it, and round again. A segment that starts and a segment that resumes after a
// crash are therefore the same code.
//
//	claim ─► load ─► Next ─┬─ Think ──► ask the model ──► append ─────────────┐
//	                  ▲    ├─ Invoke ─► intent ──► call the tool ──► settle ──┤
//	                  │    ├─ Probe ──► ask whether a call took effect ────────┤
//	                  │    ├─ Refuse ─► settle ───────────────────────────────┤
//	                  │    ├─ Pause ──► wait ─────────────────────────────────┤
//	                  │    ├─ Leave ──► release, exit 75                      │
//	                  │    └─ Yield ──► outcome, exit 0                       │
//	                  └───────────────────────────────────────────────────────┘
package segment

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// Situation is what Next may know besides the transcript.
type Situation struct {
	Now time.Time
	// SoftEnd is when this segment begins nothing new any more. HardEnd is when a tool call that is not its first act has to be over.
	SoftEnd, HardEnd time.Time
	// Stopping says that the pod was told to go.
	Stopping bool
	// Cancelled says that the run is no longer wanted.
	Cancelled bool
	// Segment is the number of this segment, Waits how many before it ended waiting: those do not count against the limit.
	Segment, Waits int
	// Appended is how many entries this segment has added and how many calls it has settled.
	Appended int
	// Active is how long segments have worked on the run, this one included.
	Active time.Duration

	Limits v1alpha1.Limits
	Retry  v1alpha1.Retry

	// Journal are the calls so far.
	Journal Journal
	// Gate judges calls, by Rules of version PolicyVersion and by what people have decided. Nil if the agent has no tools.
	Gate          *gate.Gate
	Rules         *policy.Rules
	PolicyVersion int64
	Inbox         []contract.Delivery
	OnToolFailure v1alpha1.OnToolFailure
	// Doubts are what this process has found out about calls that may have been sent and are not settled.
	Doubts          map[CallKey]Doubt
	OnIndeterminate v1alpha1.OnIndeterminate
}

// Act is what the segment should do next.
//
//sumtype:decl
type Act interface{ isAct() }

// Think asks the model for its next message.
type Think struct{ Turn, Try int }

// Invoke makes a call that the gate has let through.
type Invoke struct{ Permit gate.Permit }

// Probe asks whether a call took effect.
type Probe struct{ Permit gate.ProbePermit }

// Refuse settles a call that is not made: that the gate refuses, or that may have been sent and of which no more is found out, or
// was by others than its tool.
type Refuse struct{ Settlement Settlement }

// Pause waits. Stopping and cancel end it early.
type Pause struct{ Until time.Time }

// Leave ends the attempt without an outcome; another attempt goes on.
type Leave struct{ Fault contract.Fault }

// Yield ends the segment with an outcome.
type Yield struct{ Outcome contract.Outcome }

func (Think) isAct()  {}
func (Invoke) isAct() {}
func (Probe) isAct()  {}
func (Refuse) isAct() {}
func (Pause) isAct()  {}
func (Leave) isAct()  {}
func (Yield) isAct()  {}

// Next names the next act. It is total and has no memory: the same transcript in the same situation gives the same act.
//
// Ends are noticed before limits, so that an answer given on the last turn counts; limits before the timers, so
// that a segment never hands over a run with nothing left to spend.
func Next(t Transcript, s Situation) Act {
	if s.Cancelled {
		if a := s.abandoned(t); a != nil {
			return a
		}
		return Yield{contract.Outcome{Yield: contract.YieldCancelled}}
	}
	switch e := t.last().(type) {
	case Answered:
		if o, ended := settle(t, e, s); ended {
			return Yield{o}
		}
		if a := s.turn(t, e); a != nil {
			return a
		}
	case AttemptFailed:
		if a := mend(t, e, s); a != nil {
			return a
		}
	}
	if over := s.spent(t); over != "" {
		return Yield{s.ceiling(t, over)}
	}
	if a := s.handOver(t, s.Now); a != nil {
		return a
	}
	return Think{Turn: t.turns(), Try: t.failedTries() + 1}
}

// handOver tells whether the segment should begin no other act, one that has to be over by the hard timer if it ends then.
// The first act may begin however late it is: a segment that adds nothing would only be repeated.
func (s Situation) handOver(t Transcript, ends time.Time) Act {
	switch used := s.Segment + 1 - s.Waits; {
	case s.Appended == 0 && s.Stopping:
		return Leave{contract.Fault{Code: contract.FaultStopped, Message: "the pod was told to stop before its first act ended"}}
	case s.Appended == 0, !s.Stopping && s.Now.Before(s.SoftEnd) && (ends.Equal(s.Now) || ends.Before(s.HardEnd)):
		return nil
	case used >= int(s.Limits.Segments):
		return Yield{s.ceiling(t, fmt.Sprintf("segments: %d of %d used", used, s.Limits.Segments))}
	default:
		return Yield{contract.Outcome{Yield: contract.YieldCheckpoint}}
	}
}

// settle tells how a turn that has been answered ends the run, if it does.
func settle(t Transcript, a Answered, s Situation) (contract.Outcome, bool) {
	switch {
	case a.Finish == FinishRefused:
		return failed(v1alpha1.ReasonModelRefused, "the model declined to answer"), true
	case len(a.Calls) > 0:
		return contract.Outcome{}, false
	case a.Finish == FinishLength && strings.TrimSpace(a.Text) == "":
		return failed(v1alpha1.ReasonEmptyAnswer, "the model used up its output tokens before it wrote anything: raise spec.sampling.maxOutputTokens"), true
	case a.Finish == FinishLength:
		return contract.Outcome{}, false
	case strings.TrimSpace(t.text()) == "" && s.Journal.sent() > 0:
		return contract.Outcome{Yield: contract.YieldCompleted, Result: t.partial(s.Journal)}, true
	case strings.TrimSpace(t.text()) == "":
		return failed(v1alpha1.ReasonEmptyAnswer, "the model ended its turn without a word"), true
	default:
		return contract.Outcome{Yield: contract.YieldCompleted, Result: t.text()}, true
	}
}

// mend tells what to do about a try that failed; nil means try again now.
func mend(t Transcript, f AttemptFailed, s Situation) Act {
	switch {
	case !f.Retryable:
		return Yield{failed(f.Code, f.Message)}
	case t.failedTries() >= int(s.Retry.MaxAttempts):
		return Yield{failed(v1alpha1.ReasonModelUnavailable, fmt.Sprintf("%d of %d tries failed, the last with %s: %s", t.failedTries(), s.Retry.MaxAttempts, f.Code, f.Message))}
	case !s.Now.Before(f.NotBefore), f.NotBefore.Sub(s.Now) > longest(s.Retry): // the clock that said so is not this one
		return nil
	case s.Stopping || !f.NotBefore.Before(s.SoftEnd):
		return Leave{contract.Fault{
			Code: contract.FaultDeferred, Message: f.Message,
			NotBeforeSeconds: seconds(f.NotBefore.Sub(s.Now)),
		}}
	default:
		return Pause{Until: f.NotBefore}
	}
}

// longest is the longest pause between two tries that anybody may ask for.
func longest(r v1alpha1.Retry) time.Duration {
	return time.Duration(max(r.MaxRetryAfterSeconds, r.CapSeconds)) * time.Second
}

// seconds is d in whole seconds, rounded up.
func seconds(d time.Duration) int32 {
	return int32(max(0, min((d+time.Second-1)/time.Second, math.MaxInt32)))
}

// spent names the limit that is used up, or nothing.
func (s Situation) spent(t Transcript) string {
	if t.turns() >= int(s.Limits.Turns) {
		return fmt.Sprintf("turns: %d of %d used", t.turns(), s.Limits.Turns)
	}
	return s.overtime()
}

// overtime names the limit of active time if it is used up, or nothing.
func (s Situation) overtime() string {
	if s.Active < time.Duration(s.Limits.ActiveSeconds)*time.Second {
		return ""
	}
	return fmt.Sprintf("activeSeconds: %d of %d used", int(s.Active.Seconds()), s.Limits.ActiveSeconds)
}

func (s Situation) ceiling(t Transcript, which string) contract.Outcome {
	return contract.Outcome{Yield: contract.YieldCeiling, Code: v1alpha1.ReasonLimitReached, Message: "limits." + which, Result: t.partial(s.Journal)}
}

func failed(code, message string) contract.Outcome {
	return contract.Outcome{Yield: contract.YieldFailed, Code: code, Message: contract.Clip(message, contract.MaxMessage)}
}
