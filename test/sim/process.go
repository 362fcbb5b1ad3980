package sim

import (
	"context"
	"encoding/json"
	"errors"
	"time"

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
	// sending is the call that it has begun or is about to, and may still send; nil if there is none.
	sending *segment.CallKey
	// heard is how many words of people there were when it claimed the run.
	heard int
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
	doubts           map[segment.CallKey]segment.Doubt
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
			p.w.pg.store.Drop(runUID, row.Segment, row.Attempt)
			p.w.laws.freed(row.Generation)
		}
		p.lost = 0
		c, s, err := p.w.pg.store.Claim(context.Background(), segment.Ask{Run: runUID, Segment: p.pod.key.Segment, Attempt: p.pod.key.Attempt, Holder: string(p.pod.uid)})
		if err != nil {
			return err
		}
		p.claim, p.session, p.lost = c, s, c.Generation
		p.w.laws.claimed(p)
		return nil
	})
}

// dies is killed in the midst of what it does.
func (p *process) dies() {
	p.w.tell("   %s is killed", p.name)
	p.exit = &exit{code: 137}
	p.pause("is dead")
}
