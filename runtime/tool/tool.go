// Package tool makes the calls that the gate let through. It is the back half of the one pipeline:
//
//	(runtime/gate: allowlist ─► grant ─► schema ─► limits ─► policy ─► approval ─►) credentials ─► journal ─► call ─► bound and redact ─► settle
//
// A tool changes a world that is not ours. So the intent stands in the journal before anything is sent, and what is told
// of a call is only what is known: that it was not carried out, that it was answered, or that nobody knows. A call of
// which nobody knows is made again only where that is harmless.
package tool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/tool/http"
	"github.com/ekiden-dev/ekiden/runtime/tool/mcp"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// Invoker makes calls to the servers of one agent. It is for concurrent use.
type Invoker struct {
	servers map[string]*server
	retry   v1alpha1.Retry
}

var _ segment.Tools = (*Invoker)(nil)

// New is an invoker for the servers. The key of each is read below dir, anew for each call, from a folder that is named
// like the server. The bundles are what of spec.tls is mounted, by the names of the servers. Nothing is dialled before the first call.
func New(servers []v1alpha1.CompiledServer, dir string, bundles map[string][]byte, retry v1alpha1.Retry) (*Invoker, error) {
	v := &Invoker{servers: map[string]*server{}, retry: retry}
	for _, s := range servers {
		a, err := adapter(s, bundles[s.Name])
		if err != nil {
			return nil, err
		}
		v.servers[s.Name] = &server{CompiledServer: s, adapter: a, dir: dir}
	}
	return v, nil
}

func adapter(s v1alpha1.CompiledServer, bundle []byte) (wire.Adapter, error) {
	switch s.Type {
	case v1alpha1.ToolServerMCP:
		return mcp.New(s, bundle)
	case v1alpha1.ToolServerHTTP:
		return http.New(s, bundle)
	default:
		return nil, fmt.Errorf("ToolServer %s has the type %q, which this version does not speak", s.Name, s.Type)
	}
}

// Close takes leave of the servers.
func (v *Invoker) Close() {
	for _, s := range v.servers {
		s.adapter.Close()
	}
}

// Invoke sends the call and settles it.
func (v *Invoker) Invoke(ctx context.Context, p gate.Permit, j segment.Recorder) error {
	if !p.Valid() {
		return errors.New("a call without a permit")
	}
	return v.invoke(ctx, order{tool: p.Tool(), arguments: p.Arguments(), key: p.Key()}, j)
}

// Probe asks whether a call took effect, as one that reads is made. Nothing is journaled. A server that no longer offers what is
// asked gives no answer, and does not end the run.
func (v *Invoker) Probe(ctx context.Context, p gate.ProbePermit) (segment.CallResult, error) {
	if !p.Valid() {
		return segment.CallResult{}, errors.New("a question without a permit")
	}
	return v.ask(ctx, order{tool: p.Tool(), arguments: p.Arguments(), key: p.Key()})
}

func (v *Invoker) ask(ctx context.Context, o order) (segment.CallResult, error) {
	c, err := v.open(o)
	if err != nil {
		return segment.CallResult{}, err
	}
	var answer wire.Answer
	if err = c.prepare(ctx); err == nil {
		answer, err = c.make(ctx, nil)
	}
	result, _ := c.result(answer, err)
	return result, nil
}

// order is what of a permit matters here.
type order struct {
	tool      v1alpha1.CompiledTool
	arguments []byte
	key       string
}

// repeatable reports whether making the call again is harmless.
func (o order) repeatable() bool {
	return o.tool.Effect == v1alpha1.EffectRead || o.tool.Idempotency == v1alpha1.IdempotencyKey
}

// prepareWithin bounds what is done before the intent is written: it is outside the tool's own timeout.
const prepareWithin = 30 * time.Second

func (v *Invoker) invoke(ctx context.Context, o order, j segment.Recorder) error {
	c, err := v.open(o) // credentials
	if err != nil {
		return err
	}
	if j.Resumed() && o.tool.Effect != v1alpha1.EffectRead {
		c.doubt = &wire.Fault{Certainty: wire.Unknown, Text: "an earlier attempt may have sent it"}
	}
	if err := c.prepare(ctx); err != nil {
		return c.unbegun(ctx, err, j)
	}
	if err := j.Begin(ctx); err != nil { // journal
		return err
	}
	answer, err := c.make(ctx, j.Wanted) // call
	if err != nil && ctx.Err() != nil && o.repeatable() {
		return context.Cause(ctx) // the next attempt makes it again
	}
	result, end := c.result(answer, err) // bound and redact
	return c.settle(ctx, result, end, j)
}

// unbegun ends a call that this process wrote no intent for. Where the pod is going nothing is written: the next attempt
// makes it. The end of the run needs no result of a call that nobody began.
func (c *call) unbegun(ctx context.Context, err error, j segment.Recorder) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	result, end := c.result(wire.Answer{}, err)
	if end != nil && c.doubt == nil {
		return end
	}
	return c.settle(ctx, result, end, j)
}

// settle outlives the pod's grace: what is known of a call that was begun has to be written, and the recorder has bounds
// of its own. An end waits until then.
func (c *call) settle(ctx context.Context, result segment.CallResult, end error, j segment.Recorder) error {
	if err := j.Settle(context.WithoutCancel(ctx), result); err != nil {
		return err
	}
	return end
}

// ended is the end of a run whose tool is no longer what it was, or nil.
func ended(err error) error {
	var changed *wire.ChangedError
	if !errors.As(err, &changed) {
		return nil
	}
	return &segment.EndError{Code: v1alpha1.ReasonContractChanged, Message: contract.Clip(fmt.Sprintf(
		"%v: change spec.release of the ToolServer to have its tools discovered again, then start another run", changed), contract.MaxMessage)}
}
