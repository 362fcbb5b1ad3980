package integration

import (
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/serve"
)

// TestKubectlTellsWhatAPersonAsks uses the very commands that the README shows.
func TestKubectlTellsWhatAPersonAsks(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("Billing."), modelserver.Step{}).setUp()
	const manifest = `
apiVersion: ekiden.dev/v1alpha1
kind: AgentRun
metadata: {name: asked}
spec:
  definitionRef: {kind: AgentDefinition, name: triage}
  input: {text: "What is ticket 4711 about?"}
`
	if _, err := shared.KubectlIn(t.Context(), manifest, "-n", s.namespace, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Kubectl(t.Context(), "-n", s.namespace, "wait", "--for=condition=Finished", "arun/asked", "--timeout=120s"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"get arun", []string{"NAME DEFINITION PHASE REASON WAITING ON SEGMENT COST AGE", "asked triage Succeeded Completed 0 0.00014"}},
		{"get adef", []string{"NAME MODEL READY REASON REVISION AGE", "triage gpt-main True Compiled triage-"}},
		{"get drev", []string{"NAME DEFINITION MODEL GENERATION AGE", "triage gpt-test 1"}},
		{"get mep", []string{"NAME PROTOCOL MODEL URL AGE", "gpt-main OpenAIChat gpt-test http://" + serve.Host + ":"}},
		{"get ekiden", []string{"agentrun.ekiden.dev/asked", "modelendpoint.ekiden.dev/gpt-main"}},
		{"get arun --field-selector status.phase=Succeeded", []string{"asked"}},
		{"describe arun asked", []string{"Reason: Completed", "the agent gave its answer", "Billing."}},
		{"explain agentrun.spec.input", []string{"text <string>", "up to 32 KiB"}},
		{"logs job/" + s.jobs()[0].Name, []string{`"event":"ModelAnswered"`, `"event":"Yielded"`}},
	} {
		out, err := shared.Kubectl(t.Context(), append([]string{"-n", s.namespace}, strings.Fields(tc.args)...)...)
		if err != nil {
			t.Error(err)
			continue
		}
		flat := strings.Join(strings.Fields(out), " ")
		for _, want := range tc.want {
			if !strings.Contains(flat, want) {
				t.Errorf("kubectl %s does not show %q:\n%s", tc.args, want, out)
			}
		}
	}
	wrong := strings.Replace(manifest, "kind: AgentDefinition, name: triage", "kind: AgentDefinition", 1)
	_, err := shared.KubectlIn(t.Context(), strings.Replace(wrong, "asked", "wrong", 1), "-n", s.namespace, "apply", "-f", "-")
	if err == nil || !strings.Contains(err.Error(), "spec.definitionRef.name: Required value") {
		t.Errorf("a wrong manifest is not refused by the field's name: %v", err)
	}
}
