package sim

import (
	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/store/memory"
)

// Bugs are faults planted in the model and in the stores, never in the code under test.
type Bugs struct {
	memory.Bugs
	// SettleFirst settles a call before it is sent, NoIntent sends it without an intent, SendTwice sends again what must not be.
	SettleFirst, NoIntent, SendTwice bool
	// RetryTwice lets the Job controller try again beside the manager, AskTwice a process ask the model again by itself.
	RetryTwice, AskTwice bool
	// FinishTwice lets the last end of a run count, and not the first.
	FinishTwice bool
	// CursorAhead has each wait say that it has seen one delivery more than it has.
	CursorAhead bool
	// JobFirst makes a Job before its attempt is written down.
	JobFirst bool
	// LateCounts takes up decisions though the request has expired.
	LateCounts bool
	// ProbeGuesses takes a probe that could not tell for one that says no.
	ProbeGuesses bool
	// WordsTwisted delivers that a call happened as that it did not, and the other way round.
	WordsTwisted bool
	// RuleUnread is a rule of onIndeterminate in whose place TellModel is gone by.
	RuleUnread v1alpha1.OnIndeterminate
	// WaitForgotten has a run that waits go on at once.
	WaitForgotten bool
	// OtherReason ends a run with another reason than its last segment has left.
	OtherReason bool
}
