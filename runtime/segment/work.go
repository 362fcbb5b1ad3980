package segment

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// work is a segment under way. The loop owns every field but those behind the mutex, which the beat shares.
type work struct {
	*Segment
	transcript Transcript
	appended   int
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
		softEnd:    now.Add(time.Duration(timers.SoftSeconds) * time.Second),
		hardEnd:    now.Add(time.Duration(timers.HardSeconds) * time.Second),
		pulse:      Pulse{Active: s.Claim.Active},
		cancelled:  make(chan struct{}),
	}
}

func (w *work) situation() Situation {
	w.mu.Lock()
	defer w.mu.Unlock()
	agent := w.Claim.Snapshot.Agent
	return Situation{
		Now: time.Now(), SoftEnd: w.softEnd, Stopping: closed(w.Stop), Cancelled: w.pulse.Cancelled,
		Segment: w.Claim.Segment, Appended: w.appended, Active: w.pulse.Active,
		Limits: agent.Limits, Retry: agent.Retry,
	}
}

// feel takes in what a write has learned about the run.
func (w *work) feel(p Pulse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Cancelled && !w.pulse.Cancelled {
		close(w.cancelled)
	}
	w.pulse = Pulse{Cancelled: p.Cancelled || w.pulse.Cancelled, Active: max(p.Active, w.pulse.Active)}
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

// bounded is the context of one act. It ends when the run is cancelled, when the pod's grace is nearly over, and, unless the
// act is the segment's first, at the hard timer: a first act that was cut would only be begun anew, and paid for again.
func (w *work) bounded(ctx context.Context) (act context.Context, release func()) {
	act, cut := context.WithCancelCause(ctx)
	first := w.appended == 0
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		stop := w.Stop
		var hard, grace <-chan time.Time
		if !first {
			hard = time.After(time.Until(w.hardEnd))
		}
		for {
			select {
			case <-act.Done():
				return
			case <-w.cancelled:
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
