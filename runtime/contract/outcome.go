package contract

// Yield says why a segment ended while its process was healthy.
type Yield string

const (
	// YieldCompleted means that the agent gave its final answer.
	YieldCompleted Yield = "completed"
	// YieldCeiling means that a limit ended the run.
	YieldCeiling Yield = "ceiling"
	// YieldWaiting means that the run waits for people: Outcome.Wait says for what. Nothing of it runs meanwhile.
	YieldWaiting Yield = "waiting"
	// YieldCheckpoint means that the segment used up its time and wants another one to continue.
	YieldCheckpoint Yield = "checkpoint"
	// YieldCancelled means that the segment saw the cancel and stopped.
	YieldCancelled Yield = "cancelled"
	// YieldFailed means that another segment would fail the same way.
	YieldFailed Yield = "failed"
)

// Outcome is what a segment leaves behind, in the same transaction as its last entry. There is at most one per segment.
type Outcome struct {
	Yield Yield `json:"yield"`
	// Code and Message say why, for YieldFailed and YieldCeiling. Code is one of the reasons of the API.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Result is the answer so far, for YieldCompleted and YieldCeiling. Whole; the status shows its beginning.
	Result string `json:"result,omitempty"`
	// Wait is what is waited for, for YieldWaiting.
	Wait *Wait `json:"wait,omitempty"`
}

// Fault is why an attempt ended that another one may cure. It travels as the container's termination
// message, so that it arrives although Postgres may be what failed.
type Fault struct {
	Code    FaultCode `json:"fault"`
	Message string    `json:"message,omitempty"`
	// NotBeforeSeconds is how long the next attempt should wait, in seconds from the end of this one. Zero leaves it to the manager.
	NotBeforeSeconds int32 `json:"notBeforeSeconds,omitempty"`
}

// FaultCode names a fault.
type FaultCode string

const (
	// FaultLedger means that Postgres could not be reached or refused the login. It is never counted, for the manager
	// needs the same Postgres to start another attempt; one that segments alone cannot reach ends the run in time.
	FaultLedger FaultCode = "LedgerUnavailable"
	// FaultDeferred means that the next model call is due later than this segment may wait. The session has
	// counted the failed try, so the attempt is not counted again.
	FaultDeferred FaultCode = "Deferred"
	// FaultStopped means that the pod was told to stop before it had added anything. It is not counted.
	FaultStopped FaultCode = "Stopped"
	// FaultSecretMissing means that a mounted credential is not there. It is counted.
	FaultSecretMissing FaultCode = "SecretMissing"
	// FaultCABundleMissing means that a mounted bundle of certificates is not there or holds none. It is counted.
	FaultCABundleMissing FaultCode = "CABundleMissing"
)

// Counted reports whether an attempt that ended with the fault counts against retry.maxAttempts.
func (c FaultCode) Counted() bool {
	switch c {
	case FaultLedger, FaultDeferred, FaultStopped:
		return false
	default:
		return true
	}
}

// Exit codes of a segment.
const (
	// ExitDone means that there is an outcome, a cancel or an end, and nothing to do.
	ExitDone = 0
	// ExitUsage means that the command line was wrong.
	ExitUsage = 2
	// ExitFault means that another attempt may cure it; the termination message holds the Fault. It is EX_TEMPFAIL of sysexits.h.
	ExitFault = 75
)
