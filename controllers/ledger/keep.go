package ledger

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Kept is what is kept of runs for a time after their end.
type Kept string

const (
	// Sessions are what a run did: transcript, calls, decisions, outcomes, attempts and the snapshot.
	Sessions Kept = "sessions"
	// Runs are the runs themselves, with their ends, their idempotency keys and what they used.
	Runs Kept = "runs"
)

// Tree is a root and the runs under it, all of which have ended. EndedAt is when the root did.
type Tree struct {
	Root    types.UID
	EndedAt time.Time
	Runs    []types.UID
}

// Dropped counts the rows that were deleted, by their tables.
type Dropped map[string]int64

// Add adds what else was deleted.
func (d Dropped) Add(more Dropped) {
	for table, n := range more {
		d[table] += n
	}
}

// Total is how many rows that is.
func (d Dropped) Total() (n int64) {
	for _, rows := range d {
		n += rows
	}
	return n
}
