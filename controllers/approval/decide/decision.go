package decide

import (
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Decision is what to do about an Observed. The shell carries it out in field order, and each step only once those before it
// have happened: a crash between two is repaired by the next look.
type Decision struct {
	// AskGuard says that the guard has to be asked first, and then to be decided again. Everything else is zero.
	AskGuard bool

	// Report is what the status should say. The zero Report leaves it as it is.
	Report Report

	// Deliver is what to tell the run through its inbox, or nil. Its Seq is the ledger's to give.
	Deliver *contract.Delivery

	// Poke says that the run has to be looked at.
	Poke bool

	// Wake is when to look again if nothing changes; zero means that a watch will do.
	Wake time.Time
}

// Report is the state of a request for people.
type Report struct {
	Phase   v1alpha1.ApprovalPhase
	Reason  string
	Message string

	// Guard is what to say about the guard, and Why what is wrong with it. Unasked leaves what was said.
	Guard Guard
	Why   string
}

// Final reports whether the report is the last one.
func (r Report) Final() bool { return r.Phase != "" && r.Phase != v1alpha1.ApprovalPending }
