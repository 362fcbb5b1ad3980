package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// TestEveryExampleRuns applies examples/ as they are, but for the addresses of the model and the tools: as they are written,
// and from the last to the first. The run that wants to pay waits, is approved by the people to whom the examples give that
// right, and pays once.
func TestEveryExampleRuns(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func([]*unstructured.Unstructured){
		"as they are written":        func([]*unstructured.Unstructured) {},
		"from the last to the first": slices.Reverse[[]*unstructured.Unstructured],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tell(t)
			s.model = modelserver.Start(t, modelserver.Script{Rules: []modelserver.Rule{
				{When: modelserver.When{Task: "Ticket 4716"}, Steps: []modelserver.Step{
					wants(reads("2718")), wants(modelserver.Call{Name: toolserver.Refund, Arguments: `{"id":"2718","amount":"120.00"}`}), answer("Paid."),
				}},
				{Steps: []modelserver.Step{answer("Dear customer.")}},
			}})
			tools := toolserver.Start(t, toolserver.Options{RequireKey: "replace-me"})
			objects := s.examples(tools)
			arrange(objects)
			for _, o := range objects {
				s.create(o)
			}

			areq := s.requested(1, v1alpha1.ApprovalPending)[0]
			if areq.Spec.Pool != "finance" || areq.Spec.RunRef.Name != "refund-4716" || areq.Spec.Call.Arguments != `{"amount":"120.00","id":"2718"}` || areq.Spec.Policy.Rule != "large-refunds" {
				t.Errorf("asks %+v", areq.Spec)
			}
			s.until("refund-4716", "waits", func(r *v1alpha1.AgentRun) bool { return r.Status.Phase == v1alpha1.RunWaiting })
			if c := tools.Counts(); c.Effects != 0 {
				t.Errorf("paid before anybody said so: %+v", c)
			}
			if _, err := shared.Kubectl(t.Context(), "-n", s.namespace, "--as", "fran", "--as-group", "finance", "patch", "areq", areq.Name, "--type", "merge", "-p", `{"spec":{"decision":{"verdict":"Approved"}}}`); err != nil {
				t.Fatal(err)
			}
			var list v1alpha1.AgentRunList
			if err := api.List(t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
				t.Fatal(err)
			}
			if len(list.Items) < 4 {
				t.Errorf("%d runs among the examples", len(list.Items))
			}
			for _, r := range list.Items {
				s.want(s.finished(r.Name), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
			}
			if c := tools.Counts(); c.Effects != 1 || c.Calls[toolserver.GetCustomer] != 1 || c.Unauthorized != 0 {
				t.Errorf("the tool server counted %+v", c)
			}
		})
	}
}

// examples are the objects of examples/ for the story's model and these tools.
func (s *story) examples(tools *toolserver.Server) []*unstructured.Unstructured {
	s.Helper()
	out, err := shared.Kubectl(s.Context(), "kustomize", filepath.Join(shared.Repo, "examples"))
	if err != nil {
		s.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for doc := range strings.SplitSeq(out, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
			s.Fatal(err)
		}
		o.SetNamespace(s.namespace)
		switch o.GetKind() {
		case "ModelEndpoint":
			set(s.T, o, s.model.URL, "spec", "url")
			set(s.T, o, []any{reachable()}, "spec", "egress", "allow")
		case "ToolServer":
			set(s.T, o, tools.URL+"/mcp", "spec", "mcp", "url")
			set(s.T, o, []any{reachable()}, "spec", "egress", "allow")
		}
		objects = append(objects, o)
	}
	return objects
}

func set(t *testing.T, o *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// TestThePluginReadsAndCancels runs kubectl-ekiden as a person would.
func TestThePluginReadsAndCancels(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 2000)
	s := tell(t, part("half "), answer(long)).setUp()
	s.start("told")
	s.want(s.finished("told"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)

	if out, code := s.plugin("result", "told"); code != 0 || strings.TrimSpace(out) != strings.TrimSpace("half "+long) {
		t.Errorf("result: exit code %d, %d bytes", code, len(out))
	}
	out, code := s.plugin("transcript", "told")
	for _, want := range []string{"Sort ticket 4711.", "half", "word word", "turn"} {
		if !strings.Contains(out, want) {
			t.Errorf("transcript does not show %q (exit code %d):\n%.500s", want, code, out)
		}
	}
	if out, code := s.plugin("doctor", "--manager-namespace", "ekiden-system"); code != 0 {
		t.Errorf("doctor: exit code %d\n%s", code, out)
	}

	stuck := tell(t, modelserver.Step{Silent: true}).setUp()
	stuck.start("unwanted", given.Task("wait"))
	stuck.requests(1)
	if out, code := stuck.plugin("result", "unwanted"); code != 3 {
		t.Errorf("result of a run that goes on: exit code %d\n%s", code, out)
	}
	if out, code := stuck.plugin("cancel", "unwanted", "--wait"); code != 0 {
		t.Errorf("cancel: exit code %d\n%s", code, out)
	}
	stuck.want(stuck.get("unwanted"), v1alpha1.RunCancelled, v1alpha1.ReasonCancelled)
	if out, code := stuck.plugin("result", "unwanted"); code != 5 {
		t.Errorf("result of a cancelled run: exit code %d\n%s", code, out)
	}
}

// plugin runs kubectl-ekiden and returns what it prints, errors included when it fails, and its exit code.
func (s *story) plugin(args ...string) (string, int) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), filepath.Join(shared.Repo, "bin", "kubectl-ekiden"), append(args, "-n", s.namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig())
	out, err := cmd.Output()
	if err == nil {
		return string(out), 0
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		s.Fatal(err)
	}
	return string(out) + string(exit.Stderr), exit.ExitCode()
}
