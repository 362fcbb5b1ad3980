package crd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// fenced is a block of YAML in Markdown. One that is marked as a fragment is no object; there are few of them.
var (
	fenced   = regexp.MustCompile("(?ms)^```ya?ml\n(.*?)^```")
	fragment = regexp.MustCompile("(?m)^```ya?ml fragment$")
	anyYAML  = regexp.MustCompile("(?m)^ *```ya?ml")
	// typed is what a block of commands gives to kubectl.
	typed = regexp.MustCompile(`(?ms)^kubectl [^\n]*-f - <<'END'\n(.*?)^END$`)
)

// mostFragments is how many blocks may show a part of an object.
const mostFragments = 3

// manifests are the objects of a page, by the line at which their block begins. What stands in a page as YAML is whole
// objects: people copy it.
func manifests(t *testing.T, page string) map[string][]*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]*unstructured.Unstructured{}
	blocks := fenced.FindAllSubmatchIndex(content, -1)
	if all := len(anyYAML.FindAll(content, -1)); all != len(blocks)+len(fragment.FindAll(content, -1)) {
		t.Errorf("%s: some of its %d blocks of YAML are neither objects nor marked as a fragment", filepath.Base(page), all)
	}
	for _, at := range append(blocks, typed.FindAllSubmatchIndex(content, -1)...) {
		where := fmt.Sprintf("%s:%d", filepath.Base(page), bytes.Count(content[:at[2]], []byte("\n"))+1)
		found[where] = apitest.Objects(t, content[at[2]:at[3]])
		if len(found[where]) == 0 {
			t.Errorf("%s: a block of YAML without an object", where)
		}
	}
	return found
}

// pages are all that people copy manifests and commands from.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{apitest.Path(t, "README.md"), apitest.Path(t, "CONTRIBUTING.md")}
	err := filepath.WalkDir(apitest.Path(t, "docs"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) < 10 {
		t.Fatalf("only %v: %v", found, err)
	}
	return found
}

// foreign are the kinds of others that our examples show. The API server here does not know them, so that only their form is
// looked at; test/gitops runs what is in those for GitOps tools.
var foreign = map[string]bool{
	"argoproj.io/v1alpha1, Kind=AppProject":              true,
	"argoproj.io/v1alpha1, Kind=Application":             true,
	"kustomize.toolkit.fluxcd.io/v1, Kind=Kustomization": true,
	"source.toolkit.fluxcd.io/v1, Kind=GitRepository":    true,
	"monitoring.coreos.com/v1, Kind=PrometheusRule":      true,
}

// TestDocs creates every manifest that README.md and the pages of docs show, and every one of the files of examples/: the API server
// takes it as it is and has nothing to remark. Each block has a namespace of its own. Objects without a namespace are tried only,
// and so are files of examples/ that are for others' namespaces.
func TestDocs(t *testing.T) {
	t.Parallel()
	server := installed(t)
	heard, config := &apitest.Warnings{}, server.Config()
	config.WarningHandler = heard
	admin := apitest.NewClient(t, config)

	unmet := maps.Clone(foreign)
	try := func(where string, objects []*unstructured.Unstructured) (tried int) {
		namespace := server.Namespace(t)
		for _, object := range objects {
			gvk := object.GroupVersionKind()
			if foreign[gvk.String()] {
				delete(unmet, gvk.String())
				if object.GetName() == "" || object.Object["spec"] == nil {
					t.Errorf("%s: a %s without name or spec", where, gvk.Kind)
				}
				continue
			}
			if gvk.Group == "kustomize.config.k8s.io" {
				continue // no object of a cluster: TestOverlay builds it
			}
			options := []client.CreateOption{strict}
			if namespaced, err := admin.IsObjectNamespaced(object); err != nil {
				t.Errorf("%s: %s: %v", where, gvk.Kind, err)
				continue
			} else if namespaced {
				object.SetNamespace(namespace)
			} else {
				options = append(options, client.DryRunAll)
			}
			if err := admin.Create(t.Context(), object.DeepCopy(), options...); err != nil {
				t.Errorf("%s: %s %s: %v", where, object.GetKind(), object.GetName(), err)
			}
			usable(t, where, object)
			tried++
		}
		return tried
	}
	tried, fragments := 0, 0
	for _, page := range pages(t) {
		for where, objects := range manifests(t, page) {
			tried += try(where, objects)
		}
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		fragments += len(fragment.FindAll(content, -1))
	}
	if tried < 20 {
		t.Errorf("only %d manifests were found", tried)
	}
	if fragments > mostFragments {
		t.Errorf("%d blocks are fragments, at most %d may be: people copy what they see", fragments, mostFragments)
	}
	try("examples", server.Kustomize(t, apitest.Path(t, "examples")))
	for file, objects := range exampleFiles(t) {
		try(file, objects)
	}
	for kind := range unmet {
		t.Errorf("nothing shows a %s: take it off the list of foreign kinds", kind)
	}
	if warnings := heard.All(); len(warnings) > 0 {
		t.Errorf("the API server warns: %q", warnings)
	}
}

// exampleFiles are the objects of each file of examples/.
func exampleFiles(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	found := map[string][]*unstructured.Unstructured{}
	root := apitest.Path(t, "examples")
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		found[name] = apitest.Objects(t, content)
		if len(found[name]) == 0 {
			t.Errorf("examples/%s holds no object", name)
		}
		if !strings.HasPrefix(string(content), "# ") {
			t.Errorf("examples/%s does not begin by saying what it is", name)
		}
		return err
	})
	if err != nil || len(found) < 8 {
		t.Fatalf("only %d examples: %v", len(found), err)
	}
	return found
}

// TestOverlay: with the overlays that the guide shows, of installing and of uninstalling, every image is one of the registry, that of
// segments too. Each has a folder of its own beside the copy of the repository.
func TestOverlay(t *testing.T) {
	t.Parallel()
	server := apitest.Start(t)
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "ekiden", "config"), os.DirFS(apitest.Path(t, "config"))); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(apitest.Path(t, "docs", "guides", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for i, block := range fenced.FindAllSubmatch(content, -1) {
		if !bytes.Contains(block[1], []byte("kind: Kustomization")) {
			continue
		}
		overlay := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(overlay, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), block[1], 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, server.Kustomize(t, overlay)...)
	}
	if !slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Job" }) {
		t.Error("no overlay is for uninstalling")
	}
	built, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	images := regexp.MustCompile(`[a-z./]*ekiden/(?:manager|segment):[a-z0-9.]+`).FindAllString(string(built), -1)
	want := []string{"registry.example/ekiden/manager:v0.1.0", "registry.example/ekiden/segment:v0.1.0"}
	slices.Sort(images)
	if diff := cmp.Diff(want, slices.Compact(images)); diff != "" {
		t.Errorf("its images (-want +got):\n%s", diff)
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
