package segment

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
)

var (
	// ErrFenced is returned for a write of a claim that is no longer the newest, or of a run that has ended.
	// Nothing was written. The process has nothing left to do.
	ErrFenced = errors.New("fenced: another claim is newer, or the run has ended")
	// ErrOver is returned by a claim when there is nothing to do: the segment has its outcome, or the run is
	// cancelled or final.
	ErrOver = errors.New("nothing to do: the segment has its outcome, or the run is cancelled or final")
	// ErrBusy is returned by a claim while another process holds a live lease.
	ErrBusy = errors.New("another process holds the run")
	// ErrUnavailable wraps errors of a store that may answer later: no connection, failover, refused login.
	// Whether the write happened is unknown; repeating it is harmless.
	ErrUnavailable = errors.New("the store is unavailable")
	// ErrNotAdmitted is returned by a claim on a run that the store does not know.
	ErrNotAdmitted = errors.New("no such run")
)

// Newest as a segment number asks for the first segment that has no outcome yet.
const Newest = -1

// Ask says who wants to work on what.
type Ask struct {
	Run types.UID
	// Segment is the number of the segment, or Newest. Attempt is recorded with the claim.
	Segment, Attempt int
	// Holder tells processes apart, for people who look at the table.
	Holder string
}

// Claim is a granted Ask. Its generation fences every write that follows.
type Claim struct {
	Generation int64
	Segment    int
	Snapshot   contract.Snapshot
	Transcript Transcript
	Active     time.Duration
}

// Pulse is what each write learns about the run.
type Pulse struct {
	Cancelled bool
	// Active is how long segments have worked on the run.
	Active time.Duration
}

// Store grants claims. Implementations are for concurrent use.
type Store interface {
	// Claim takes the run for one segment. Errors: ErrOver, ErrBusy, ErrNotAdmitted, ErrUnavailable, contract.ErrSchema.
	// With contract.ErrSchema the claim stands, so that the caller can write the outcome: the Session is not nil.
	Claim(ctx context.Context, a Ask) (Claim, Session, error)
}

// Session writes under one claim. Every method is one transaction that begins at the fence, renews the lease and
// can be repeated after ErrUnavailable without effect. Methods may be called concurrently.
type Session interface {
	// Append adds entries at position at (the length of the transcript so far), and usage. Errors: ErrFenced, ErrUnavailable.
	Append(ctx context.Context, at int, entries []Entry, usage []Usage) (Pulse, error)
	// Beat renews the lease. Errors: ErrFenced, ErrUnavailable.
	Beat(ctx context.Context) (Pulse, error)
	// Yield writes the outcome, and usage of a call that was cut, and releases the claim. Errors: ErrFenced, ErrUnavailable.
	Yield(ctx context.Context, o contract.Outcome, usage []Usage) error
	// Release gives the claim back without an outcome, so that the next attempt need not wait for the lease to lapse. Errors: ErrFenced, ErrUnavailable.
	Release(ctx context.Context, usage []Usage) error
}

// Model answers prompts. One call makes at most one request: whoever calls it decides about retries.
type Model interface {
	// Answer streams one answer, telling emit each piece of text as it comes. The error is a *CallError, or ctx's
	// error when ctx ended first; then the Answer's Tokens still tell (or estimate) what was used.
	Answer(ctx context.Context, p prompt.Prompt, emit func(text string)) (Answer, error)
}

// Answer is a whole answer of a model.
type Answer struct {
	// Raw is the assistant message in the provider's form, to be replayed in later requests.
	Raw    json.RawMessage
	Text   string
	Calls  []ProposedCall
	Finish Finish
	Tokens budget.Tokens
	// Estimated says that Tokens were reckoned from sizes because the provider did not report them.
	Estimated bool
}

// CallError is a model call that failed, already classified by status and type, never by text.
type CallError struct {
	// Retryable says whether the same request may fare better later.
	Retryable bool
	// Code is the reason in a word: a reason of the API for terminal errors.
	Code string
	// Message is a sentence without secrets and without the body of the response.
	Message string
	// RetryAfter is how long the endpoint asked to wait; zero if it did not say.
	RetryAfter time.Duration
}

func (e *CallError) Error() string { return e.Code + ": " + e.Message }

// Event is something to be told to whoever watches the segment's output.
type Event struct {
	Name    string `json:"event"`
	Segment int    `json:"segment"`
	Turn    *int   `json:"turn,omitempty"`
	Try     int    `json:"try,omitempty"`
	Text    string `json:"text,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Usage   *Usage `json:"usage,omitempty"`
}
