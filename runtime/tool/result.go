package tool

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// Codes of results. The model and the journal see them.
const (
	// CodeToolFailed means that the tool answered that it has failed.
	CodeToolFailed = v1alpha1.ReasonToolFailed
	// CodeUnreachable means that the call was not carried out, because its server could not be reached or did not take it.
	CodeUnreachable = "Unreachable"
	// CodeNoAnswer means that no whole answer came to a call that reads.
	CodeNoAnswer = "NoAnswer"
)

// result is what is written of the call, and the end of the run if it has to follow.
func (c *call) result(a wire.Answer, err error) (segment.CallResult, error) {
	switch {
	case err == nil && a.Failed:
		return c.bounded(segment.ResultFailed, CodeToolFailed, a), nil
	case err == nil:
		return c.bounded(segment.ResultAnswered, "", a), nil
	}
	return c.unanswered(c.fault(err)), ended(err)
}

// fault is the fault that counts: a doubt, while there is one.
func (c *call) fault(err error) *wire.Fault {
	var fault *wire.Fault
	var changed *wire.ChangedError
	switch {
	case c.doubt != nil:
		return c.doubt
	case errors.As(err, &fault):
		return fault
	case errors.As(err, &changed):
		return &wire.Fault{Certainty: wire.NotDone, Text: "nothing was sent: " + changed.Error()}
	default: // of an adapter that does not say: the worst is assumed
		return &wire.Fault{Certainty: wire.Unknown, Text: "the call broke off"}
	}
}

// unanswered is the result of a call that the tool did not answer.
func (c *call) unanswered(f *wire.Fault) segment.CallResult {
	text := f.Text
	if c.why != "" {
		text += ", and it was not tried again because " + c.why
	}
	switch {
	case f.Certainty == wire.NotDone:
		return c.told(segment.ResultFailed, CodeUnreachable, "The call was not carried out: "+text+".")
	case f.Certainty == wire.TurnedAway:
		return c.told(segment.ResultFailed, CodeToolFailed, "The call was refused: "+text+".")
	case c.order.tool.Effect == v1alpha1.EffectRead:
		return c.told(segment.ResultFailed, CodeNoAnswer, "The call has no result: "+text+".")
	default:
		return c.told(segment.ResultIndeterminate, "", "The call was sent and its outcome is unknown: "+text+
			". It may have taken effect or not. Assume neither, and do not repeat it before you have checked what happened.")
	}
}

func (c *call) told(kind segment.ResultKind, code, text string) segment.CallResult {
	return c.bounded(kind, code, wire.Said(false, text))
}

// bounded is a result whose text, with the line that tells of a cut, keeps to the tool's bound. Texts are redacted before
// they are cut, so that no part of a key is left at the cut.
func (c *call) bounded(kind segment.ResultKind, code string, a wire.Answer) segment.CallResult {
	text, limit := contract.Clean(c.redact(contract.Clean(a.Text))), int(c.order.tool.MaxResultBytes)
	whole := max(a.Bytes, int64(len(a.Text)))
	if text == "" {
		text = "[the answer is empty]"
	}
	if len(text) <= limit {
		return segment.CallResult{Kind: kind, Code: code, Text: text, Bytes: whole}
	}
	room := limit - len(cut(whole, whole))
	for room = min(max(room, 0), len(text)); room > 0 && room < len(text) && !utf8.RuneStart(text[room]); {
		room--
	}
	return segment.CallResult{Kind: kind, Code: code, Text: text[:room] + cut(int64(room), whole), Bytes: whole}
}

// cut is the last line of a text that was cut.
func cut(shown, whole int64) string {
	return fmt.Sprintf("\n[cut: %d of %d bytes are shown]", shown, whole)
}
