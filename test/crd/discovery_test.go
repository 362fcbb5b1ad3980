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
	short := map[string]string{"AgentRun": "arun", "AgentDefinition": "adef", "DefinitionRevision": "drev", "ModelEndpoint": "mep", "AgentPolicy": "apol", "ToolServer": "tsrv", "ApprovalRequest": "areq"}
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
			resource: "agentruns", columns: "Name Definition Phase Reason Waiting on Segment Cost Message* Age",
			cells: []any{"triage", "Running", "Running", "Approval", int64(0), "0.0182", "At work."},
		},
		"AgentDefinition": {resource: "agentdefinitions", columns: "Name Model Ready Reason Revision Age", cells: []any{"gpt-main", "True", "Compiled", "triage-01234567"}},
		"AgentPolicy":     {resource: "agentpolicies", columns: "Name Turns Tool calls Active seconds Ready Age", cells: []any{int64(40), int64(40), int64(1800), "True"}},
		"ModelEndpoint":   {resource: "modelendpoints", columns: "Name Protocol Model URL Secret* Age", cells: []any{"OpenAIChat", "gpt-5.4", "https://llm.example/v1", "llm"}},
		"ToolServer":      {resource: "toolservers", columns: "Name Type Ready Reason Release Message* Age", cells: []any{"MCP", "True", "Discovered", "2026-12", "Discovered."}},
		"ApprovalRequest": {
			resource: "approvalrequests", columns: "Name Run Type* Tool Pool Phase By Expires Age",
			cells: []any{"triage-4711", "Call", "payments/refund", "finance", "Pending", nil, "2026-12-01T10:00:00Z"},
		},
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

// TestSelectorsOfRequests: an approver asks for what is open in a pool.
func TestSelectorsOfRequests(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	for name, c := range map[string]struct{ pool, phase string }{
		"open": {"finance", "Pending"}, "done": {"finance", "Approved"}, "other": {"sales", "Pending"},
	} {
		stored(t, admin, example(t, "ApprovalRequest", 0, namespace, set("metadata.name", name), set("spec.pool", c.pool), set("status.phase", c.phase)))
	}
	cases := map[string][]string{
		"spec.pool=finance":                      {"done", "open"},
		"status.phase=Pending":                   {"open", "other"},
		"spec.pool=finance,status.phase=Pending": {"open"},
		"spec.pool=nobody":                       nil,
	}
	for selector, want := range cases {
		t.Run(selector, func(t *testing.T) {
			t.Parallel()
			if got := selected(t, admin, "ApprovalRequestList", namespace, selector); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// selected are the names that a field selector picks, in order.
func selected(t *testing.T, admin client.Client, kind, namespace, selector string) []string {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if err := admin.List(t.Context(), list, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: selector}}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	slices.Sort(names)
	return names
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
			if got := selected(t, admin, "AgentRunList", namespace, selector); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestExplain reads what a person reads.
func TestExplain(t *testing.T) {
	t.Parallel()
	server := installed(t)
	for _, what := range []string{"agentrun.spec", "agentrun.status", "adef.spec", "drev.spec.agent", "mep.spec", "apol.spec", "apol.spec.rules", "tsrv.spec", "areq.spec", "areq.spec.decision"} {
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
