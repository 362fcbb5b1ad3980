// Package wire is what runtime/tool and its adapters agree on: what a call is on its way to a server, and the few things
// that can come of it. Adapters translate whatever their protocols and clients say into these words; nothing above them
// knows a status, an error of a client or a wording.
//
//	Request ──► adapter ──► Answer           the tool answered, or said that it failed
//	                  └───► *Fault           it did not: what is known of what was sent
//	                  └───► *ChangedError    it is no longer the tool that the run was started with
package wire

import (
	"context"
	"fmt"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Adapter speaks to one server. Implementations are for concurrent use and make at most one request that carries a call
// per Call: whoever calls them decides about repeating.
type Adapter interface {
	// Prepare does what has to be known before the intent of a call is written, and sends nothing of the call. Errors: a
	// *Fault of NotDone, *ChangedError.
	Prepare(ctx context.Context, r Request) error
	// Call sends the call and waits for its answer. Errors: *Fault, *ChangedError.
	Call(ctx context.Context, r Request) (Answer, error)
	// Close takes leave of the server. Calls in flight are not waited for.
	Close()
}

// Request is one call on its way.
type Request struct {
	Tool v1alpha1.CompiledTool
	// Arguments are a JSON object in canonical form.
	Arguments []byte
	// Key is the Idempotency-Key, Secret the key of the server or empty.
	Key, Secret string
}

// Answer is a complete answer.
type Answer struct {
	// Failed says that the tool, or what stands before it, says that the call has failed.
	Failed bool
	// Text is the answer, perhaps only its beginning. It may hold anything, secrets included.
	Text string
	// Bytes is the size of the whole answer; never less than the length of Text.
	Bytes int64
}

// Said is an answer that is known whole.
func Said(failed bool, text string) Answer {
	return Answer{Failed: failed, Text: text, Bytes: int64(len(text))}
}

// Certainty is what is known of a call that has no answer.
type Certainty string

const (
	// NotDone means that the call was not carried out, for certain: nothing of it was sent, or it was turned away at the door.
	NotDone Certainty = "not done"
	// TurnedAway means that the server answered that it does not take the request, perhaps only because it has lost the
	// session. It is an answer, but one that a new session may better.
	TurnedAway Certainty = "turned away"
	// Unknown means that the call may have been carried out, or not.
	Unknown Certainty = "unknown"
)

// Fault is a call without an answer of the tool.
type Fault struct {
	Certainty Certainty
	// Final says that trying again is pointless.
	Final bool
	// Text is a clause that says why, without addresses. What a server says in it may hold anything, secrets included.
	Text string
}

func (f *Fault) Error() string { return fmt.Sprintf("%s: %s", f.Certainty, f.Text) }

// ChangedError says that a server offers a tool no longer, or no longer as it was when the run started.
type ChangedError struct {
	Server, Tool string
	// Gone says that it is not offered at all.
	Gone bool
}

func (e *ChangedError) Error() string {
	if e.Gone {
		return fmt.Sprintf("server %s no longer offers the tool %q", e.Server, e.Tool)
	}
	return fmt.Sprintf("server %s offers the tool %q with another contract than when the run started", e.Server, e.Tool)
}

// NotShown stands in an answer for what no model can read.
func NotShown(kind string, size int64) string {
	return fmt.Sprintf("[%s, %d bytes, not shown]", strings.Join(strings.Fields(kind), " "), size)
}
