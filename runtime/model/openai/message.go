package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// message is an assistant message as it grows. A whole message is one large delta.
type message struct {
	emit    func(string)
	content content
	calls   calls
	extra   fields
	// refusal is what the model said in place of an answer.
	refusal growing
	// id is the completion's, for the ids of calls that come without.
	id string
	// reason is why the model stopped, in the server's words. Empty until it did.
	reason string
	ended  bool
	// started says that something of the answer has come.
	started bool
	// size is how many bytes have come, around which answers are reckoned and bounded.
	size int
}

func newMessage(emit func(string)) *message { return &message{emit: emit} }

// add takes a choice of a chunk and reports whether the answer grew. The error is errTooLarge.
func (m *message) add(id json.RawMessage, c choice) (grew bool, err error) {
	if m.id == "" {
		m.id = string(id)
	}
	delta := c.Delta
	if delta == nil && !m.started {
		delta = c.Message // Some servers stream one chunk that holds the whole message.
	}
	before := m.size
	for name, raw := range delta {
		m.size += m.field(name, bytes.TrimSpace(raw))
	}
	if c.Finish != nil && *c.Finish != "" {
		m.reason = *c.Finish
		grew = true
	}
	if m.size > before {
		grew, m.started = true, true
	}
	if m.size > maxAnswer {
		return grew, errTooLarge
	}
	return grew, nil
}

// field takes one field of a delta and returns how many bytes of it are new.
func (m *message) field(name string, raw json.RawMessage) int {
	if len(raw) == 0 || string(raw) == "null" {
		return 0
	}
	switch name {
	case "role":
		return 0
	case "content":
		return m.content.add(raw, m.emit)
	case "refusal":
		if raw[0] != '"' {
			return 0
		}
		m.refusal.add(raw)
		return len(raw) - 2
	case "tool_calls":
		return m.calls.add(raw)
	case "function_call": // The predecessor of tool_calls: at most one, without id and index.
		return m.calls.legacy(raw)
	default:
		return m.extra.add(name, raw)
	}
}

// end says that the server will send no more. An answer that has begun is then whole even without a reason to finish.
func (m *message) end() {
	m.ended = m.ended || m.started || m.reason != ""
}

// whole reports whether this is all of the answer.
func (m *message) whole() bool {
	return (m.reason != "" || m.ended) && !failures[strings.ToLower(m.reason)]
}

// failures are reasons to finish that are the endpoint's fault rather than the model's choice.
var failures = map[string]bool{
	"error": true, "abort": true, "aborted": true, "cancelled": true, "network_error": true,
	"insufficient_system_resource": true, "engine_overloaded": true,
}

var (
	cutShort = map[string]bool{"length": true, "max_tokens": true, "model_length": true, "max_output_tokens": true, "model_context_window_exceeded": true}
	refusals = map[string]bool{"content_filter": true, "refusal": true, "safety": true, "sensitive": true, "recitation": true, "prohibited_content": true, "blocklist": true}
)

// finish is why the model stopped. Calls say more than the reason: some servers say stop when they call.
func (m *message) finish() segment.Finish {
	reason := strings.ToLower(m.reason)
	switch {
	case refusals[reason], m.refusal.String() != "":
		return segment.FinishRefused
	case cutShort[reason]:
		return segment.FinishLength
	case len(m.calls.named()) > 0:
		return segment.FinishCalls
	default:
		return segment.FinishStop
	}
}

// answer is the message once it is whole.
func (m *message) answer() segment.Answer {
	m.content.end(m.emit)
	m.refusal.end()
	out := segment.Answer{Text: m.content.String(), Finish: m.finish()}
	wire := map[string]any{}
	m.extra.into(wire)
	wire["role"] = "assistant"
	wire["content"] = m.content.wire()
	if s := m.refusal.String(); s != "" {
		wire["refusal"] = s
	}
	if list := m.calls.named(); len(list) > 0 {
		out.Calls = list.proposed(out.Finish)
		wire["tool_calls"] = list.wire(m.id, out.Calls)
		if out.Text == "" && m.content.plain() {
			wire["content"] = nil
		}
	}
	out.Raw, _ = encode(wire) // Maps, strings and numbers that came as JSON.
	return out
}
