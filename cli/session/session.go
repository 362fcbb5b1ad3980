// Package session tells the session of a run as it is stored in Postgres.
//
//	Postgres ─► postgres.Read ─► Rows ─► Fold ─► Session ─► Text, or JSON
//
// This package is pure; its adapter reads.
package session

import (
	"time"

	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// Session is what was said in a run and what came of it.
type Session struct {
	Run        contract.Identity `json:"run"`
	AdmittedAt time.Time         `json:"admittedAt"`
	// CancelledAt is when the cancel was committed.
	CancelledAt time.Time `json:"cancelledAt,omitzero"`

	Start    Start     `json:"start"`
	Segments []Segment `json:"segments"`
	// End is how the run ended, or nil while it goes on.
	End   *End  `json:"end,omitempty"`
	Usage Usage `json:"usage"`
}

// Start is what the run was started with.
type Start struct {
	Digest    string `json:"snapshotDigest"`
	Revision  string `json:"revision,omitempty"`
	Principal string `json:"principal,omitempty"`
	// Endpoint names the ModelEndpoint, Model the model there.
	Endpoint string `json:"endpoint,omitempty"`
	Model    string `json:"model,omitempty"`
	Task     string `json:"task"`
	// Unreadable says why the fields above are empty: another version wrote the snapshot.
	Unreadable string `json:"unreadable,omitempty"`
}

// Segment is one bounded stretch of the run.
type Segment struct {
	Number int    `json:"segment"`
	Steps  []Step `json:"steps"`
	// Outcome is nil while the segment goes on, or was never finished.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Step is one try at a model call, or what became of calls that an earlier segment proposed. Exactly one of Answered, Failed,
// Cut, Resumed and Unreadable says which and what came of it.
type Step struct {
	At time.Time `json:"at"`
	// Generation is that of the claim that made the step.
	Generation int64 `json:"generation"`
	Turn       int   `json:"turn"`
	Try        int   `json:"try"`

	Answered *segment.Answered      `json:"answered,omitempty"`
	Failed   *segment.AttemptFailed `json:"failed,omitempty"`
	// Cut is set for a try that left no entry, only usage: its segment had to stop.
	Cut bool `json:"cut,omitempty"`
	// Unreadable says why an entry cannot be told: another version wrote it.
	Unreadable string `json:"unreadable,omitempty"`

	// Resumed is set for calls that an earlier segment proposed and this one made or refused, as after an approval. It is no try.
	Resumed bool `json:"resumed,omitempty"`

	// Calls is what the journal holds of the calls that the answer proposed, in their order, but for those that a later segment
	// resumed: they are there. One that is in neither place has not begun.
	Calls []Call `json:"calls,omitempty"`

	Usage *Usage `json:"usage,omitempty"`
}

// Usage is what was used. Input counts all tokens that were read, those from a cache included.
type Usage struct {
	Input     int64         `json:"inputTokens"`
	CacheRead int64         `json:"cachedInputTokens"`
	Output    int64         `json:"outputTokens"`
	Cost      budget.Micros `json:"costMicros"`
	// Estimated says that the provider did not report all of it.
	Estimated bool `json:"estimated,omitempty"`
}

func (u Usage) plus(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, CacheRead: u.CacheRead + v.CacheRead, Output: u.Output + v.Output,
		Cost: u.Cost + v.Cost, Estimated: u.Estimated || v.Estimated,
	}
}

// Outcome is how a segment ended.
type Outcome struct {
	At         time.Time `json:"at"`
	Generation int64     `json:"generation"`
	contract.Outcome
	// Unreadable says what of it cannot be told: another version wrote it.
	Unreadable string `json:"unreadable,omitempty"`
}

// End is how the run ended.
type End struct {
	At      time.Time `json:"at"`
	Phase   string    `json:"phase"`
	Code    string    `json:"code"`
	Message string    `json:"message,omitempty"`
}

// Rows are a session as it is stored.
type Rows struct {
	Run         contract.Identity
	AdmittedAt  time.Time
	CancelledAt time.Time
	End         *End
	// Snapshot and Digest are the body as it was frozen and its name.
	Snapshot, Digest string
	// Generation and Segment are those of the newest claim; Segment is -1 before the first.
	Generation int64
	Segment    int

	Entries  []EntryRow
	Usage    []UsageRow
	Calls    []Call
	Inbox    []Decision
	Outcomes []OutcomeRow
}

// EntryRow is a row of ekiden.transcript.
type EntryRow struct {
	At         time.Time
	Generation int64
	Segment    int
	Kind       string
	Schema     int
	Body       string
}

// UsageRow is a row of ekiden.usage.
type UsageRow struct {
	At         time.Time
	Generation int64
	Turn, Try  int
	Usage      Usage
}

// OutcomeRow is a row of ekiden.outcomes.
type OutcomeRow struct {
	Segment int
	Outcome Outcome
	// Wait is what it waits for, in JSON, or empty.
	Wait string
}
