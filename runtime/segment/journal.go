package segment

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// CallKey names a call of a run. Both numbers count from 0; the provider's id for the call is not used.
type CallKey struct {
	Turn  int `json:"turn"`
	Index int `json:"index"`
}

// Journal is what is known of the calls of a run. A call that is not in it has not begun.
type Journal map[CallKey]Call

// Call is one call in the journal.
//
//	(not there) ──Begin──► begun ──Settle──► settled
//	     └───────────────Settle (never sent)────┘
//
// A call that is begun and not settled may have been sent. Next never sees one in flight, so nobody knows what came of it: it
// is made again if that is harmless, and else doubt.go says how it goes on.
type Call struct {
	CallKey
	// Tool is the tool, as server/tool.
	Tool   string
	Effect v1alpha1.Effect
	// Idempotency says whether the call may be sent again with the same key.
	Idempotency v1alpha1.Idempotency
	// Digest is that of the canonical arguments.
	Digest string
	// Generation is that of the claim under which the call was last begun or settled.
	Generation int64
	// Begun says that its intent was written, so that it may have been sent.
	Begun bool
	// Gone says that whoever wrote the newest intent sends nothing of the call any more: the manager saw its process end, or it has
	// left an outcome since, or it is this process and has given the call up.
	Gone bool
	// Approvals are the requests by which it was last begun, those that had it made again included.
	Approvals []types.UID
	// Result is how it ended, or nil.
	Result *CallResult
}

// repeatable reports whether sending the call again is harmless.
func (c Call) repeatable() bool {
	return c.Effect == v1alpha1.EffectRead || c.Idempotency == v1alpha1.IdempotencyKey
}

// Intent is what is written before a call is sent.
type Intent struct {
	CallKey
	Tool        string
	Effect      v1alpha1.Effect
	Idempotency v1alpha1.Idempotency
	Digest      string
	// Key is the Idempotency-Key that goes out with the call.
	Key string
	// Rule is the rule that let the call through, as namespace/policy/rule, or empty.
	Rule string
	// Approvals are the requests by which it was approved, By who approved. Empty if it needed no approval.
	Approvals []types.UID
	By        []string
	// PolicyVersion is the version of the policy by which it was judged.
	PolicyVersion int64
}

// Settlement is how a call ended.
type Settlement struct {
	CallKey
	// Tool, Effect and Digest describe a call that was never begun; of one that was, the intent has said so already.
	Tool   string
	Effect v1alpha1.Effect
	Digest string
	Result CallResult
}

// CallResult is how a call ended, and what the model is told.
type CallResult struct {
	Kind ResultKind `json:"kind"`
	// Code says why in a word, for a call that was refused or that failed.
	Code string `json:"code,omitempty"`
	// Text is what the model reads, cut to the tool's bound.
	Text string `json:"text"`
	// Bytes is the size of the whole result before it was cut.
	Bytes int64 `json:"bytes"`
}

// ResultKind says how a call ended.
type ResultKind string

const (
	// ResultAnswered means that the tool did it, or says so.
	ResultAnswered ResultKind = "answered"
	// ResultFailed means that the tool answered that it failed, or could not be reached at all.
	ResultFailed ResultKind = "failed"
	// ResultRefused means that the call was not sent: its arguments, the policy or people stood against it.
	ResultRefused ResultKind = "refused"
	// ResultIndeterminate means that the call was sent and nobody knows what came of it.
	ResultIndeterminate ResultKind = "indeterminate"
)
