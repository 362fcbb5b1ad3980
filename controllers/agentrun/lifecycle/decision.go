package lifecycle

import (
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Decision is what to do about an Observed. The shell carries it out in field order: Do; then, if Again, it
// observes and decides once more; else one status patch from Report, and the events that tell of it.
type Decision struct {
	// Do happens before the status is written. Each effect is idempotent, so a crash between an effect and
	// the patch is repaired by the next reconcile.
	Do []Effect

	// Again says that the effects moved what Observed is made of, so that there is more to decide at once.
	Again bool

	// Report is what the status should say. The zero Report leaves the status as it is.
	Report Report

	// Wake is when to look again if nothing changes; zero means that a watch will do.
	Wake time.Time
}

// Report is the state of a run for people.
type Report struct {
	Phase   v1alpha1.RunPhase
	Reason  string
	Message string
	// Waiting is what the run waits for, or nil.
	Waiting *Waiting
	// CancelRequested says that the cancel is committed.
	CancelRequested bool
	// Ended says that the run has ended for good.
	Ended bool
	// At is when it ended.
	At time.Time
}

// Effect is one write outside the run's own status.
type Effect interface{ isEffect() }

type (
	// Hold puts our finalizer on the run, and its UID.
	Hold struct{}
	// Admit provisions the namespace and freezes the run in the ledger.
	Admit struct{}
	// Cancel commits the cancel in the ledger.
	Cancel struct{}
	// Start begins an attempt: first its row, then its Job, then the Job's UID.
	Start struct{ AttemptKey }
	// Stop deletes the attempt's Job. Its pod is told to stop and has its grace.
	Stop struct{ AttemptKey }
	// Close writes down how an attempt ended.
	Close struct {
		AttemptKey
		End AttemptEnd
	}
	// Finish ends the run in the ledger.
	Finish struct{ End End }
	// LetGo takes our finalizer off the run.
	LetGo struct{}
	// Remove deletes the run object.
	Remove struct{}
)

func (Hold) isEffect()   {}
func (Admit) isEffect()  {}
func (Cancel) isEffect() {}
func (Start) isEffect()  {}
func (Stop) isEffect()   {}
func (Close) isEffect()  {}
func (Finish) isEffect() {}
func (LetGo) isEffect()  {}
func (Remove) isEffect() {}
