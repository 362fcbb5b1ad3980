package crd

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

func TestNames(t *testing.T) {
	t.Parallel()
	server := installed(t)
	found, err := discovery.NewDiscoveryClientForConfigOrDie(server.Config()).ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{"AgentRun": "arun", "AgentDefinition": "adef", "DefinitionRevision": "drev", "ModelEndpoint": "mep", "AgentPolicy": "apol"}
	for kind, want := range short {
		i := slices.IndexFunc(found.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind && !strings.Contains(r.Name, "/") })
		if i < 0 {
			t.Errorf("%s is not served", kind)
			continue
		}
		resource := found.APIResources[i]
		if !slices.Equal(resource.ShortNames, []string{want}) || !slices.Equal(resource.Categories, []string{"ekiden"}) || !resource.Namespaced {
			t.Errorf("%s: short names %v, categories %v, namespaced %t; want [%s], [ekiden], true", kind, resource.ShortNames, resource.Categories, resource.Namespaced, want)
		}
	}
}

// TestColumns is what kubectl get shows.
func TestColumns(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	cases := map[string]struct {
		resource string
		columns  string
		cells    []any // But the first, the name, and the last, the age. A hidden column has a star.
	}{
		"AgentRun": {
			resource: "agentruns", columns: "Name Definition Phase Reason Segment Cost Message* Age",
			cells: []any{"triage", "Running", "Running", int64(0), "0.0182", "At work."},
		},
		"AgentDefinition":    {resource: "agentdefinitions", columns: "Name Model Ready Reason Revision Age", cells: []any{"gpt-main", "True", "Compiled", "triage-01234567"}},
		"AgentPolicy":        {resource: "agentpolicies", columns: "Name Turns Segments Active seconds Age", cells: []any{int64(40), int64(20), int64(1800)}},
		"ModelEndpoint":      {resource: "modelendpoints", columns: "Name Protocol Model URL Secret* Age", cells: []any{"OpenAIChat", "gpt-5.4", "https://llm.example/v1", "llm"}},
		"DefinitionRevision": {resource: "definitionrevisions", columns: "Name Definition Model Generation Digest* Age", cells: []any{"triage", "gpt-5.4", int64(1), digest}},
	}
	config := server.Config()
	config.APIPath, config.GroupVersion = "/apis", &v1alpha1.GroupVersion
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	tables, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range cases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			stored(t, admin, example(t, kind, 0, namespace))
			table := &metav1.Table{}
			err := tables.Get().Namespace(namespace).Resource(c.resource).
				SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(table)
			if err != nil {
				t.Fatal(err)
			}
			var columns []string
			for _, column := range table.ColumnDefinitions {
				name := column.Name
				if column.Priority > 0 {
					name += "*"
				}
				columns = append(columns, name)
			}
			if got := strings.Join(columns, " "); got != c.columns {
				t.Errorf("the columns are %q, want %q", got, c.columns)
			}
			if len(table.Rows) != 1 {
				t.Fatalf("%d rows, want 1", len(table.Rows))
			}
			cells := table.Rows[0].Cells
			if got := cells[1 : len(cells)-1]; !slices.Equal(got, c.cells) {
				t.Errorf("the cells are %v, want %v", got, c.cells)
			}
		})
	}
}

// TestSelectors: runs can be picked by phase and by definition, on the server.
func TestSelectors(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	for name, c := range map[string]struct{ definition, phase string }{
		"working": {"triage", "Running"}, "done": {"triage", "Succeeded"}, "other": {"research", "Running"},
	} {
		stored(t, admin, example(t, "AgentRun", 0, namespace,
			set("metadata.name", name), set("spec.definitionRef.name", c.definition), set("status.phase", c.phase)))
	}
	cases := map[string][]string{
		"status.phase=Running":                                        {"other", "working"},
		"status.phase=Succeeded":                                      {"done"},
		"status.phase!=Running":                                       {"done"},
		"spec.definitionRef.name=triage":                              {"done", "working"},
		"spec.definitionRef.name=triage,status.phase=Running":         {"working"},
		"spec.definitionRef.name=triage,status.phase=Failed":          nil,
		"metadata.name=working,spec.definitionRef.name=triage":        {"working"},
		"spec.definitionRef.name=research,status.phase!=Running":      nil,
		"spec.definitionRef.name!=triage,spec.definitionRef.name!=no": {"other"},
	}
	for selector, want := range cases {
		t.Run(selector, func(t *testing.T) {
			t.Parallel()
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AgentRunList"))
			if err := admin.List(t.Context(), list, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: selector}}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range list.Items {
				got = append(got, item.GetName())
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestExplain reads what a person reads.
func TestExplain(t *testing.T) {
	t.Parallel()
	server := installed(t)
	for _, what := range []string{"agentrun.spec", "agentrun.status", "adef.spec", "drev.spec.agent", "mep.spec", "apol.spec"} {
		text := server.Kubectl(t, "explain", what)
		if strings.Contains(text, "<no description>") {
			t.Errorf("kubectl explain %s has gaps:\n%s", what, text)
		}
	}
	text := server.Kubectl(t, "explain", "agentrun.spec")
	for _, words := range []string{"spec is what the caller asks for", "-required-", "enum: Running, Cancelled", "Unset means never"} {
		if !strings.Contains(text, words) {
			t.Errorf("kubectl explain agentrun.spec does not say %q:\n%s", words, text)
		}
	}
}
