// Package ledger is the manager's port to Postgres, the record of execution. The API server is the record of
// lifecycle and intent; of a dual write the ledger comes first.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/approval/decide"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// ErrUnavailable wraps errors of a Postgres that may answer later. Whether a write happened is then unknown; every
// method can be repeated without effect.
var ErrUnavailable = errors.New("the ledger is unavailable")

// ErrUnknown is returned for a run that was never admitted, or an attempt that was never begun.
var ErrUnknown = errors.New("the ledger does not know it")

// ErrPassword is returned for a password with which no login can be made.
var ErrPassword = errors.New("the password must be of printable ASCII, without spaces")

// ErrOwns is returned for a login that owns something outside the ledger's database: it can no longer be used, and stays
// until that is dropped.
var ErrOwns = errors.New("the login owns objects elsewhere")

// ErrStale is returned for policies of which the newest version holds a later state. Who gathers them anew gathers newer ones.
var ErrStale = errors.New("a later generation of the policy is in force already (if the API server was restored from a backup, delete the policy and apply it again)")

// ErrSamePerson is returned for an approval of somebody who has approved another seat of the same call.
var ErrSamePerson = errors.New("the same person has approved another seat of the call")

// DuplicateError is returned for a run whose idempotency key another run of the namespace holds.
type DuplicateError struct{ Of v1alpha1.RunReference }

func (e *DuplicateError) Error() string { return "duplicate of run " + e.Of.Name }

// Ledger keeps runs. Implementations are for concurrent use; every method is idempotent.
type Ledger interface {
	// Admit freezes the snapshot and makes the run's claim row, once: of a run that is admitted already nothing changes.
	// Errors: *DuplicateError, ErrUnavailable.
	Admit(ctx context.Context, a Admission) error

	// Look gathers what the ledger knows of a run, or nil if it was never admitted. Errors: ErrUnavailable.
	Look(ctx context.Context, run types.UID) (*Record, error)

	// BeginAttempt writes down that an attempt will be made, before its Job is created. Errors: ErrUnknown, ErrUnavailable.
	BeginAttempt(ctx context.Context, run types.UID, k AttemptKey) error
	// StoreJob writes down the UID of the attempt's Job, after it was created. The first UID counts. Errors: ErrUnknown, ErrUnavailable.
	StoreJob(ctx context.Context, run types.UID, k AttemptKey, job types.UID) error
	// EndAttempt writes down how an attempt ended. The first end counts; its claim is given back whenever the end says
	// Terminated and none but its Pods hold it, and the segments that follow are told that its process is gone. Errors: ErrUnknown, ErrUnavailable.
	EndAttempt(ctx context.Context, run types.UID, k AttemptKey, e AttemptEnd) error

	// Cancel commits the cancel of a run: from its return on, no claim is granted. It is final. A run that has ended is
	// left as it is. Errors: ErrUnknown, ErrUnavailable.
	Cancel(ctx context.Context, run types.UID) error
	// Finish ends a run for good and fences its last segment out. The first end counts; it is returned. When it ended is
	// the ledger's to say: e.At is not read. Errors: ErrUnknown, ErrUnavailable.
	Finish(ctx context.Context, run types.UID, e End) (End, error)

	// Provision makes sure that the namespace's login exists with the password. Repeating it with another password
	// changes it; with another slot it makes a second login, and the one before it stays until Retire. Errors: ErrPassword,
	// ErrUnavailable.
	Provision(ctx context.Context, t Tenant) error
	// NextSlot is the slot of which a namespace has no login in its Secret: the one to make a new login in. Errors: ErrUnavailable.
	NextSlot(ctx context.Context, namespaceUID types.UID) (Slot, error)
	// Retire drops the logins of a namespace that came before its present one, once that has been the present one for the given
	// time and every attempt has ended that began before. Until then it does nothing. Errors: ErrOwns, ErrUnavailable.
	Retire(ctx context.Context, namespaceUID types.UID, after time.Duration) error
	// Tenants lists the namespaces that have a login. Their passwords are not told. Errors: ErrUnavailable.
	Tenants(ctx context.Context) ([]Tenant, error)
	// Unprovision drops the login of a namespace that is gone, ends its unfinished runs as Cancelled, and closes its connections.
	// Errors: ErrOwns, when all but the dropping was done; ErrUnavailable.
	Unprovision(ctx context.Context, namespaceUID types.UID) error

	// Project writes what is in force in a namespace as its newest version, unless the newest says the same, and returns once no
	// call can begin under an older version. A tenant delays that for at most two seconds. Errors: ErrStale, ErrUnavailable.
	Project(ctx context.Context, namespaceUID types.UID, set contract.PolicySet) error

	// Question tells how the ledger stands to a request about a call. Of a run that was never admitted it tells the time.
	// Errors: ErrUnavailable.
	Question(ctx context.Context, run types.UID, turn, index int, request types.UID) (decide.Question, error)
	// Deliver puts what was decided into the run's inbox, once for each request; Seq is not read. Of two seats of a call no person
	// approves both. Errors: ErrUnknown, ErrSamePerson, ErrUnavailable.
	Deliver(ctx context.Context, run types.UID, d contract.Delivery) error

	// KeepContracts keeps what the tools of a server are told to be by one generation of its spec: these, and no others that
	// somebody may have put there.
	// Errors: ErrUnavailable.
	KeepContracts(ctx context.Context, namespaceUID, serverUID types.UID, generation int64, tools []contract.ToolContract) error
	// Contracts are those of one generation, by name, or none if none were kept. Of more than contract.MaxTools, which is more than
	// can be used, it gives one more. Errors: ErrUnavailable, contract.ErrSchema.
	Contracts(ctx context.Context, namespaceUID, serverUID types.UID, generation int64) ([]contract.ToolContract, error)
	// Pinned are the contracts of the given digests, of whatever generation. Those that are not there, or are no contracts, are left
	// out. Errors: ErrUnavailable.
	Pinned(ctx context.Context, namespaceUID types.UID, pins []Pin) (map[Pin]contract.ToolContract, error)

	// Beat counts how long the ledger has been going on, from no less than known. A ledger that has counted less was restored to an
	// earlier moment: with the same write it remembers that of every unfinished run with an attempt that had not ended then.
	// Errors: ErrUnavailable.
	Beat(ctx context.Context, known int64) (Pulse, error)

	// Old lists trees of which every run ended longer ago than keep and something of what is left, oldest first, at most limit, from
	// behind the given one on. Errors: ErrUnavailable.
	Old(ctx context.Context, what Kept, keep time.Duration, after Tree, limit int) ([]Tree, error)
	// Drop deletes what of the trees, at most so many rows of a table, and tells what it deleted: nothing once nothing can be
	// deleted. Of a tree with a run that has not ended, or that ended since, it deletes nothing. An idempotency key is forgotten with
	// its run. Errors: ErrUnavailable.
	Drop(ctx context.Context, what Kept, keep time.Duration, roots []types.UID, rows int) (Dropped, error)
	// DropPolicies deletes versions of policies that have not been the newest for longer than keep, at most so many. Errors: ErrUnavailable.
	DropPolicies(ctx context.Context, keep time.Duration, rows int) (Dropped, error)

	// Unfinished lists runs that were admitted before the instant and have not ended, oldest first, at most limit.
	// Errors: ErrUnavailable.
	Unfinished(ctx context.Context, before time.Time, limit int) ([]contract.Identity, error)
}

// Admission is what is frozen when a run is admitted.
type Admission struct {
	Snapshot       contract.Snapshot
	IdempotencyKey string
}

// Record is what the ledger knows of a run.
type Record struct {
	// Now is the time of Postgres: every other instant here is measured by the same clock.
	Now        time.Time
	AdmittedAt time.Time

	SnapshotDigest string
	Terms          contract.Terms
	// Unreadable says why the terms cannot be read, which another version wrote. Empty if they can.
	Unreadable string

	// CancelledAt is when the cancel was committed; zero if it was not.
	CancelledAt time.Time
	// End is how the run ended, or nil.
	End *End

	// Attempts are all attempts at the newest segment, oldest first.
	Attempts []Attempt
	// Outcome is that of the newest segment, as Believed has it, or nil. OutcomeAt is when it was left.
	Outcome   *contract.Outcome
	OutcomeAt time.Time
	// Inbox is what was decided about the calls of the newest turn that was asked about, oldest first. Of a run that does not
	// wait it is not read.
	Inbox []contract.Delivery
	// Waits is how many segments ended waiting.
	Waits int
	// ResultBytes and ResultDigest describe the outcome's whole result; Outcome.Result holds its first
	// contract.MaxInlineResult bytes.
	ResultBytes  int64
	ResultDigest string

	// LapsesAt is from when on the process of the newest attempt counts as silent if it does not beat: contract.LeasePatience after
	// its lease, and not before Postgres has been up for as long as a lease. Zero if that attempt does not hold the run.
	LapsesAt time.Time

	Usage  Usage
	Active time.Duration

	// Count is that of the newest beat. SetBack says that the run was at work at the moment to which the ledger was restored.
	Count   int64
	SetBack bool

	// Entries is the length of the transcript, Settled how many calls have an outcome, Decisions how many were delivered.
	Entries, Settled, Decisions int64
}

// Pulse is what a beat tells: the new count, whether the ledger was set back before, and how many runs were at work then.
type Pulse struct {
	Count   int64
	SetBack bool
	Runs    int
}

// Admission is what the run's state machine decides by. The seed is the run's UID.
func (r *Record) Admission(seed types.UID) *lifecycle.Admission {
	return &lifecycle.Admission{
		Terms: r.Terms, Unreadable: r.Unreadable, Seed: string(seed), Held: r.Memory(), SetBack: r.SetBack, CancelledAt: r.CancelledAt, End: r.End,
		Attempts: r.Attempts, Outcome: r.Outcome, OutcomeAt: r.OutcomeAt, LapsesAt: r.LapsesAt, Inbox: r.Inbox, Waits: r.Waits,
	}
}

// Memory is how far the run has come.
func (r *Record) Memory() lifecycle.Memory {
	m := lifecycle.Memory{
		Snapshot: r.SnapshotDigest, Admitted: true,
		Entries: r.Entries, Begun: int64(r.Usage.ToolCalls), Settled: r.Settled, Decisions: r.Decisions,
	}
	if n := len(r.Attempts); n > 0 {
		m.Newest = &r.Attempts[n-1].AttemptKey
	}
	return m
}

// Lapsed reports whether the process of the newest attempt holds the run and is silent.
func (r Record) Lapsed() bool { return !r.LapsesAt.IsZero() && !r.Now.Before(r.LapsesAt) }

// Believed is the outcome, or one that ends the run if no segment of this version leaves such a one. The logins of namespaces may
// write outcomes, and what is made of a wait is as much as it says.
func Believed(o contract.Outcome) contract.Outcome {
	if o.Yield != contract.YieldWaiting {
		return o
	}
	err := errors.New("it does not say for what")
	if o.Wait != nil {
		err = o.Wait.Check()
	}
	if err == nil {
		return o
	}
	return contract.Outcome{
		Yield: contract.YieldFailed, Code: v1alpha1.ReasonIncompatibleSession,
		Message: contract.Clip(fmt.Sprintf("a segment waits for what this version cannot ask: %v", err), contract.MaxMessage),
	}
}

// Usage sums up what a run has used.
type Usage struct {
	Turns                    int32
	ToolCalls                int32
	Input, CacheRead, Output int64
	Cost                     budget.Micros
}

// The values of an attempt and of an end are lifecycle's: it decides by them, the ledger keeps them.
type (
	// AttemptKey names an attempt of a run.
	AttemptKey = lifecycle.AttemptKey
	// Attempt is one try at a segment.
	Attempt = lifecycle.Attempt
	// AttemptEnd is how an attempt ended.
	AttemptEnd = lifecycle.AttemptEnd
	// AttemptClass says how an attempt ended, in a word.
	AttemptClass = lifecycle.AttemptClass
	// End is how a run ended.
	End = lifecycle.End
)

// Pin names the contract of a tool by what it is.
type Pin struct {
	Server types.UID
	Digest string
}

// Tenant is a namespace and its login.
type Tenant struct {
	Namespace    string
	NamespaceUID types.UID
	Password     string
	// Slot says which of the namespace's logins is in its Secret.
	Slot Slot
	// Retiring says that logins of other slots are there still. It is told, not asked for.
	Retiring bool
}

// CheckPassword reports a password that Postgres would not take as it is: what is not ASCII may be normalized.
// Errors: ErrPassword.
func (t Tenant) CheckPassword() error {
	if t.Password == "" || strings.ContainsFunc(t.Password, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return ErrPassword
	}
	return nil
}

// Login is the name of the namespace's Postgres role.
func (t Tenant) Login() string { return t.Slot.LoginOf(t.NamespaceUID) }
