package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAManifestBecomesATemplate(t *testing.T) {
	t.Parallel()
	const labels = "    {{- include \"ekiden.labels\" (list . \"rbac\") | nindent 4 }}\n"
	const kept = "  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}\n"
	for name, c := range map[string]struct {
		source     source
		file, want string
	}{
		"labels are put behind the last member of the metadata": {
			source{component: "rbac"},
			"kind: A\nmetadata:\n  name: a\nspec: {}\n",
			"kind: A\nmetadata:\n  name: a\n  labels:\n" + labels + "spec: {}\n",
		},
		"labels are put among those that are there": {
			source{component: "rbac"},
			"kind: A\nmetadata:\n  labels:\n    a: b\n  name: a\n",
			"kind: A\nmetadata:\n  labels:\n" + labels + "    a: b\n  name: a\n",
		},
		"metadata may end the file": {
			source{component: "rbac"},
			"kind: A\nmetadata:\n  name: a\n",
			"kind: A\nmetadata:\n  name: a\n  labels:\n" + labels,
		},
		"the namespace is the release's, of subjects too": {
			source{component: "rbac"},
			"kind: A\nmetadata:\n  namespace: ekiden-system\nsubjects:\n- name: a\n  namespace: ekiden-system\n",
			"kind: A\nmetadata:\n  namespace: {{ .Release.Namespace }}\n  labels:\n" + labels +
				"subjects:\n- name: a\n  namespace: {{ .Release.Namespace }}\n",
		},
		"what looks like a template is none": {
			source{component: "rbac"},
			"kind: A\nmetadata:\n  name: a\nspec: \"{{ .a }}\"\n",
			"kind: A\nmetadata:\n  name: a\n  labels:\n" + labels + "spec: \"{{ \"{{\" }} .a }}\"\n",
		},
		"documents stay apart, and comments where they are": {
			source{component: "rbac"},
			"---\n# first\nkind: A\nmetadata:\n  name: a\n---\nkind: B\nmetadata:\n  name: b\n",
			"# first\nkind: A\nmetadata:\n  name: a\n  labels:\n" + labels + "---\nkind: B\nmetadata:\n  name: b\n  labels:\n" + labels,
		},
		"kinds are installed and kept if the values say so": {
			source{component: "rbac", kinds: true, kept: true},
			"kind: A\nmetadata:\n  annotations:\n    a: b\n  name: a\n",
			"{{- if .Values.crds.install }}\nkind: A\nmetadata:\n  annotations:\n    {{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n" +
				"    a: b\n  name: a\n  labels:\n" + labels + "{{- end }}\n",
		},
		"what has no annotations is kept too": {
			source{component: "rbac", kept: true},
			"kind: A\nmetadata:\n  name: a\nspec: {}\n---\nkind: B\nmetadata:\n  labels:\n    a: b\n  name: b\n",
			"kind: A\nmetadata:\n  name: a\n" + kept + "  labels:\n" + labels + "spec: {}\n" +
				"---\nkind: B\nmetadata:\n  labels:\n" + labels + "    a: b\n  name: b\n" + kept,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.source.template(c.file)
			if err != nil {
				t.Fatal(err)
			}
			_, got, _ = strings.Cut(got, "\n") // the first line says where it is from
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAManifestWithoutPlaceForMarksIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source source
		file   string
	}{
		"no metadata":                    {source{}, "kind: A\n"},
		"metadata in braces":             {source{}, "kind: A\nmetadata: {name: a}\n"},
		"no metadata of what is kept":    {source{kept: true}, "kind: A\n"},
		"the second of two has no place": {source{}, "kind: A\nmetadata:\n  name: a\n---\nkind: B\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := c.source.template(c.file); err == nil {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestTheTableHasARowForEachComment(t *testing.T) {
	t.Parallel()
	rows, err := rowsOf([]byte(`# About the file.

# The part.
part:
  # A number.
  number: 3
  # Several lines
  # of a | b.
  map:
    a: {b: c}
    d: e
lone:
  # Below.
  value: ""
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"| `part` |  | The part. |\n",
		"| `part.number` | `3` | A number. |\n",
		"| `part.map` | `{\"a\":{\"b\":\"c\"},\"d\":\"e\"}` | Several lines of a \\| b. |\n",
		"| `lone.value` | `\"\"` | Below. |\n",
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAValueThatNobodyExplainsIsAnError(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"at the top":                    "# A.\na: 1\nb: 2\n",
		"beside one with a comment":     "part:\n  # A.\n  a: 1\n  b: 2\n",
		"a comment that stands apart":   "# A.\n\na: 1\n",
		"a whole part without comments": "part:\n  a: 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if rows, err := rowsOf([]byte(file)); err == nil {
				t.Errorf("got %q", rows)
			}
		})
	}
}

func TestDefaultsOfPodsAreThoseOfThePolicyOrEmpty(t *testing.T) {
	t.Parallel()
	got, err := podSettings([]byte(`
spec:
  versions:
  - schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              pods:
                type: object
                properties:
                  name: {type: string, description: A name., minLength: 1, maxLength: 9, pattern: "^[a-z]+$"}
                  list:
                    type: array
                    minItems: 1
                    x-kubernetes-list-type: atomic
                    items:
                      type: object
                      required: [key]
                      properties:
                        key: {type: string, minLength: 1}
                      x-kubernetes-validations: [{rule: "true"}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"type": "object", "additionalProperties": false,
		"properties": map[string]any{
			"name": map[string]any{"type": "string", "maxLength": 9.0, "pattern": "^([a-z]+)?$"},
			"list": map[string]any{
				"type": "array",
				"items": map[string]any{
					"type": "object", "additionalProperties": false, "required": []any{"key"},
					"properties": map[string]any{"key": map[string]any{"type": "string", "minLength": 1.0}},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
