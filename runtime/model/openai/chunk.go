package openai

import (
	"bytes"
	"encoding/json"
)

// chunk is one event of a stream, or a whole completion. Only what is read is here, and what is read may be of the
// wrong type without spoiling the rest.
type chunk struct {
	ID      json.RawMessage `json:"id"`
	Object  json.RawMessage `json:"object"`
	Choices []choice        `json:"choices"`
	Usage   reported        `json:"usage"`
	// Groq reports usage here.
	XGroq struct {
		Usage reported `json:"usage"`
	} `json:"x_groq"`
	Error json.RawMessage `json:"error"`
}

type choice struct {
	Index   int                        `json:"index"`
	Delta   map[string]json.RawMessage `json:"delta"`
	Message map[string]json.RawMessage `json:"message"`
	Finish  *string                    `json:"finish_reason"`
	// Moonshot reports usage here.
	Usage reported `json:"usage"`
}

// problem is the error that an event reports in place of an answer.
func (c chunk) problem(e event) (problem, bool) {
	if present(c.Error) || string(c.Object) == `"error"` || e.name == "error" {
		p, ok := parseProblem(e.data)
		return p, ok || e.name == "error"
	}
	return problem{}, false
}

// present reports whether a field is there and says something.
func present(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", `""`, "{}", "[]", "false":
		return false
	default:
		return true
	}
}
