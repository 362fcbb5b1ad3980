// Package judge says what a chaos run has shown. It is PURE: three books go in, which were kept by three parties that know
// nothing of each other, and what does not fit together comes out.
//
//	the tool server   what reached it and was carried out         Effects
//	Postgres          what was written, when, by which generation Marks, Calls, Ends
//	the API server    what became of each run that it accepted    Runs
//	the chaos itself  what it has done to whom                    Faults
package judge

import (
	"slices"
	"time"
)

// Books are all that is known in the end.
type Books struct {
	Runs    []Run
	Calls   []Call
	Ends    []End
	Marks   []Mark
	Effects []Effect
	Faults  []Fault
	// Violations of the wire protocol that the model saw.
	BadRequests int
	// Grace is how long a run may stand still: a lease and what it takes to notice. What stands still for longer than Promised is
	// counted and not judged.
	Grace, Promised time.Duration
	// Ahead and Behind are by how much the clocks of segments were off.
	Ahead, Behind time.Duration
	// Began and Over are when the load began and when the last run was waited for.
	Began, Over time.Time
}

// Run is a run that the API server accepted.
type Run struct {
	UID, Name string
	Created   time.Time
	// Calls is how many calls it makes.
	Calls int
	// Phases are the states that it was seen in, in order, those that follow an end included.
	Phases []Phase
}

// Phase is one state of a run.
type Phase struct {
	At            time.Time
	Phase, Reason string
	// Result is what it ended with.
	Result string
	Final  bool
}

// Key names a call.
type Key struct {
	Run         string
	Turn, Index int
}

// Call is one row of the journal.
type Call struct {
	Key
	Tool string
	// Repeatable says that making it again is harmless, by its effect or its idempotency.
	Repeatable bool
	// Once says that the server carries it out once per Idempotency-Key.
	Once bool
	// Idempotency is the key under which it goes out. Empty if it never began.
	Idempotency string
	// Kind is how it ended, or empty.
	Kind string
}

// End is how the ledger says that a run ended.
type End struct {
	Run, Phase, Code string
}

// Mark is one thing that was written to Postgres, as a witness in the database saw it, in Postgres time.
type Mark struct {
	At   time.Time
	What What
	Run  string
	// Generation is the writer's, Current that of the run's row at this moment, Over whether the run had ended.
	Generation, Current int64
	Over                bool
	// Turn and Index are those of a call, Segment that of a claim or an outcome.
	Turn, Index, Segment int
	// Kind is that of a call's result, an outcome's yield or the phase of an end; Holder that of a claim.
	Kind, Holder string
}

// What was written.
type What string

// Each is the witness's word for a write.
const (
	Claimed What = "claim"   // a generation was taken by a segment
	Entered What = "entry"   // an entry of the transcript
	Begun   What = "begun"   // the intent of a call
	Settled What = "settled" // the result of a call
	Altered What = "altered" // the result of a call, again
	Yielded What = "outcome" // the outcome of a segment
	Final   What = "final"   // the fence was shut for good
	Ending  What = "end"     // the end of the run
	Told    What = "inbox"   // the run was told of a decision
	Tried   What = "attempt" // an attempt began or ended
)

// Effect is one line of the tool server's book.
type Effect struct {
	Key  string
	Tool string
	At   time.Time
	// Again says that the server knew the key, and did nothing.
	Again bool
}

// Fault is one thing that the chaos has done.
type Fault struct {
	At   time.Time
	Kind string
	// Point is where a segment was when it was hit.
	Point string
	// Run, Segment, Attempt and Pid say who was hit. Empty for what everybody shares.
	Run              string
	Segment, Attempt int
	Pid              int
	// Woken is when a process that was stopped went on; zero for others and for those that never did.
	Woken time.Time
	// Fenced says that it told of being refused then.
	Fenced bool
	// Tried is how many stale writes a ghost tried and was answered, Accepted how many of them were not refused.
	Tried, Accepted int
	// Took is how long it lasted until the cluster was whole again.
	Took time.Duration
}

// Kinds of faults that are judged in a way of their own: those that hit segments, those that come of them, and
// those that nothing can go on without. A ghost also holds its claims under this name.
const (
	Kill            = "kill"
	Zombie          = "zombie"
	Ghost           = "ghost"
	PostgresRestart = "postgres restart"
	APIRestart      = "API server restart"
	ManagerKill     = "manager kill"
)

func (c Call) began() bool { return c.Idempotency != "" }

// of sorts the marks of one run by time.
func (b Books) of() map[string][]Mark {
	by := map[string][]Mark{}
	for _, m := range b.Marks {
		by[m.Run] = append(by[m.Run], m)
	}
	for _, marks := range by {
		slices.SortStableFunc(marks, func(a, b Mark) int { return a.At.Compare(b.At) })
	}
	return by
}
