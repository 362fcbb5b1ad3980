// Package ledger is the manager's port to Postgres, the record of execution. The API server is the record of
// lifecycle and intent; of a dual write the ledger comes first.
package ledger

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// ErrUnavailable wraps errors of a Postgres that may answer later. Whether a write happened is then unknown; every
// method can be repeated without effect.
var ErrUnavailable = errors.New("the ledger is unavailable")

// ErrUnknown is returned for a run that was never admitted, or an attempt that was never begun.
var ErrUnknown = errors.New("the ledger does not know it")

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
	// Terminated. Errors: ErrUnknown, ErrUnavailable.
	EndAttempt(ctx context.Context, run types.UID, k AttemptKey, e AttemptEnd) error

	// Cancel commits the cancel of a run: from its return on, no claim is granted. It is final. A run that has ended is
	// left as it is. Errors: ErrUnknown, ErrUnavailable.
	Cancel(ctx context.Context, run types.UID) error
	// Finish ends a run for good and fences its last segment out. The first end counts; it is returned. When it ended is
	// the ledger's to say: e.At is not read. Errors: ErrUnknown, ErrUnavailable.
	Finish(ctx context.Context, run types.UID, e End) (End, error)

	// Provision makes sure that the namespace's login exists with the password, of printable ASCII. Repeating it with
	// another password changes it. Errors: ErrUnavailable.
	Provision(ctx context.Context, t Tenant) error
	// Tenants lists the namespaces that have a login. Their passwords are not told. Errors: ErrUnavailable.
	Tenants(ctx context.Context) ([]Tenant, error)
	// Unprovision drops the login of a namespace that is gone, ends its unfinished runs as Cancelled, and closes its connections.
	// Errors: ErrUnavailable.
	Unprovision(ctx context.Context, namespaceUID types.UID) error

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

	// CancelledAt is when the cancel was committed; zero if it was not.
	CancelledAt time.Time
	// End is how the run ended, or nil.
	End *End

	// Attempts are all attempts at the newest segment, oldest first.
	Attempts []Attempt
	// Outcome is that of the newest segment, or nil.
	Outcome *contract.Outcome
	// ResultBytes and ResultDigest describe the outcome's whole result; Outcome.Result holds its first
	// contract.MaxInlineResult bytes.
	ResultBytes  int64
	ResultDigest string

	// Lapsed says that the process of the newest attempt holds the run and that its lease ran out more than ten seconds
	// ago, while Postgres has been up for longer than a lease.
	Lapsed bool

	Usage  Usage
	Active time.Duration
}

// Usage sums up what a run has used.
type Usage struct {
	Turns                    int32
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

// Tenant is a namespace and its login.
type Tenant struct {
	Namespace    string
	NamespaceUID types.UID
	Password     string
}

// Login is the name of the namespace's Postgres role.
func (t Tenant) Login() string { return LoginOf(t.NamespaceUID) }
