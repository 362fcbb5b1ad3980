// Package record gives transcript entries their stored form: a kind, a schema number and a JSON body. It is pure, and
// every store uses it, so that what one keeps another can read.
package record

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// Record is a stored entry.
type Record struct {
	Kind   string
	Schema int
	Body   string
}

// Kinds of entries, and the schemas this version writes and reads.
const (
	KindAnswered      = "ModelAnswered"
	KindAttemptFailed = "AttemptFailed"

	schemaAnswered      = 1
	schemaAttemptFailed = 1
)

// answered is schema 1 of ModelAnswered. The provider's message is kept as a string of its very bytes: as a value it
// would lose its spacing and its escapes, and a replayed prefix would no longer be the prefix.
type answered struct {
	Turn   int            `json:"turn"`
	Try    int            `json:"try"`
	Finish segment.Finish `json:"finish"`
	Text   string         `json:"text"`
	Calls  []proposedCall `json:"calls,omitempty"`
	Raw    string         `json:"raw,omitempty"`
}

type proposedCall struct {
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
}

// attemptFailed is schema 1 of AttemptFailed.
type attemptFailed struct {
	Turn      int       `json:"turn"`
	Try       int       `json:"try"`
	Retryable bool      `json:"retryable"`
	Code      string    `json:"code"`
	Message   string    `json:"message"`
	NotBefore time.Time `json:"notBefore,omitzero"`
}

// Encode is the stored form of e, cleaned of what Postgres cannot hold. Equal entries have equal forms.
func Encode(e segment.Entry) (Record, error) {
	switch e := e.(type) {
	case segment.Answered:
		b := answered{Turn: e.Turn, Try: e.Try, Finish: e.Finish, Text: contract.Clean(e.Text), Raw: contract.Clean(string(e.Raw))}
		for _, c := range e.Calls {
			b.Calls = append(b.Calls, proposedCall{Tool: contract.Clean(c.Tool), Arguments: contract.Clean(c.Arguments)})
		}
		return encode(KindAnswered, schemaAnswered, b)
	case segment.AttemptFailed:
		return encode(KindAttemptFailed, schemaAttemptFailed, attemptFailed{
			Turn: e.Turn, Try: e.Try, Retryable: e.Retryable,
			Code: contract.Clean(e.Code), Message: contract.Clean(e.Message), NotBefore: e.NotBefore.UTC(),
		})
	default:
		return Record{}, fmt.Errorf("entry %T has no stored form", e)
	}
}

func encode(kind string, schema int, body any) (Record, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return Record{}, fmt.Errorf("encoding entry %s: %w", kind, err)
	}
	return Record{Kind: kind, Schema: schema, Body: string(b)}, nil
}

// Decode reads a stored entry. The error is contract.ErrSchema for a kind or schema this version does not know.
func Decode(r Record) (segment.Entry, error) {
	switch {
	case r.Kind == KindAnswered && r.Schema == schemaAnswered:
		var b answered
		if err := decode(r, &b); err != nil {
			return nil, err
		}
		e := segment.Answered{Turn: b.Turn, Try: b.Try, Finish: b.Finish, Text: b.Text}
		if b.Raw != "" {
			e.Raw = json.RawMessage(b.Raw)
		}
		for _, c := range b.Calls {
			e.Calls = append(e.Calls, segment.ProposedCall(c))
		}
		return e, nil
	case r.Kind == KindAttemptFailed && r.Schema == schemaAttemptFailed:
		var b attemptFailed
		if err := decode(r, &b); err != nil {
			return nil, err
		}
		return segment.AttemptFailed(b), nil
	default:
		return nil, fmt.Errorf("%w: this version does not read entry %s of schema %d", contract.ErrSchema, r.Kind, r.Schema)
	}
}

func decode(r Record, into any) error {
	if err := json.Unmarshal([]byte(r.Body), into); err != nil {
		return fmt.Errorf("%w: entry %s does not parse: %w", contract.ErrSchema, r.Kind, err)
	}
	return nil
}

// DecodeAll reads a stored transcript.
func DecodeAll(rs []Record) (segment.Transcript, error) {
	var t segment.Transcript
	for i, r := range rs {
		e, err := Decode(r)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		t = append(t, e)
	}
	return t, nil
}
