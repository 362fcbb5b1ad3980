package segment

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ekiden-dev/ekiden/runtime/budget"
)

// Transcript is the session of a run: everything that changes what happens next, in order.
type Transcript []Entry

// Entry is one step of a session. Entries are written once and never change.
//
//sumtype:decl
type Entry interface{ isEntry() }

// Answered is a whole answer of the model. It ends turn number Turn.
type Answered struct {
	// Turn counts from 0, Try from 1.
	Turn int `json:"turn"`
	Try  int `json:"try"`
	// Raw is the assistant message as the provider sent it, to be replayed unchanged.
	Raw json.RawMessage `json:"raw"`
	// Text is what it says.
	Text string `json:"text"`
	// Calls are the tools it wants.
	Calls []ProposedCall `json:"calls,omitempty"`
	// Finish is why it stopped.
	Finish Finish `json:"finish"`
}

// AttemptFailed is a try at a model call that gave no answer.
type AttemptFailed struct {
	Turn int `json:"turn"`
	Try  int `json:"try"`
	// Retryable says whether another try may fare better.
	Retryable bool `json:"retryable"`
	// Code is the reason in a word, Message in a sentence.
	Code    string `json:"code"`
	Message string `json:"message"`
	// NotBefore is when the next try may begin.
	NotBefore time.Time `json:"notBefore,omitzero"`
}

func (Answered) isEntry()      {}
func (AttemptFailed) isEntry() {}

// ProposedCall is a tool call as the model proposed it.
type ProposedCall struct {
	// Tool is the name as the model said it, Arguments the text it gave, perhaps not valid JSON.
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
}

// Finish says why the model stopped.
type Finish string

const (
	// FinishStop means that the model was done.
	FinishStop Finish = "stop"
	// FinishLength means that the answer was cut at its bound.
	FinishLength Finish = "length"
	// FinishCalls means that the model wants tools.
	FinishCalls Finish = "calls"
	// FinishRefused means that the model, or a filter before it, declined.
	FinishRefused Finish = "refused"
)

// Usage is what one try at a model call has used. It is kept apart from the entries because a try that leaves no entry costs too.
type Usage struct {
	Turn   int           `json:"turn"`
	Try    int           `json:"try"`
	Tokens budget.Tokens `json:"tokens"`
	// Estimated says that the provider did not report the tokens.
	Estimated bool          `json:"estimated,omitempty"`
	Cost      budget.Micros `json:"costMicros"`
}

// turns is how many turns have ended.
func (t Transcript) turns() int {
	n := 0
	for _, e := range t {
		if _, ok := e.(Answered); ok {
			n++
		}
	}
	return n
}

// failedTries is how many tries at the present turn have failed.
func (t Transcript) failedTries() int {
	n := 0
	for i := len(t) - 1; i >= 0; i-- {
		if _, ok := t[i].(AttemptFailed); !ok {
			break
		}
		n++
	}
	return n
}

// text is the answer so far: the model's words since it last called a tool, cut answers joined to their continuations.
func (t Transcript) text() string {
	var b strings.Builder
	for _, e := range t {
		a, ok := e.(Answered)
		switch {
		case ok && len(a.Calls) > 0:
			b.Reset()
		case ok:
			b.WriteString(a.Text)
		}
	}
	return b.String()
}

// partial is what there is to show of a run that stops, or falls silent, before an answer: the answer so far, or else the last
// words beside a call, or else what was done. It is empty only before the first turn.
func (t Transcript) partial(j Journal) string {
	if text := t.text(); strings.TrimSpace(text) != "" {
		return text
	}
	for i := len(t) - 1; i >= 0; i-- {
		if a, ok := t[i].(Answered); ok && strings.TrimSpace(a.Text) != "" {
			return a.Text
		}
	}
	if t.turns() == 0 {
		return ""
	}
	return fmt.Sprintf("The agent gave no answer. It took %d turns and made %d tool calls.", t.turns(), j.sent())
}

func (t Transcript) last() Entry {
	if len(t) == 0 {
		return nil
	}
	return t[len(t)-1]
}
