package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ekiden-dev/ekiden/cli/terminal"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// Text tells a session to people. Whatever was not written by this program is cleaned, and longer texts stand behind a
// bar: an answer that imitates the lines around it can be told from them.
func Text(s Session) string {
	p := newPrinter(s)
	p.line("Run        %s/%s  (%s)", s.Run.Namespace, s.Run.Name, s.Run.UID)
	p.line("Admitted   %s", instant(s.AdmittedAt))
	if s.Start.Unreadable != "" {
		p.line("Snapshot   %s cannot be read: %s", s.Start.Digest, s.Start.Unreadable)
	} else {
		p.line("Revision   %s", s.Start.Revision)
		p.line("Model      %s at %s", s.Start.Model, s.Start.Endpoint)
		p.line("Principal  %s", s.Start.Principal)
		p.line("Snapshot   %s", s.Start.Digest)
		p.head("Task")
		p.text(s.Start.Task)
	}
	for _, one := range s.Segments {
		p.until(one.begins())
		p.head("Segment %d", one.Number)
		for _, step := range one.Steps {
			p.until(step.At)
			p.step(step, s.Start.Model)
		}
		p.outcome(one.Outcome)
	}
	for len(p.decisions) > 0 {
		p.decision()
	}
	p.head("End")
	if !s.CancelledAt.IsZero() {
		p.line("%s  cancel committed", instant(s.CancelledAt))
	}
	if s.End == nil {
		p.line("The run has not ended.")
	} else {
		p.line("%s  %s (%s): %s", instant(s.End.At), s.End.Phase, s.End.Code, s.End.Message)
	}
	p.line("Used: %s", s.Usage)
	return p.String()
}

// String is the usage in words.
func (u Usage) String() string {
	estimated := ""
	if u.Estimated {
		estimated = ", estimated"
	}
	return fmt.Sprintf("%d tokens in (%d cached), %d out, cost %s%s", u.Input, u.CacheRead, u.Output, u.Cost, estimated)
}

type printer struct {
	strings.Builder
	// decisions are those that are not told yet, oldest first.
	decisions []Decision
	// asked are the calls that people were asked about, made the segment of each that was made or refused.
	asked map[segment.CallKey]bool
	made  map[segment.CallKey]int
	// over says that the run has ended.
	over bool
}

func newPrinter(s Session) *printer {
	p := &printer{asked: map[segment.CallKey]bool{}, made: map[segment.CallKey]int{}, over: s.End != nil}
	for _, one := range s.Segments {
		if one.Outcome != nil && one.Outcome.Wait != nil {
			for _, a := range one.Outcome.Wait.Asks {
				p.asked[segment.CallKey{Turn: a.Turn, Index: a.Index}] = true
			}
		}
		for _, step := range one.Steps {
			for _, c := range step.Calls {
				p.decisions = append(p.decisions, c.Decisions...)
				if !c.at().IsZero() {
					p.made[segment.CallKey{Turn: c.Turn, Index: c.Index}] = one.Number
				}
			}
		}
	}
	slices.SortStableFunc(p.decisions, func(a, b Decision) int { return a.At.Compare(b.At) })
	return p
}

// begins is the time of the first thing that is told of a segment, or zero.
func (s Segment) begins() time.Time {
	switch {
	case len(s.Steps) > 0:
		return s.Steps[0].At
	case s.Outcome != nil:
		return s.Outcome.At
	default:
		return time.Time{}
	}
}

// line writes one line, of cleaned words whatever the arguments hold.
func (p *printer) line(format string, args ...any) {
	for i, a := range args {
		if words, ok := a.(string); ok {
			args[i] = terminal.Line(words)
		}
	}
	p.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " "))
	p.WriteByte('\n')
}

func (p *printer) head(format string, args ...any) {
	p.WriteByte('\n')
	p.line(format, args...)
}

func (p *printer) text(s string) {
	for l := range strings.SplitSeq(strings.TrimRight(terminal.Clean(s), "\n"), "\n") {
		p.WriteString(strings.TrimRight("  │ "+l, " ") + "\n")
	}
}

func (p *printer) step(s Step, model string) {
	spent := ""
	if s.Usage != nil {
		spent = "; " + s.Usage.String()
	}
	if s.Unreadable != "" {
		p.line("  %s  cannot be read: %s", instant(s.At), s.Unreadable)
		p.calls(s)
		return
	}
	if s.Resumed {
		p.calls(s)
		return
	}
	at, which := instant(s.At), fmt.Sprintf("turn %d, try %d", s.Turn, s.Try)
	switch {
	case s.Answered != nil:
		if model == "" {
			model = "the model"
		}
		p.line("  %s  %s: %s answered, finish %s%s", at, which, model, string(s.Answered.Finish), spent)
		if s.Answered.Text != "" {
			p.text(s.Answered.Text)
		}
		p.calls(s)
	case s.Failed != nil:
		p.line("  %s  %s: failed %s%s: %s%s", at, which, s.Failed.Code, again(s.Failed.Retryable, s.Failed.NotBefore), s.Failed.Message, spent)
	default:
		p.line("  %s  %s: cut, because the segment had to stop%s", at, which, spent)
	}
}

func again(retryable bool, notBefore time.Time) string {
	switch {
	case !retryable:
		return ", for good"
	case notBefore.IsZero():
		return ", to be tried again"
	default:
		return ", to be tried again from " + instant(notBefore)
	}
}

func (p *printer) outcome(o *Outcome) {
	if o == nil {
		p.line("  has no outcome yet")
		return
	}
	p.until(o.At)
	why := ""
	switch {
	case o.Code != "" && o.Message != "":
		why = ", " + o.Code + ": " + o.Message
	case o.Code+o.Message != "":
		why = ", " + o.Code + o.Message
	}
	p.line("  %s  ended: %s%s", instant(o.At), meaning(o.Yield), why)
	p.wait(o.Wait)
	if o.Unreadable != "" {
		p.line("    cannot be read: %s", o.Unreadable)
	}
}

// meaning is a yield in words.
func meaning(y contract.Yield) string {
	switch y {
	case contract.YieldCompleted:
		return "completed"
	case contract.YieldCeiling:
		return "ceiling (a limit ended the run)"
	case contract.YieldWaiting:
		return "waiting (for people to decide)"
	case contract.YieldCheckpoint:
		return "checkpoint (its time was up; the next segment goes on)"
	case contract.YieldCancelled:
		return "cancelled"
	case contract.YieldFailed:
		return "failed"
	default:
		return string(y)
	}
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
