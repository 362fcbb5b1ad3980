// Package segmenttest is a world in memory for tests of the loop: a scripted model, a process that can be stopped and killed.
package segmenttest

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// Reply is what the model does with one request.
type Reply struct {
	// After is how long it thinks.
	After time.Duration
	// Answer is what it says, unless Err is set.
	Answer segment.Answer
	Err    error
}

// Says is a whole answer.
func Says(text string) Reply {
	return Reply{Answer: segment.Answer{
		Raw: json.RawMessage(`{"role":"assistant"}`), Text: text, Finish: segment.FinishStop, Tokens: budget.Tokens{Input: 10, Output: 5},
	}}
}

// Cut is an answer that was cut at its length limit.
func Cut(text string) Reply {
	r := Says(text)
	r.Answer.Finish = segment.FinishLength
	return r
}

// Fails is a request that gave no answer.
func Fails(e segment.CallError) Reply { return Reply{Err: &e} }

// Takes is r after a while.
func (r Reply) Takes(d time.Duration) Reply {
	r.After = d
	return r
}

// Model replies from a script, one reply a request. It counts requests.
type Model struct {
	mu      sync.Mutex
	script  []Reply
	prompts []prompt.Prompt
}

// Script is a model that gives the replies in order, and an error that crashes the segment when they are over.
func Script(replies ...Reply) *Model { return &Model{script: replies} }

// Answer is segment.Model's.
func (m *Model) Answer(ctx context.Context, p prompt.Prompt, emit func(string)) (segment.Answer, error) {
	m.mu.Lock()
	n := len(m.prompts)
	m.prompts = append(m.prompts, p)
	m.mu.Unlock()
	if n >= len(m.script) {
		return segment.Answer{}, errors.New("the script is over")
	}
	r := m.script[n]
	select {
	case <-ctx.Done():
		return segment.Answer{Tokens: budget.Tokens{Input: 10}, Estimated: true}, ctx.Err()
	case <-time.After(r.After):
	}
	if r.Err == nil {
		emit(r.Answer.Text)
	}
	return r.Answer, r.Err
}

// Prompts are the requests so far.
func (m *Model) Prompts() []prompt.Prompt {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]prompt.Prompt(nil), m.prompts...)
}
