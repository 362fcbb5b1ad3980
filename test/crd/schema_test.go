package crd

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/apitest"
)

type schema = apiextensionsv1.JSONSchemaProps

// definitions are the CustomResourceDefinitions by kind, as they are in the repository.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(apitest.Path(t, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[crd.Spec.Names.Kind] = crd
	}
	return found
}

// schemas are the schemas of all kinds.
func schemas(t *testing.T) map[string]schema {
	t.Helper()
	found := map[string]schema{}
	for kind, crd := range definitions(t) {
		found[kind] = *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return found
}

// walk visits every field below spec and status, and the first item of every list, parents first.
func walk(of schema, visit func(path string, field schema, required bool)) {
	var descend func(prefix string, of schema)
	descend = func(prefix string, of schema) {
		for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
			field, path := of.Properties[name], strings.TrimPrefix(prefix+"."+name, ".")
			if prefix == "" && name != "spec" && name != "status" {
				continue
			}
			visit(path, field, slices.Contains(of.Required, name))
			descend(path, field)
			if field.Items != nil && field.Items.Schema != nil {
				visit(path+"[0]", *field.Items.Schema, false)
				descend(path+"[0]", *field.Items.Schema)
			}
		}
	}
	descend("", of)
}

// TestEveryFieldIsDescribed is what kubectl explain lives on. A description starts with the name of the field.
func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	for kind, of := range schemas(t) {
		if !strings.HasPrefix(of.Description, kind+" is ") {
			t.Errorf("%s: the description does not say what it is: %q", kind, of.Description)
		}
		walk(of, func(path string, field schema, _ bool) {
			name := path[strings.LastIndex(path, ".")+1:]
			if strings.HasSuffix(path, "[0]") {
				return
			}
			if !strings.HasPrefix(field.Description, name+" ") {
				t.Errorf("%s %s: the description does not start with the name: %q", kind, path, field.Description)
			}
		})
	}
}

// TestEveryFieldIsBounded: an object without bounds is an object that can fill etcd, and a rule that costs too much.
func TestEveryFieldIsBounded(t *testing.T) {
	t.Parallel()
	for kind, of := range schemas(t) {
		walk(of, func(path string, field schema, _ bool) {
			switch {
			case path == "spec.input.json":
				// Any JSON; the manager refuses more than 32 KiB at admission, for no rule can measure it.
			case field.Type == "string" && field.Format == "date-time":
			case field.Type == "string" && field.MaxLength == nil && len(field.Enum) == 0:
				t.Errorf("%s %s: a string without a greatest length", kind, path)
			case field.Type == "array" && field.MaxItems == nil:
				t.Errorf("%s %s: a list without a greatest length", kind, path)
			case field.Type == "array" && field.XListType == nil:
				t.Errorf("%s %s: a list that does not say how it is merged", kind, path)
			case field.Type == "integer" && field.Minimum == nil:
				t.Errorf("%s %s: a number without a smallest value", kind, path)
			case field.Type == "boolean":
				t.Errorf("%s %s: a bool cannot grow a third value", kind, path)
			case field.Type == "object" && field.AdditionalProperties != nil && field.MaxProperties == nil:
				t.Errorf("%s %s: a map without a greatest size", kind, path)
			case field.Type == "object" && field.AdditionalProperties != nil && !strings.HasPrefix(path, "spec.pods."):
				t.Errorf("%s %s: a map, which only what is copied into a pod may be", kind, path)
			}
		})
	}
}

// TestCustomResourceDefinitionsAreSmall: client-side apply keeps a copy in an annotation, which holds 256 KiB.
func TestCustomResourceDefinitionsAreSmall(t *testing.T) {
	t.Parallel()
	for kind, crd := range definitions(t) {
		size := len(must(json.Marshal(crd)))
		t.Logf("%s: %d bytes", kind, size)
		if size >= 256<<10 {
			t.Errorf("%s has %d bytes, too many for kubectl apply", kind, size)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestTheStatusOfARunIsBounded says how large the status of a run can get. Kubernetes allows a condition a message of
// 32 KiB; everything else is bounded here. That it stays under 8 KiB is up to what the manager writes: it clips messages
// and the result by bytes of text, which JSON may double where the text is full of quotes and line breaks.
func TestTheStatusOfARunIsBounded(t *testing.T) {
	t.Parallel()
	status := schemas(t)["AgentRun"].Properties["status"]
	size := func(bytesPerCharacter int64, leftOut ...string) int64 {
		of := *status.DeepCopy()
		delete(of.Properties, "conditions")
		for _, name := range leftOut {
			delete(of.Properties, name)
		}
		return worst(of, bytesPerCharacter)
	}
	// Accepted and Succeeded with a message, Finished and CancelRequested without.
	conditions := int64(4*200 + 2*contract.MaxMessage)
	t.Logf("all fields but the conditions: %d bytes of plain text, %d if every character takes four bytes", size(1), size(4))
	t.Logf("with conditions as the manager writes them: %d bytes when succeeded, %d when failed",
		size(1, "error", "duplicateOf")+conditions, size(1, "result")+conditions)
	t.Logf("one condition: %d bytes by the schema", worst(*status.Properties["conditions"].Items.Schema, 1))
	if got := size(1); got > 8<<10 {
		t.Errorf("the status without conditions may have %d bytes, want at most 8 KiB", got)
	}
}

// worst is the size of the largest value that a schema allows, as JSON with so many bytes a character.
func worst(of schema, bytesPerCharacter int64) int64 {
	switch of.Type {
	case "object":
		size := int64(2)
		for name, field := range of.Properties {
			size += int64(len(name)) + 4 + worst(field, bytesPerCharacter)
		}
		return size
	case "array":
		return 2 + *of.MaxItems*(1+worst(*of.Items.Schema, bytesPerCharacter))
	case "string":
		switch {
		case of.Format == "date-time":
			return int64(len(`"2026-12-01T10:00:00Z"`))
		case len(of.Enum) > 0:
			longest := 0
			for _, value := range of.Enum {
				longest = max(longest, len(value.Raw))
			}
			return int64(longest)
		case of.Pattern != "":
			return 2 + *of.MaxLength // Patterns are of ASCII.
		}
		return 2 + *of.MaxLength*bytesPerCharacter
	default:
		return 20
	}
}
