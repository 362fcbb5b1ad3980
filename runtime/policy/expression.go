package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	// maxExpression is the most characters of an expression, as the API has it.
	maxExpression = 2048
	// maxCost is the most that one evaluation may cost, in the units of CEL: about the number of values looked at.
	maxCost = 100_000
)

// object is a JSON object.
var object = cel.MapType(cel.StringType, cel.DynType)

// world is what expressions see. map and filter are left out: they build lists of any size.
func world(variables ...cel.EnvOption) (*cel.Env, error) {
	return cel.NewCustomEnv(append(variables,
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeMacros: []string{operators.Map, operators.Filter}})),
		cel.CrossTypeNumericComparisons(true),
	)...)
}

// environment is what the expression of a rule sees.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return world(
		cel.Variable("args", object),
		cel.Variable("tool", cel.StringType),
		cel.Variable("effect", cel.StringType),
		cel.Variable("definition", cel.StringType),
		cel.Variable("principal", object),
	)
})

// expression is a compiled expression.
type expression struct {
	program cel.Program
	// paths are the arguments it looks at without asking whether they are there.
	paths [][]string
}

// compileExpression compiles an expression of type bool. The error goes on after a colon.
func compileExpression(text string) (*expression, error) {
	world, err := environment()
	if err != nil {
		return nil, err
	}
	program, root, err := plan(world, text, cel.BoolType)
	if err != nil {
		return nil, err
	}
	return &expression{program: program, paths: paths(root)}, nil
}

// plan compiles an expression of the type. The error goes on after a colon.
func plan(world *cel.Env, text string, of *cel.Type) (cel.Program, ast.NavigableExpr, error) {
	if len(text) > maxExpression {
		return nil, nil, fmt.Errorf("it has %d bytes and may have %d", len(text), maxExpression)
	}
	checked, issues := world.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, nil, fmt.Errorf("at column %d, %s", first.Location.Column()+1, contract.Clip(strings.Join(strings.Fields(first.Message), " "), 256))
	}
	if t := checked.OutputType(); t.Kind() != of.Kind() && !t.IsExactType(cel.DynType) {
		return nil, nil, fmt.Errorf("it is of type %s and must be of type %s", t, of)
	}
	root := ast.NavigateAST(checked.NativeRep())
	if err := literalPatterns(root); err != nil {
		return nil, nil, err
	}
	program, err := world.Program(checked, cel.CostLimit(maxCost))
	if err != nil {
		return nil, nil, errors.New("it cannot be planned")
	}
	return program, root, nil
}

// literalPatterns refuses patterns that come from the arguments: what they compile to has no bound in the cost.
func literalPatterns(root ast.NavigableExpr) error {
	for _, call := range ast.MatchDescendants(root, ast.FunctionMatcher("matches")) {
		args := call.AsCall().Args()
		if p := args[len(args)-1]; p.Kind() != ast.LiteralKind {
			return errors.New("the pattern of matches must be a literal")
		}
	}
	return nil
}

// paths are the chains of fields that begin at args.
func paths(root ast.NavigableExpr) [][]string {
	var out [][]string
	for _, e := range ast.MatchDescendants(root, ast.KindMatcher(ast.SelectKind)) {
		var path []string
		var at ast.Expr = e
		for at.Kind() == ast.SelectKind && !at.AsSelect().IsTestOnly() {
			path = append(path, at.AsSelect().FieldName())
			at = at.AsSelect().Operand()
		}
		if at.Kind() == ast.IdentKind && at.AsIdent() == "args" {
			slices.Reverse(path)
			out = append(out, path)
		}
	}
	slices.SortStableFunc(out, func(a, b []string) int { return len(a) - len(b) })
	return out
}

// facts are the variables of the expressions.
func facts(c Call) map[string]any {
	args, _ := variables(c.Arguments).(map[string]any)
	return map[string]any{
		"args": args, "tool": c.Tool, "effect": string(c.Effect), "definition": c.Definition,
		"principal": map[string]any{"user": c.Principal.User, "groups": slices.Clone(c.Principal.Groups)},
	}
}

// holds evaluates the expression. The problem goes on after a colon; it holds nothing of the arguments, which an approver may not see.
func (e *expression) holds(facts map[string]any) (holds bool, problem string) {
	out, _, err := e.program.Eval(facts)
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled):
		return false, fmt.Sprintf("its expression costs more than %d steps on these arguments", maxCost)
	case err != nil:
		return false, e.missing(facts)
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, "its expression is not true or false on these arguments"
	}
	return bool(b), ""
}

// missing names the first argument that the expression looks at and that is not there.
func (e *expression) missing(facts map[string]any) string {
	for _, path := range e.paths {
		at := facts["args"]
		for _, name := range path {
			fields, _ := at.(map[string]any)
			next, there := fields[name]
			if !there {
				return fmt.Sprintf("its expression looks at args.%s, which is not there", strings.Join(path, "."))
			}
			at = next
		}
	}
	return "its expression fails on these arguments, as when a text is compared with a number"
}
