package segment

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// work is a segment under way. The loop owns every field but those behind the mutex, which the beat shares.
type work struct {
	*Segment
	transcript Transcript
	appended   int
	// journal are the calls so far. Calls are judged by gate and rules, which are those of policyVersion.
	journal       Journal
	gate          *gate.Gate
	rules         *policy.Rules
	policyVersion int64
	// doubts are what was found out about calls that may have been sent and are not settled.
	doubts map[CallKey]Doubt
	// unbooked is the usage of calls that were cut. It is written with whatever is written next.
	unbooked []Usage

	softEnd, hardEnd time.Time

	mu    sync.Mutex
	pulse Pulse
	// cancelled is closed when the cancel is first seen.
	cancelled chan struct{}
}

func newWork(s *Segment) *work {
	timers := s.Claim.Snapshot.Agent.Segment
	now := time.Now()
	return &work{
		Segment:    s,
		transcript: s.Claim.Transcript,
		doubts:     map[CallKey]Doubt{},
		softEnd:    now.Add(time.Duration(timers.SoftSeconds) * time.Second),
		hardEnd:    now.Add(time.Duration(timers.HardSeconds) * time.Second),
		pulse:      Pulse{Active: s.Claim.Active},
		cancelled:  make(chan struct{}),
	}
}

func (w *work) situation() Situation {
	agent, pulse := w.Claim.Snapshot.Agent, w.felt()
	return Situation{
		Now: time.Now(), SoftEnd: w.softEnd, HardEnd: w.hardEnd, Stopping: closed(w.Stop), Cancelled: pulse.Cancelled,
		Segment: w.Claim.Segment, Waits: w.Claim.Waits, Appended: w.appended, Active: pulse.Active,
		Limits: agent.Limits, Retry: agent.Retry,
		Journal: w.journal, Gate: w.gate, Rules: w.rules, PolicyVersion: w.policyVersion,
		Inbox: w.Claim.Inbox, OnToolFailure: agent.OnToolFailure,
		Doubts: w.doubts, OnIndeterminate: agent.OnIndeterminate,
	}
}

// felt is what the last writes have learned about the run.
func (w *work) felt() Pulse {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pulse
}

// feel takes in what a write has learned about the run.
func (w *work) feel(p Pulse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Cancelled && !w.pulse.Cancelled {
		close(w.cancelled)
	}
	w.pulse = Pulse{
		Cancelled: p.Cancelled || w.pulse.Cancelled, Active: max(p.Active, w.pulse.Active), PolicyVersion: max(p.PolicyVersion, w.pulse.PolicyVersion),
	}
}

// beat keeps the lease alive until ctx ends, and ends ctx when the claim is lost. The channel closes when it has stopped.
func (w *work) beat(ctx context.Context, end context.CancelCauseFunc) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pause := contract.BeatEvery
		for sleep(ctx, pause) == nil {
			p, err := w.Session.Beat(ctx)
			switch {
			case err == nil:
				w.feel(p)
				pause = contract.BeatEvery
			case errors.Is(err, ErrUnavailable):
				pause = time.Second
			case ctx.Err() == nil:
				end(err)
				return
			}
		}
	}()
	return done
}

// cuts says what may cut an act besides the end of the pod's grace.
type cuts struct{ cancel, hard bool }

// bounded is the context of one act. It ends when the pod's grace is nearly over and, if the act may be cut so, when the run
// is cancelled or at the hard timer. The hard timer never cuts a segment's first act: it would only be begun anew, and paid
// for again.
func (w *work) bounded(ctx context.Context, by cuts) (act context.Context, release func()) {
	act, cut := context.WithCancelCause(ctx)
	first, cancelled := w.appended == 0, w.cancelled
	if !by.cancel {
		cancelled = nil
	}
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		stop := w.Stop
		var hard, grace <-chan time.Time
		if by.hard && !first {
			hard = time.After(time.Until(w.hardEnd))
		}
		for {
			select {
			case <-act.Done():
				return
			case <-cancelled:
				cut(errCancelled)
			case <-hard:
				cut(errHard)
			case <-stop:
				stop, grace = nil, time.After(contract.StopGrace-contract.SaveTime)
			case <-grace:
				cut(errGrace)
			}
		}
	}()
	return act, func() {
		cut(nil)
		<-watching
	}
}

func (w *work) tell(e Event) {
	e.Segment = w.Claim.Segment
	w.Emit(e)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
