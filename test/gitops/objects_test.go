package gitops

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/test/apitest"
)

// object is an object in a state.
type object struct {
	kind, state string
	*unstructured.Unstructured
}

// recorded are the objects of testdata, by kind and state.
func recorded(t *testing.T) map[string]map[string]object {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	all := map[string]map[string]object{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kind := strings.TrimSuffix(filepath.Base(file), ".yaml")
		all[kind] = map[string]object{}
		for document := range strings.SplitSeq(string(content), "---\n") {
			line, _, _ := strings.Cut(document, "\n")
			state := strings.TrimPrefix(line, "# ")
			found := &unstructured.Unstructured{}
			text, err := yaml.YAMLToJSON([]byte(document))
			if err == nil {
				err = found.UnmarshalJSON(text) // so that numbers are whole, as they come from the API server
			}
			if err != nil || line == state || found.GetKind() != kind || all[kind][state].Unstructured != nil {
				t.Fatalf("%s: %q is no object of this kind in a state of its own: %v", file, line, err)
			}
			all[kind][state] = object{kind, state, found}
		}
	}
	return all
}

// failedWith is the failed run of testdata with another code.
func failedWith(t *testing.T, code string) object {
	t.Helper()
	const state = "It failed. The test makes one such run of each error code."
	run, there := recorded(t)["AgentRun"][state]
	if !there {
		t.Fatalf("testdata has no run of which it says: %s", state)
	}
	run.state = "It failed with " + code + "."
	for _, c := range run.conditions() {
		if c := c.(map[string]any); c["type"] != "Accepted" {
			c["reason"] = code
		}
	}
	if err := unstructured.SetNestedField(run.Object, code, "status", "error", "code"); err != nil {
		t.Fatal(err)
	}
	return run
}

func (o object) conditions() []any {
	conditions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := conditions.([]any)
	return list
}

// reasons are those of the object's conditions.
func (o object) reasons() []string {
	var out []string
	for _, c := range o.conditions() {
		reason, _ := c.(map[string]any)["reason"].(string)
		out = append(out, reason)
	}
	return out
}

func (o object) phase() string {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return phase
}

// vocabulary is what the API can say: the error codes of runs, the other reasons, and the phases by their types.
type vocabulary struct {
	codes, reasons []string
	phases         map[string][]string
}

// spoken reads the vocabulary from the constants of the API.
func spoken(t *testing.T) vocabulary {
	t.Helper()
	files, err := filepath.Glob(apitest.Path(t, "api", "v1alpha1", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	v := vocabulary{phases: map[string][]string{}}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if block, ok := d.(*ast.GenDecl); ok && block.Tok == token.CONST {
				v.add(t, block)
			}
		}
	}
	if len(v.codes) < 10 || len(v.reasons) < 10 || len(v.phases) != 2 {
		t.Fatalf("the constants were not understood: %+v", v)
	}
	return v
}

func (v *vocabulary) add(t *testing.T, block *ast.GenDecl) {
	t.Helper()
	codes := strings.HasPrefix(block.Doc.Text(), "Error codes")
	for _, s := range block.Specs {
		spec := s.(*ast.ValueSpec)
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := spec.Type.(*ast.Ident)
		switch {
		case kind != nil && strings.HasSuffix(kind.Name, "Phase"):
			v.phases[kind.Name] = append(v.phases[kind.Name], value)
		case !strings.HasPrefix(spec.Names[0].Name, "Reason"):
		case codes:
			v.codes = append(v.codes, value)
		default:
			v.reasons = append(v.reasons, value)
		}
	}
}

// TestNoStateIsForgotten: there is an object for each word that the API has for a state.
func TestNoStateIsForgotten(t *testing.T) {
	t.Parallel()
	said, phases := map[string]bool{}, map[string]map[string]bool{"RunPhase": {}, "ApprovalPhase": {}}
	phaseOf := map[string]string{"AgentRun": "RunPhase", "ApprovalRequest": "ApprovalPhase"}
	for kind, states := range recorded(t) {
		for _, o := range states {
			for _, reason := range o.reasons() {
				said[reason] = true
			}
			if p := phaseOf[kind]; p != "" {
				phases[p][o.phase()] = true
			}
		}
	}
	v := spoken(t)
	for _, reason := range v.reasons {
		if !said[reason] {
			t.Errorf("no object of testdata says %s: add one, and say in health_test.go what it is to the tools", reason)
		}
	}
	for reason := range said {
		if !slices.Contains(v.reasons, reason) && !slices.Contains(v.codes, reason) {
			t.Errorf("testdata says %s, which is no reason of the API", reason)
		}
	}
	for kind, known := range v.phases {
		for _, phase := range known {
			if !phases[kind][phase] {
				t.Errorf("no object of testdata is %s, a %s", phase, kind)
			}
		}
	}
}

// withConditions are the kinds that have conditions, by their CRDs.
func withConditions(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(apitest.Path(t, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	var kinds []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(content, &crd); err != nil {
			t.Fatal(err)
		}
		status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
		if _, has := status.Properties["conditions"]; has {
			kinds = append(kinds, crd.Spec.Names.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// TestKindsWithConditions: each of them has objects and a health check, and no other.
func TestKindsWithConditions(t *testing.T) {
	t.Parallel()
	want := withConditions(t)
	if got := slices.Sorted(maps.Keys(recorded(t))); !slices.Equal(got, want) {
		t.Errorf("testdata is about %v, and those with conditions are %v", got, want)
	}
	if got := slices.Sorted(maps.Keys(scripts(t))); !slices.Equal(got, want) {
		t.Errorf("there are health checks for %v, and those with conditions are %v", got, want)
	}
}
