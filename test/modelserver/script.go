// Package modelserver is a model for tests and demonstrations: an OpenAI-compatible server that follows a script.
//
// A script is a list of rules. A request goes to the first rule that matches it, and gets the rule's next step. Steps
// are counted per conversation, so that many runs can share one server:
//
//	request ──► valid? ──► key accepted? ──► rule ──► step of (rule, conversation) ──► answer, fault or silence
//
// README.md describes the format of script files.
package modelserver

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Script is what a server answers.
type Script struct {
	// RequireKey is the key that requests must carry. Empty means that any will do.
	RequireKey string `json:"requireKey,omitempty"`
	Rules      []Rule `json:"rules"`
}

// Rule is how one kind of request is answered.
type Rule struct {
	Name string `json:"name,omitempty"`
	When When   `json:"when,omitempty"`
	// Steps are taken in order, one per request of a conversation.
	Steps []Step `json:"steps"`
	// ByTurn takes the step after as many as the conversation holds answers, so that a request that is made again gets the same.
	ByTurn bool `json:"byTurn,omitempty"`
	// Then says what happens when the steps are over: Repeat (the default) takes the last one again, Fail answers 500.
	Then string `json:"then,omitempty"`
}

const (
	// Repeat takes the last step again and again.
	Repeat = "repeat"
	// Fail answers 500 once the steps are over.
	Fail = "fail"
)

// When says which requests a rule is for: those that match all fields that are set.
type When struct {
	// Model, Task and Last are substrings of the model's name, of the first and of the last user message.
	Model string `json:"model,omitempty"`
	Task  string `json:"task,omitempty"`
	Last  string `json:"last,omitempty"`
	// Request is the number of the request in its conversation, from 1.
	Request int `json:"request,omitempty"`
}

// Step is one answer. In all texts, {{task}}, {{last}}, {{model}}, {{n}} and {{authorization}} stand for the first and
// last user message, the model's name, the number of the request and the header Authorization.
type Step struct {
	// Gate, Delay and Silent come before anything is sent. Gate waits until the gate is opened, Silent until the client leaves.
	Gate   string   `json:"gate,omitempty"`
	Delay  Duration `json:"delay,omitempty"`
	Silent bool     `json:"silent,omitempty"`

	// Status, Headers and Body make a plain answer of HTTP.
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	// Raw is written as it is in place of a stream, piece by piece.
	Raw []string `json:"raw,omitempty"`

	// Text is streamed in Chunks pieces with ChunkDelay before each.
	Text       string   `json:"text,omitempty"`
	Chunks     int      `json:"chunks,omitempty"`
	ChunkDelay Duration `json:"chunkDelay,omitempty"`
	// Reasoning is streamed as reasoning_content before the text, Calls are streamed after it.
	Reasoning string `json:"reasoning,omitempty"`
	Calls     *Calls `json:"calls,omitempty"`
	// Finish is the finish reason; none leaves it out. Unset means stop, or tool_calls when there are calls.
	Finish string `json:"finish,omitempty"`
	Usage  *Usage `json:"usage,omitempty"`
	// Whole answers with one JSON body although a stream was asked for.
	Whole bool `json:"whole,omitempty"`
	// NoDone leaves out the last event, CRLF ends lines with both characters, Comments puts a comment before each event.
	NoDone   bool `json:"noDone,omitempty"`
	CRLF     bool `json:"crlf,omitempty"`
	Comments bool `json:"comments,omitempty"`

	// Break is what goes wrong in the middle of the stream.
	Break *Break `json:"break,omitempty"`
}

// Calls are the tool calls of an answer.
type Calls struct {
	List []Call `json:"list"`
	// Pieces is in how many chunks the arguments of each call come. Unset means that each call comes whole.
	Pieces int `json:"pieces,omitempty"`
	// Together puts all calls into one chunk.
	Together bool `json:"together,omitempty"`
	// Index is absent or zero for servers that do not count; unset counts.
	Index string `json:"index,omitempty"`
	// NoID leaves out the ids.
	NoID bool `json:"noID,omitempty"`
}

// Call is one tool call.
type Call struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
}

// Usage is how tokens are reported.
type Usage struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Cached     int64 `json:"cached,omitempty"`
	// Shape is final (a chunk of its own with no choices, the default), last (in the chunk with the finish reason),
	// every (growing, on every chunk) or missing.
	Shape string `json:"shape,omitempty"`
}

// Break ends a stream early, or holds it up, after so many events.
type Break struct {
	After int `json:"after"`
	// Error is sent in the stream, Cut drops the connection, Stall sends nothing more until the client leaves, Gate
	// waits until the gate is opened and goes on.
	Error json.RawMessage `json:"error,omitempty"`
	Cut   bool            `json:"cut,omitempty"`
	Stall bool            `json:"stall,omitempty"`
	Gate  string          `json:"gate,omitempty"`
}

// Duration is a span of time, written such as 20ms.
type Duration time.Duration

// UnmarshalJSON reads a duration in Go's notation.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a duration is written such as \"20ms\": %w", err)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// Parse reads a script in YAML or JSON.
func Parse(b []byte) (Script, error) {
	var s Script
	if err := yaml.UnmarshalStrict(b, &s); err != nil {
		return Script{}, fmt.Errorf("reading script: %w", err)
	}
	return s, s.check()
}

func (s Script) check() error {
	if len(s.Rules) == 0 {
		return fmt.Errorf("a script needs at least one rule")
	}
	for i, r := range s.Rules {
		if len(r.Steps) == 0 {
			return fmt.Errorf("rules[%d] has no steps", i)
		}
		if r.Then != "" && r.Then != Repeat && r.Then != Fail {
			return fmt.Errorf("rules[%d].then is %q: want %s or %s", i, r.Then, Repeat, Fail)
		}
		for j, st := range r.Steps {
			if err := st.check(); err != nil {
				return fmt.Errorf("rules[%d].steps[%d]: %w", i, j, err)
			}
		}
	}
	return nil
}

func (s Step) check() error {
	if s.Calls != nil && s.Calls.Index != "" && s.Calls.Index != "absent" && s.Calls.Index != "zero" {
		return fmt.Errorf("calls.index is %q: want absent or zero", s.Calls.Index)
	}
	if s.Usage != nil && !strings.Contains(" final last every missing ", " "+s.Usage.shape()+" ") {
		return fmt.Errorf("usage.shape is %q: want final, last, every or missing", s.Usage.Shape)
	}
	return nil
}

func (u *Usage) shape() string {
	if u.Shape == "" {
		return "final"
	}
	return u.Shape
}

//go:embed default.yaml
var standard []byte

// Default is the script for demonstrations: three sentences about whatever is asked, streamed.
func Default() Script {
	s, err := Parse(standard)
	if err != nil {
		panic(err) // The script is part of the program.
	}
	return s
}

// One is a script with one rule for everything.
func One(steps ...Step) Script { return Script{Rules: []Rule{{Steps: steps}}} }
