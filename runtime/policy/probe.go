package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// What the two expressions of a probe see.
var (
	asking = sync.OnceValues(func() (*cel.Env, error) {
		return world(cel.Variable("args", object), cel.Variable("key", cel.StringType))
	})
	reading = sync.OnceValues(func() (*cel.Env, error) {
		return world(cel.Variable("answer", cel.DynType), cel.Variable("text", cel.StringType))
	})
)

// Probe is a probe of a tool, compiled. It is for concurrent use.
type Probe struct{ arguments, happened cel.Program }

// CompileProbe compiles the expressions of a probe. The error names the field.
func CompileProbe(arguments, happened string) (*Probe, error) {
	var p Probe
	for _, f := range []struct {
		field, text string
		in          func() (*cel.Env, error)
		of          *cel.Type
		into        *cel.Program
	}{
		{"arguments", arguments, asking, object, &p.arguments},
		{"happened", happened, reading, cel.BoolType, &p.happened},
	} {
		world, err := f.in()
		if err != nil {
			return nil, err
		}
		if *f.into, _, err = plan(world, f.text, f.of); err != nil {
			return nil, fmt.Errorf("%s: the expression does not compile: %w", f.field, err)
		}
	}
	return &p, nil
}

// Arguments are what is asked with. The problem holds nothing of the call's arguments.
func (p *Probe) Arguments(args map[string]any, key string) (asked map[string]any, problem string) {
	args, _ = variables(args).(map[string]any)
	out, problem := evaluated(p.arguments, map[string]any{"args": args, "key": key}, "arguments")
	if problem != "" {
		return nil, problem
	}
	made, err := plain(out, maxDepth)
	asked, ok := made.(map[string]any)
	if err != nil || !ok {
		return nil, "its expression arguments makes no JSON object"
	}
	return asked, ""
}

// Happened tells from an answer whether the call took effect. The problem holds nothing of the answer.
func (p *Probe) Happened(text string) (happened bool, problem string) {
	var answer any
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if d.Decode(&answer) != nil || d.More() {
		answer = nil
	}
	out, problem := evaluated(p.happened, map[string]any{"answer": variables(answer), "text": text}, "happened")
	if problem != "" {
		return false, problem
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, "its expression happened is not true or false on the answer"
	}
	return bool(b), ""
}

func evaluated(program cel.Program, facts map[string]any, name string) (ref.Val, string) {
	out, _, err := program.Eval(facts)
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled):
		return nil, fmt.Sprintf("its expression %s costs more than %d steps", name, maxCost)
	case err != nil:
		return nil, "its expression " + name + " fails, as when it looks at something that is not there"
	}
	return out, ""
}

// maxDepth is how deep what an expression makes may be nested.
const maxDepth = 32

var errNotJSON = errors.New("it has no form in JSON")

// plain is v as what encoding/json encodes.
func plain(v ref.Val, depth int) (any, error) {
	if depth == 0 {
		return nil, errNotJSON
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
		return nil, errNotJSON
	case types.String:
		return string(v), nil
	case traits.Mapper:
		return fields(v, depth)
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			of, err := plain(it.Next(), depth-1)
			if err != nil {
				return nil, err
			}
			out = append(out, of)
		}
		return out, nil
	default:
		return nil, errNotJSON
	}
}

func fields(v traits.Mapper, depth int) (any, error) {
	out := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		name := it.Next()
		text, ok := name.(types.String)
		if !ok {
			return nil, errNotJSON
		}
		of, err := plain(v.Get(name), depth-1)
		if err != nil {
			return nil, err
		}
		out[string(text)] = of
	}
	return out, nil
}
