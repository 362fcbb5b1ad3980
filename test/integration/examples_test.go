package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

// TestEveryExampleRuns applies examples/ as they are, but for the address of the model.
func TestEveryExampleRuns(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("Dear customer."))
	out, err := shared.Kubectl(t.Context(), "kustomize", filepath.Join(shared.Repo, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for doc := range strings.SplitSeq(out, "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
			t.Fatal(err)
		}
		o.SetNamespace(s.namespace)
		switch o.GetKind() {
		case "ModelEndpoint":
			set(t, &o, s.model.URL, "spec", "url")
			set(t, &o, []any{"127.0.0.0/8"}, "spec", "egress", "allow")
		case "AgentRun":
			runs++
		}
		s.create(&o)
	}
	if runs == 0 {
		t.Fatal("no run among the examples")
	}
	var list v1alpha1.AgentRunList
	if err := api.List(t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Items {
		s.want(s.finished(r.Name), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	}
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
