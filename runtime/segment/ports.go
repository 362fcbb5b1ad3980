package segment

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
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
	// ErrCancelled is returned for the intent of a call of a run whose cancel is committed. Nothing was written.
	ErrCancelled = errors.New("the run is cancelled: no new call begins")
	// ErrPolicyChanged is returned for the intent of a call that was judged by a policy which is no longer the newest.
	// Nothing was written: the call is to be judged anew.
	ErrPolicyChanged = errors.New("the policy has changed: the call is to be judged anew")
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
	// Journal are the calls of the run so far, Inbox what was decided about them, oldest first.
	Journal Journal
	Inbox   []contract.Delivery
	// Policy is the newest policy of the namespace.
	Policy contract.Policy
	// Waits is how many segments before this one ended waiting. They do not count against limits.segments.
	Waits  int
	Active time.Duration
}

// Pulse is what each write learns about the run.
type Pulse struct {
	Cancelled bool
	// Active is how long segments have worked on the run.
	Active time.Duration
	// PolicyVersion is the version of the newest policy of the namespace.
	PolicyVersion int64
}

// Store grants claims. Implementations are for concurrent use.
type Store interface {
	// Claim takes the run for one segment. Errors: ErrOver, ErrBusy, ErrNotAdmitted, ErrUnavailable, contract.ErrSchema.
	// With contract.ErrSchema the claim stands, so that the caller can write the outcome: the Session is not nil.
	Claim(ctx context.Context, a Ask) (Claim, Session, error)
}

// Session writes under one claim. Every method but Policy is one transaction that begins at the fence and renews the lease;
// every method can be repeated after ErrUnavailable without effect. Methods may be called concurrently.
type Session interface {
	// Append adds entries at position at (the length of the transcript so far), and usage. Errors: ErrFenced, ErrUnavailable.
	Append(ctx context.Context, at int, entries []Entry, usage []Usage) (Pulse, error)
	// Begin writes the intent of a call, before anything of it is sent. Of a call that an earlier claim has begun and nobody
	// has settled, the intent passes to this claim. Repeated after ErrUnavailable it may be refused although its first try has
	// written the intent: the call is then settled and not sent. Errors: ErrCancelled, ErrPolicyChanged, ErrFenced, ErrUnavailable.
	Begin(ctx context.Context, i Intent) (Pulse, error)
	// Settle writes how a call ended, for good: of a call that is settled nothing changes. One that was never begun is settled
	// without having been sent. Errors: ErrFenced, ErrUnavailable.
	Settle(ctx context.Context, s Settlement) (Pulse, error)
	// Policy reads the newest policy of the namespace; version 0 and no rules if there is none. Errors: ErrUnavailable,
	// contract.ErrSchema.
	Policy(ctx context.Context) (contract.Policy, error)
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

// Tools carries out calls. It is the only way to a tool: a gate.Permit is made by the gate alone.
type Tools interface {
	// Invoke sends the call and tells the journal what came of it: when the error is nil, it was told. Errors: those of the journal;
	// ctx's when it ended and the call may be made again; *FaultError; *EndError.
	Invoke(ctx context.Context, p gate.Permit, j Recorder) error
	// Probe asks whether a call took effect. It journals nothing: the question only reads. Errors: *FaultError.
	Probe(ctx context.Context, p gate.ProbePermit) (CallResult, error)
}

// Recorder is the journal as Tools see it. It repeats what the store could not answer.
type Recorder interface {
	// Begin writes the intent. Nothing may be sent before it returns nil.
	Begin(ctx context.Context) error
	// Settle writes the result. One that is indeterminate is not written yet: whoever looks next decides what follows.
	Settle(ctx context.Context, r CallResult) error
	// Wanted is nil while the call may still be made, and else ErrCancelled or ErrPolicyChanged. It is asked before a call whose
	// intent stands is tried again.
	Wanted() error
	// Resumed says that an earlier process has written an intent already, so that the call may have been sent before.
	Resumed() bool
}

// FaultError says that another attempt at the segment may fare better, such as one with a Secret that is not there yet.
type FaultError struct{ contract.Fault }

func (e *FaultError) Error() string { return string(e.Code) + ": " + e.Message }

// EndError says that no attempt can go on: the run fails with the code, a reason of the API.
type EndError struct{ Code, Message string }

func (e *EndError) Error() string { return e.Code + ": " + e.Message }

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
	Index   *int   `json:"index,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Text    string `json:"text,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Usage   *Usage `json:"usage,omitempty"`
}
