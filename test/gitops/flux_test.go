package gitops

import (
	"os"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ekiden-dev/ekiden/test/apitest"
)

// expressions are the health checks of one kind for Flux. An empty one is never true.
type expressions struct{ inProgress, failed, current string }

// checks are the health checks for Flux, by kind.
func checks(t *testing.T) map[string]expressions {
	t.Helper()
	content, err := os.ReadFile(apitest.Path(t, "examples", "gitops", "flux.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]expressions{}
	for _, o := range apitest.Objects(t, content) {
		list, _, _ := unstructured.NestedSlice(o.Object, "spec", "healthCheckExprs")
		for _, item := range list {
			said := func(key string) string { text, _ := item.(map[string]any)[key].(string); return text }
			all[said("kind")] = expressions{said("inProgress"), said("failed"), said("current")}
		}
	}
	return all
}

// await is what Flux makes of an object: a status of another generation is in progress, then the first expression that is true
// counts, and an object of which none is true, or of which they cannot be told yet, is waited for.
func await(t *testing.T, e expressions, o object) string {
	t.Helper()
	if seen, there, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); there && seen != o.GetGeneration() {
		return "InProgress"
	}
	for _, step := range []struct{ status, expression string }{{"InProgress", e.inProgress}, {"Failed", e.failed}, {"Current", e.current}} {
		if step.expression != "" && holds(t, step.expression, o) {
			return step.status
		}
	}
	return "InProgress"
}

func holds(t *testing.T, expression string, o object) bool {
	t.Helper()
	options := []cel.EnvOption{cel.OptionalTypes()}
	for _, name := range []string{"apiVersion", "kind", "metadata", "spec", "status"} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		t.Fatal(err)
	}
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", o.kind, issues.Err())
	}
	program, err := env.Program(compiled)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := program.Eval(o.Object)
	if _, has := o.Object["status"]; err != nil && has {
		t.Fatalf("%s: %v", o.state, err)
	}
	return err == nil && out.Value() == true
}
