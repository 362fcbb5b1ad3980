package segmenttest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// anyObject is a schema that every object fits.
const anyObject = `{"type":"object"}`

// Offer gives the agent tools of a server crm, by their effects. The model knows them by their names.
func Offer(s *contract.Snapshot, effects map[string]v1alpha1.Effect, change ...func(*v1alpha1.CompiledTool)) {
	s.Agent.Servers = []v1alpha1.CompiledServer{{Name: "crm", UID: "crm-uid", Type: v1alpha1.ToolServerMCP, URL: "http://crm.example/mcp"}}
	for _, name := range slices.Sorted(maps.Keys(effects)) {
		c := contract.ToolContract{Name: name, Description: "Does " + name + ".", Schema: json.RawMessage(anyObject)}
		_, digest, err := c.Encode()
		if err != nil {
			panic(err) // the schema above is canonical
		}
		t := v1alpha1.CompiledTool{
			Name: name, Server: "crm", Tool: name, Digest: digest, Effect: effects[name], Idempotency: v1alpha1.IdempotencyNone,
			Show: v1alpha1.ShowArguments, TimeoutSeconds: 60, MaxResultBytes: 65536,
		}
		for _, f := range change {
			f(&t)
		}
		s.Agent.Tools, s.Tools, s.Grant = append(s.Agent.Tools, t), append(s.Tools, c), append(s.Grant, name)
	}
}

// Calls is an answer that calls tools, each with its arguments.
func Calls(calls ...segment.ProposedCall) Reply {
	r := Says("")
	r.Answer.Finish, r.Answer.Calls = segment.FinishCalls, calls
	return r
}

// Call is a call as the model proposes it.
func Call(tool, arguments string) segment.ProposedCall {
	return segment.ProposedCall{Tool: tool, Arguments: arguments}
}

// ErrKilled is returned by tools whose process dies.
var ErrKilled = errors.New("killed")

// Tools carries out calls in memory. It counts what reaches the tools.
type Tools struct {
	// Do does a call; nil answers "done". An error of its own ends the call after the intent was written and before its
	// result is: with ErrKilled as if the process had died.
	Do func(ctx context.Context, p gate.Permit) (segment.CallResult, error)
	// Before comes before the intent.
	Before func(p gate.Permit) error
	// Resent stands for what becomes of a call that may have been sent before and is not begun again.
	Resent func(j segment.Recorder) error
	// Ask answers a probe; nil answers "done".
	Ask func(p gate.ProbePermit) (segment.CallResult, error)

	mu            sync.Mutex
	calls, probes []string
}

// Probe is segment.Tools'.
func (t *Tools) Probe(_ context.Context, p gate.ProbePermit) (segment.CallResult, error) {
	t.mu.Lock()
	t.probes = append(t.probes, p.Tool().Tool+string(p.Arguments()))
	t.mu.Unlock()
	if t.Ask == nil {
		return segment.CallResult{Kind: segment.ResultAnswered, Text: "done", Bytes: 4}, nil
	}
	return t.Ask(p)
}

// Probes are the questions that reached their tools, as tool and arguments.
func (t *Tools) Probes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.probes...)
}

// Invoke is segment.Tools'.
func (t *Tools) Invoke(ctx context.Context, p gate.Permit, j segment.Recorder) error {
	if t.Before != nil {
		if err := t.Before(p); err != nil {
			return err
		}
	}
	if t.Resent != nil && j.Resumed() {
		return t.Resent(j)
	}
	if err := j.Begin(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	t.calls = append(t.calls, p.Tool().Tool+string(p.Arguments()))
	t.mu.Unlock()
	r := segment.CallResult{Kind: segment.ResultAnswered, Text: "done", Bytes: 4}
	if t.Do != nil {
		var err error
		if r, err = t.Do(ctx, p); err != nil {
			return err
		}
	}
	return j.Settle(ctx, r)
}

// Calls are the calls that reached their tools, as tool and arguments.
func (t *Tools) Calls() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.calls...)
}
