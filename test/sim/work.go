package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

func (p *process) work() (*contract.Fault, error) {
	p.open()
	var err error
	for err == nil {
		switch act := segment.Next(p.transcript, p.situation()).(type) {
		case segment.Think:
			err = p.think(act)
		case segment.Invoke:
			err = p.invoke(act.Permit)
		case segment.Probe:
			err = p.probe(act.Permit)
		case segment.Refuse:
			err = p.settle(act.Settlement, false)
		case segment.Pause:
			p.until(act.Until.Add(-p.offset), "waits to try again")
			err = p.cause
		case segment.Leave:
			p.w.laws.left(p, act.Fault)
			err = &segment.FaultError{Fault: act.Fault}
		case segment.Yield:
			return nil, p.yielded(act.Outcome)
		default:
			p.w.laws.broken("every act has a model in the simulation: %T has none", act)
		}
		if err == nil {
			err = p.heed()
		}
	}
	var fault *segment.FaultError
	if errors.As(err, &fault) {
		return &fault.Fault, p.persist("release", false, func() error {
			err := p.session.Release(context.Background(), p.unbooked)
			p.w.laws.released(p, err)
			return err
		})
	}
	return nil, err
}

// open is newWork and open of package segment.
func (p *process) open() {
	p.transcript, p.journal = p.claim.Transcript, maps.Clone(p.claim.Journal)
	if p.journal == nil {
		p.journal = segment.Journal{}
	}
	p.doubts = map[segment.CallKey]segment.Doubt{}
	p.gate = p.w.agent.gate
	p.judgedBy(p.claim.Policy)
	p.pulse = segment.Pulse{Active: p.claim.Active, PolicyVersion: p.claim.Policy.Version}
	timers := p.claim.Snapshot.Agent.Segment
	p.softEnd = p.now().Add(time.Duration(timers.SoftSeconds) * time.Second)
	p.hardEnd = p.now().Add(time.Duration(timers.HardSeconds) * time.Second)
	p.beatAt = p.w.now.Add(contract.BeatEvery)
}

func (p *process) judgedBy(q contract.Policy) {
	p.rules, p.version = p.w.compiled(q.Set), q.Version
}

func (p *process) situation() segment.Situation {
	a := p.claim.Snapshot.Agent
	rule := a.OnIndeterminate
	if p.w.bugs.RuleUnread == rule {
		rule = v1alpha1.IndeterminateTellModel
	}
	return segment.Situation{
		Now: p.now(), SoftEnd: p.softEnd, HardEnd: p.hardEnd, Stopping: p.stop, Cancelled: p.pulse.Cancelled,
		Segment: p.claim.Segment, Waits: p.claim.Waits, Appended: p.appended, Active: p.pulse.Active,
		Limits: a.Limits, Retry: a.Retry, Journal: p.journal, Gate: p.gate, Rules: p.rules, PolicyVersion: p.version,
		Inbox: p.claim.Inbox, OnToolFailure: a.OnToolFailure, Doubts: p.doubts, OnIndeterminate: rule,
	}
}

func (p *process) feel(q segment.Pulse) {
	if q.Cancelled && !p.pulse.Cancelled {
		p.wake = time.Time{}
	}
	p.pulse = segment.Pulse{Cancelled: q.Cancelled || p.pulse.Cancelled, Active: max(q.Active, p.pulse.Active), PolicyVersion: max(q.PolicyVersion, p.pulse.PolicyVersion)}
}

// beat is one round of work.beat.
func (p *process) beat() {
	p.beatAt = p.w.now.Add(contract.BeatEvery)
	err := p.w.write(p.name, "beat", func() error {
		q, err := p.session.Beat(context.Background())
		if p.w.laws.accepted(p, err, "beat") == nil {
			p.feel(q)
		}
		return err
	})
	switch {
	case errors.Is(err, segment.ErrUnavailable):
		p.beatAt = p.w.now.Add(time.Second)
	case err != nil:
		p.cause, p.wake, p.beatAt = err, time.Time{}, time.Time{}
	}
}

// persist is work.persist; lasting is for what outlives the context.
func (p *process) persist(doing string, lasting bool, write func() error) error {
	for n := time.Duration(1); ; n++ {
		p.pause(doing)
		if p.cause != nil && !lasting {
			return p.cause
		}
		err := p.w.write(p.name, doing, write)
		if !errors.Is(err, segment.ErrUnavailable) {
			return err
		}
		p.until(p.w.now.Add(min(n*200*time.Millisecond, 2*time.Second)), "will repeat: "+doing)
	}
}

// heed is work.heed.
func (p *process) heed() error {
	if p.pulse.PolicyVersion == p.version {
		return nil
	}
	return p.persist("read the policy", false, func() error {
		q, err := p.session.Policy(context.Background())
		if err == nil {
			p.judgedBy(q)
			p.pulse.PolicyVersion = q.Version
		}
		return err
	})
}

func (p *process) yielded(o contract.Outcome) error {
	return p.persist("yield "+string(o.Yield), false, func() error {
		err := p.session.Yield(context.Background(), o, p.unbooked)
		p.w.laws.yielded(p, o, err)
		return err
	})
}

// pass lets an act go on until at, unless it is cut before: by the cancel, the hard timer, the end of the grace.
func (p *process) pass(at time.Time, cancel, hard bool, doing string) (cut error) {
	first := p.appended == 0
	for {
		next := at
		switch ends := p.hardEnd.Add(-p.offset); {
		case p.cause != nil:
			return p.cause
		case cancel && p.pulse.Cancelled:
			return errors.New("cancelled")
		case hard && !first && !p.w.now.Before(ends):
			return errors.New("hard timer")
		case p.stop && !p.w.now.Before(p.graceEnd):
			return errors.New("grace")
		case !p.w.now.Before(at):
			return nil
		default:
			if hard && !first && ends.Before(next) {
				next = ends
			}
			if p.stop && p.graceEnd.Before(next) {
				next = p.graceEnd
			}
		}
		p.until(next, doing)
	}
}

// think is work.think: it asks the model once and appends what came of it.
func (p *process) think(t segment.Think) error {
	reply := p.w.ask(p, t)
	cut := p.pass(reply.at, true, true, "waits for the model")
	usage := segment.Usage{Turn: t.Turn, Try: t.Try, Tokens: budget.Tokens{Input: 10, Output: 5}, Cost: 1}
	switch {
	case p.cause != nil:
		return p.cause
	case cut != nil:
		p.unbooked = append(p.unbooked, usage)
		return nil //nolint:nilerr // a cut is no fault of the model
	case reply.fault == nil:
		p.w.laws.answered(p)
		return p.append(reply.answer, usage)
	case p.w.bugs.AskTwice:
		p.w.laws.answered(p)
		return p.think(t)
	default:
		p.w.laws.answered(p)
		return p.append(p.failed(t, reply.fault), usage)
	}
}

// failed is what work.fail appends.
func (p *process) failed(t segment.Think, call *segment.CallError) segment.AttemptFailed {
	retry := p.claim.Snapshot.Agent.Retry
	f := segment.AttemptFailed{Turn: t.Turn, Try: t.Try, Retryable: call.Retryable, Code: call.Code, Message: call.Message}
	switch {
	case !call.Retryable:
	case call.RetryAfter > time.Duration(retry.MaxRetryAfterSeconds)*time.Second:
		f.Retryable, f.Code = false, v1alpha1.ReasonQuotaExhausted
	case call.RetryAfter > 0:
		f.NotBefore = p.now().Add(call.RetryAfter)
	default:
		f.NotBefore = p.now().Add(budget.Pause(retry, t.Try, fmt.Sprintf("%s/%d", runUID, t.Turn)))
	}
	return f
}

func (p *process) append(e segment.Entry, usage segment.Usage) error {
	all := append(p.unbooked, usage)
	err := p.persist("append", false, func() error {
		q, err := p.session.Append(context.Background(), len(p.transcript), []segment.Entry{e}, all)
		if p.w.laws.appended(p, len(p.transcript), e, err) == nil {
			p.feel(q)
		}
		return err
	})
	if err != nil {
		return err
	}
	p.unbooked = nil
	p.transcript = append(p.transcript, e)
	p.appended++
	return nil
}

// settle is work.settle.
func (p *process) settle(s segment.Settlement, lasting bool) error {
	err := p.persist("settle "+string(s.Result.Kind)+" "+keyName(s.CallKey), lasting, func() error {
		q, err := p.session.Settle(context.Background(), s)
		if p.w.laws.settled(p, s, err) == nil {
			p.feel(q)
		}
		return err
	})
	if err != nil {
		return err
	}
	c := p.journal[s.CallKey]
	if !c.Begun {
		c = segment.Call{CallKey: s.CallKey, Tool: s.Tool, Effect: s.Effect, Digest: s.Digest}
	}
	c.Generation, c.Result = p.claim.Generation, &s.Result
	p.journal[s.CallKey] = c
	p.appended++
	return nil
}

func keyName(k segment.CallKey) string { return itoa(k.Turn) + "." + itoa(k.Index) }
