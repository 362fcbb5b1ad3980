package tool

import (
	"context"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// Make is Invoke for tests that need no gate: what is judged is none of their concern.
func (v *Invoker) Make(ctx context.Context, t v1alpha1.CompiledTool, arguments, key string, j segment.Recorder) error {
	return v.invoke(ctx, order{tool: t, arguments: []byte(arguments), key: key}, j)
}

// Redactor is redactor.
var Redactor = redactor

// Ask asks as a permit for a probe does.
func (v *Invoker) Ask(ctx context.Context, t v1alpha1.CompiledTool, arguments string) (segment.CallResult, error) {
	return v.ask(ctx, order{tool: t, arguments: []byte(arguments), key: "probe"})
}
