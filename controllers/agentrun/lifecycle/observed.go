// Package lifecycle decides what an AgentRun does next. It is pure: it imports neither a client nor a
// clock, and every input is a field of Observed.
package lifecycle

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Observed is everything a decision may depend on, gathered in one pass before anything is written.
type Observed struct {
	// Now is the ledger's time once the run is admitted, the manager's before.
	Now time.Time

	// Queued is when the run was first seen to wait. Time in which no manager looked does not count.
	Queued time.Time
	// CancelWanted, Deleting, Held and TTL are read from the run object. Held says that it has our finalizer.
	CancelWanted bool
	Deleting     bool
	Held         bool
	TTL          time.Duration
	// Unmarked says that the object does not carry the run's UID yet. Of is the run that it stands for, if that is another: whoever
	// restores or copies an object takes along what it carries. Empty if it is none.
	Unmarked bool
	Of       types.UID
	// NamespaceGoing says that the namespace is being deleted: nothing can be created in it any more.
	NamespaceGoing bool

	// Recorded is the end that the run's status shows, or nil: a run that was never admitted has no other memory. Remembered is how
	// far the run had come as the status has it, and the Jobs that were made for it. Nothing else of the status is read.
	Recorded   *End
	Remembered Memory

	// Waiting says what an unadmitted run waits for, Refused why it can never be admitted. Both nil: it may be admitted.
	Waiting *Cause
	Refused *End

	// Admission is what the ledger knows of an admitted run, or nil.
	Admission *Admission

	// Taken says which object the run needs belongs to somebody else; empty if none does.
	Taken string

	// Blocked says why the API server refuses what the newest attempt needs, or a request of a run that waits; empty if it has
	// not just done so.
	Blocked string

	// Requests are the run's ApprovalRequests.
	Requests []Request

	// Sighting is what the cluster shows of the newest attempt, if there is one that the ledger has not seen end.
	Sighting Sighting
}

// Cause is a reason in a word and in a sentence.
type Cause struct{ Reason, Message string }

// Admission is an admitted run.
type Admission struct {
	Terms contract.Terms
	// Unreadable says why the terms, which another version wrote, cannot be read. Empty if they can.
	Unreadable string
	// Seed makes the run's pauses differ from those of other runs.
	Seed string
	// Held is how far the run has come. SetBack says that it was at work at a moment to which the ledger was restored.
	Held    Memory
	SetBack bool
	// CancelledAt is when the cancel was committed; zero if it was not.
	CancelledAt time.Time
	// End is how the run ended, or nil.
	End *End
	// Attempts are all attempts at the newest segment, oldest first.
	Attempts []Attempt
	// Outcome is that of the newest segment, or nil. OutcomeAt is when it was left.
	Outcome   *contract.Outcome
	OutcomeAt time.Time
	// Inbox is what was decided about the calls that the run waits for.
	Inbox []contract.Delivery
	// Waits is how many segments ended waiting. They do not count against limits.segments.
	Waits int
	// LapsesAt is from when on the newest attempt's process, which holds the run, counts as silent if it does not beat. Zero if it
	// does not hold the run.
	LapsesAt time.Time
}

// End is how a run ended.
type End struct {
	Phase   v1alpha1.RunPhase
	Code    string
	Message string
	At      time.Time
}

// AttemptKey names an attempt of a run. Both numbers count from 0.
type AttemptKey struct{ Segment, Attempt int }

// Attempt is one try at a segment.
type Attempt struct {
	AttemptKey
	BegunAt time.Time
	// Job is the UID of its Job, or empty while that is not known.
	Job types.UID
	// EndedAt is zero while the attempt goes on.
	EndedAt time.Time
	AttemptEnd
}

// AttemptEnd is how an attempt ended.
type AttemptEnd struct {
	Class   AttemptClass
	Code    contract.FaultCode
	Message string
	// NotBefore is when the next attempt may begin; zero leaves that to the backoff.
	NotBefore time.Time
	// Terminated says that the attempt's processes were seen to have ended, so that its claim need not lapse first. Pods are those
	// that ran them: a claim that another one holds, of which nothing was seen, has to lapse. Empty stands for whichever holds it.
	Terminated bool
	Pods       []types.UID
}

// AttemptClass says how an attempt ended.
type AttemptClass string

const (
	// Yielded means that the attempt left an outcome, or found that there was nothing to do.
	Yielded AttemptClass = "yielded"
	// Faulted means that it left with a fault; Code names it.
	Faulted AttemptClass = "faulted"
	// Crashed means that its process died of itself.
	Crashed AttemptClass = "crashed"
	// Disrupted means that the cluster took its pod away: an eviction, a preemption, a node lost. Nobody's fault.
	Disrupted AttemptClass = "disrupted"
	// Lost means that its Job is gone, or its process silent, and nobody saw it end.
	Lost AttemptClass = "lost"
	// Stopped means that it was still going on when its run ended.
	Stopped AttemptClass = "stopped"
)

// counted reports whether the attempt uses up one of retry.maxAttempts.
func (e AttemptEnd) counted() bool {
	return e.Class == Crashed || e.Class == Faulted && e.Code.Counted()
}

// Sighting is what the cluster shows of an attempt.
type Sighting struct {
	State SightingState
	// End is how it ended, when State is Ended, and Pause how long it asked to wait before the next attempt.
	End   AttemptEnd
	Pause time.Duration
	// Why is what the cluster says about a pod that does not start. Held says that it is not to start yet: a queue holds it back.
	Why  string
	Held bool
	// Released is when it was let go, if it was held back before; else zero.
	Released time.Time
	// Suspended says, when State is Ended, that its Job is suspended and may go on one day.
	Suspended bool
}

// SightingState says how far an attempt has come.
type SightingState string

const (
	// Unseen means that there is nothing to see: no attempt, or one whose Job was never created.
	Unseen SightingState = ""
	// Pending means that no process of the attempt has started.
	Pending SightingState = "Pending"
	// Working means that a process of the attempt runs.
	Working SightingState = "Working"
	// Stopping means that its Job is gone or going and a process still runs.
	Stopping SightingState = "Stopping"
	// Ended means that it has ended.
	Ended SightingState = "Ended"
)

// newest is the newest attempt, or nil before the first.
func (a *Admission) newest() *Attempt {
	if len(a.Attempts) == 0 {
		return nil
	}
	return &a.Attempts[len(a.Attempts)-1]
}

// live is the attempt that goes on as far as the ledger knows, or nil.
func (a *Admission) live() *Attempt {
	if n := a.newest(); n != nil && n.EndedAt.IsZero() {
		return n
	}
	return nil
}

func (o Observed) stopWanted() bool { return o.CancelWanted || o.Deleting || o.NamespaceGoing }
