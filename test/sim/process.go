package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/policy"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// process is one process of a segment. It stands for runtime/cmd/segment's run and take, segment.Take, and the loop of
// segment.Segment.Run with its work; what decides in it is segment.Next.
type process struct {
	*routine
	w    *world
	pod  *pod
	name string
	// offset is how far its clock is from the ledger's.
	offset time.Duration
	// frozen says that it is stopped like by SIGSTOP and will wake up.
	frozen bool
	thaw   time.Time // when it wakes up, once nothing bad happens any more
	stop   bool
	// owes says that the model has answered, and that the transcript does not have it yet.
	owes bool
	// cause is why its context has ended, if it has: what its beat has found.
	cause error
	// wake is when it goes on; zero is at once.
	wake   time.Time
	beatAt time.Time
	exit   *exit

	claim   segment.Claim
	session segment.Session
	// lost is the generation of a claim whose answer was lost. The store takes the same process for the same holder.
	lost int64

	transcript       segment.Transcript
	journal          segment.Journal
	gate             *gate.Gate
	rules            *policy.Rules
	version          int64
	appended         int
	unbooked         []segment.Usage
	softEnd, hardEnd time.Time
	graceEnd         time.Time
	pulse            segment.Pulse
}

type exit struct {
	code    int
	message string
}

// offsets are how far the clocks of nodes are off.
var offsets = []time.Duration{0, 0, 0, 5 * time.Minute, -5 * time.Minute, time.Second, -40 * time.Second}

func newProcess(w *world, h *pod) *process {
	p := &process{w: w, pod: h, name: "process of " + string(h.uid), offset: offsets[w.d.n(len(offsets))]}
	p.routine = begin(func(*routine) {
		fault, err := p.run()
		p.exit = exitOf(fault, err)
	})
	return p
}

// exitOf is runtime/cmd/segment's leave.
func exitOf(fault *contract.Fault, err error) *exit {
	switch {
	case fault != nil:
		body, _ := json.Marshal(fault)
		return &exit{contract.ExitFault, string(body)}
	case err == nil, errors.Is(err, segment.ErrFenced), errors.Is(err, segment.ErrOver):
		return &exit{code: contract.ExitDone}
	default:
		return &exit{1, err.Error()}
	}
}

func (p *process) now() time.Time { return p.w.now.Add(p.offset) }

// told is SIGTERM.
func (p *process) told() {
	if !p.stop {
		p.stop, p.wake = true, time.Time{}
		p.graceEnd = p.w.now.Add(contract.StopGrace - contract.SaveTime)
	}
}

// until lets the time pass to an instant of the ledger's clock, or until something wakes the process earlier.
func (p *process) until(at time.Time, doing string) {
	p.wake = at
	p.pause(doing)
	p.wake = time.Time{}
}

var errStopped = errors.New("told to stop")

func (p *process) run() (*contract.Fault, error) {
	switch err := p.take(); {
	case errors.Is(err, segment.ErrUnavailable):
		return &contract.Fault{Code: contract.FaultLedger, Message: "the store is unavailable"}, nil
	case errors.Is(err, errStopped):
		return &contract.Fault{Code: contract.FaultStopped, Message: "stopped while it waited"}, nil
	case err != nil:
		return nil, err
	}
	return p.work()
}

// take is segment.Take, stopped as runtime/cmd/segment's take is.
func (p *process) take() error {
	var silentSince time.Time
	for {
		p.pause("claims the run")
		err := p.tryClaim()
		switch {
		case errors.Is(err, segment.ErrBusy):
			silentSince = time.Time{}
		case errors.Is(err, segment.ErrUnavailable):
			if silentSince.IsZero() {
				silentSince = p.w.now
			}
			if p.w.now.Sub(silentSince) >= 30*time.Second {
				return err
			}
		default:
			return err
		}
		if p.stop {
			return errStopped
		}
		p.until(p.w.now.Add(time.Second), "looks at the claim again")
		if p.stop {
			return errStopped
		}
	}
}

func (p *process) tryClaim() error {
	return p.w.write(p.name, "claim", func() error {
		if row, _ := p.w.pg.store.Row(runUID); p.lost != 0 && row.Generation == p.lost {
			p.w.pg.store.Free(runUID, row.Segment, row.Attempt)
			p.w.laws.freed(row.Generation)
		}
		p.lost = 0
		c, s, err := p.w.pg.store.Claim(context.Background(), segment.Ask{Run: runUID, Segment: p.pod.key.Segment, Attempt: p.pod.key.Attempt, Holder: p.name})
		if err != nil {
			return err
		}
		p.claim, p.session, p.lost = c, s, c.Generation
		p.w.laws.claimed(p)
		return nil
	})
}

func (p *process) work() (*contract.Fault, error) {
	p.open()
	var err error
	for err == nil {
		switch act := segment.Next(p.transcript, p.situation()).(type) {
		case segment.Think:
			err = p.think(act)
		case segment.Invoke:
			err = p.invoke(act.Permit)
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
	return segment.Situation{
		Now: p.now(), SoftEnd: p.softEnd, HardEnd: p.hardEnd, Stopping: p.stop, Cancelled: p.pulse.Cancelled,
		Segment: p.claim.Segment, Waits: p.claim.Waits, Appended: p.appended, Active: p.pulse.Active,
		Limits: a.Limits, Retry: a.Retry, Journal: p.journal, Gate: p.gate, Rules: p.rules, PolicyVersion: p.version,
		Inbox: p.claim.Inbox, OnToolFailure: a.OnToolFailure,
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
