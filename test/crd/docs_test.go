package crd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/policy"
	"github.com/ekiden-dev/ekiden/test/apitest"
)

// fenced is a block of YAML in Markdown.
var fenced = regexp.MustCompile("(?ms)^```ya?ml\n(.*?)^```")

// manifests are the objects of a page, by the line at which their block begins. What stands in a page as YAML is whole
// objects: people copy it.
func manifests(t *testing.T, page string) map[string][]*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]*unstructured.Unstructured{}
	for _, at := range fenced.FindAllSubmatchIndex(content, -1) {
		where := fmt.Sprintf("%s:%d", filepath.Base(page), bytes.Count(content[:at[2]], []byte("\n"))+1)
		found[where] = apitest.Objects(t, content[at[2]:at[3]])
		if len(found[where]) == 0 {
			t.Errorf("%s: a block of YAML without an object", where)
		}
	}
	return found
}

// pages are all that people copy manifests from.
func pages(t *testing.T) []string {
	t.Helper()
	guides, err := filepath.Glob(apitest.Path(t, "docs", "guides", "*.md"))
	if err != nil || len(guides) == 0 {
		t.Fatalf("no guides: %v", err)
	}
	return append(guides, apitest.Path(t, "README.md"))
}

// TestDocs tries every manifest that README.md and the guides show, and every one of examples/: the API server takes it as
// it is and has nothing to remark.
func TestDocs(t *testing.T) {
	t.Parallel()
	server := installed(t)
	namespace := server.Namespace(t)
	heard, config := &apitest.Warnings{}, server.Config()
	config.WarningHandler = heard
	admin := apitest.NewClient(t, config)

	try := func(where string, objects []*unstructured.Unstructured) {
		for _, object := range objects {
			object.SetNamespace(namespace)
			if err := admin.Create(t.Context(), object.DeepCopy(), client.DryRunAll, strict); err != nil {
				t.Errorf("%s: %s %s: %v", where, object.GetKind(), object.GetName(), err)
			}
			usable(t, where, object)
		}
	}
	tried := 0
	for _, page := range pages(t) {
		for where, objects := range manifests(t, page) {
			try(where, objects)
			tried += len(objects)
		}
	}
	if tried < 12 {
		t.Errorf("only %d manifests were found", tried)
	}
	try("examples", server.Kustomize(t, apitest.Path(t, "examples")))
	if warnings := heard.All(); len(warnings) > 0 {
		t.Errorf("the API server warns: %q", warnings)
	}
}

// usable checks what the API server cannot: that the expressions of a policy compile.
func usable(t *testing.T, where string, object *unstructured.Unstructured) {
	t.Helper()
	if object.GetKind() == "AgentPolicy" {
		for _, problem := range rulesOf(t, object).Problems() {
			t.Errorf("%s: %s", where, problem)
		}
	}
}

func rulesOf(t *testing.T, object *unstructured.Unstructured) *policy.Rules {
	t.Helper()
	var p v1alpha1.AgentPolicy
	if err := convert(object.Object, &p); err != nil {
		t.Fatal(err)
	}
	return policy.Compile(contract.PolicySet{Sources: []contract.PolicySource{{Namespace: "demo", Name: p.Name, Rules: p.Spec.Rules}}})
}

// policyOf is the policy of a page, or of a file of YAML.
func policyOf(t *testing.T, names ...string) *policy.Rules {
	t.Helper()
	path := apitest.Path(t, names...)
	blocks := map[string][]*unstructured.Unstructured{}
	if strings.HasSuffix(path, ".md") {
		blocks = manifests(t, path)
	} else {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks[path] = apitest.Objects(t, content)
	}
	for _, objects := range blocks {
		for _, object := range objects {
			if object.GetKind() == "AgentPolicy" {
				return rulesOf(t, object)
			}
		}
	}
	t.Fatalf("%s has no AgentPolicy", path)
	return nil
}

// TestPoliciesInDocs: the policies that people copy decide as the words around them say.
func TestPoliciesInDocs(t *testing.T) {
	t.Parallel()
	const (
		allow = "Allow"
		asks  = "RequireApproval finance 1"
		both  = "RequireApproval finance 2"
		other = "RequireApproval default 1"
	)
	tests := map[string]struct {
		from   []string
		tool   string
		effect v1alpha1.Effect
		// want is what is decided, by the arguments of the call.
		want map[string]string
	}{
		"examples: amounts as texts": {[]string{"examples", "03-policy.yaml"}, "crm/refund", v1alpha1.EffectSend, map[string]string{
			`{"amount":"50"}`: allow, `{"amount":"50.00"}`: allow, `{"amount":"0.5"}`: allow,
			`{"amount":"50.01"}`: asks, `{"amount":"120.00"}`: asks, `{"amount":"-500"}`: asks, `{"amount":"NaN"}`: asks, `{"amount":"1e1"}`: asks,
			`{"amount":"50\n"}`: asks, `{"amount":"50 EUR"}`: asks, `{"amount":""}`: asks, `{"amount":"9999999"}`: asks, `{"amount":50}`: asks, `{}`: asks,
		}},
		"examples: a read needs no rule":  {[]string{"examples", "03-policy.yaml"}, "crm/get_customer", v1alpha1.EffectRead, map[string]string{`{"id":"1"}`: allow}},
		"examples: what no rule is about": {[]string{"examples", "03-policy.yaml"}, "mail/send", v1alpha1.EffectSend, map[string]string{`{}`: other}},
		"the guide to tools: its own amounts": {[]string{"docs", "guides", "tools.md"}, "payments/refund", v1alpha1.EffectSend, map[string]string{
			`{"amount":100}`: allow, `{"amount":100.0}`: allow, `{"amount":0.01}`: allow, `{"amount":1e2}`: allow,
			`{"amount":100.01}`: asks, `{"amount":1000}`: asks, `{"amount":-5}`: asks, `{"amount":0}`: asks, `{"amount":100.000000000000000001}`: allow,
			`{"amount":1000.5}`: both, `{"amount":5000}`: both, `{"amount":"100"}`: both, `{}`: both, `{"amount":100001}`: "Deny",
		}},
		"the guide to tools: deletions":      {[]string{"docs", "guides", "tools.md"}, "crm/delete_customer", v1alpha1.EffectWrite, map[string]string{`{"id":1}`: "Deny"}},
		"the guide to tools: notes":          {[]string{"docs", "guides", "tools.md"}, "crm/add_note", v1alpha1.EffectWrite, map[string]string{`{"id":1}`: allow}},
		"the guide to tools: anything else":  {[]string{"docs", "guides", "tools.md"}, "crm/rename", v1alpha1.EffectWrite, map[string]string{`{"id":1}`: other}},
		"the guide to tools: reading at all": {[]string{"docs", "guides", "tools.md"}, "crm/get_customer", v1alpha1.EffectRead, map[string]string{`{"id":1}`: allow}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := policyOf(t, tc.from...)
			got := map[string]string{}
			for args := range tc.want {
				c := policy.Call{Tool: tc.tool, Effect: tc.effect}
				d := json.NewDecoder(strings.NewReader(args))
				d.UseNumber()
				if err := d.Decode(&c.Arguments); err != nil {
					t.Fatal(err)
				}
				decision := rules.Decide(c)
				got[args] = string(decision.Action)
				if decision.Action == v1alpha1.PolicyRequireApproval {
					got[args] += fmt.Sprintf(" %s %d", decision.Approval.Pool, decision.Approval.Seats)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decided (-want +got):\n%s", diff)
			}
		})
	}
}
