package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const (
	namespace = "demo"
	// theRun is the run of examples/ that is shown, theTask words of its task.
	theRun  = "reply-4711"
	theTask = "Ticket 4711"
	// theRefund is the run that waits for people, and refundFile where it is written.
	theRefund  = "refund-4716"
	refundFile = "examples/07-refund.yaml"
	// modelSecret and modelKey are where examples/ keep the model's key.
	modelSecret = "support-model"
	modelKey    = "apiKey"
	// toolServer is the name of the tool server of examples/, and of the Secret with its key.
	toolServer = "crm"
)

// kustomization is as much of one as the demo needs.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Namespace  string   `json:"namespace"`
	Resources  []string `json:"resources"`
	Patches    []patch  `json:"patches"`
}

type patch struct {
	Target map[string]string `json:"target"`
	Patch  string            `json:"patch"`
}

// writeOverlay writes what makes examples/ run here: other addresses for the model and the tools, and no more. The run of
// the second story is left out: it is applied when the first one is over.
func writeOverlay(p place, m *model, t *tools) (string, error) {
	dir := p.own("overlay")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// Kustomize wants the base by a relative path.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	base, err := filepath.Rel(dir, filepath.Join(p.repo, "examples"))
	if err != nil {
		return "", err
	}
	k := kustomization{
		APIVersion: "kustomize.config.k8s.io/v1beta1", Kind: "Kustomization",
		Namespace: namespace, Resources: []string{base},
	}
	if m.scripted != nil {
		k.Patches = forScripted(m)
	} else {
		k.Patches = forReal(m)
	}
	k.Patches = append(append(k.Patches, forTools(t)...), without("AgentRun", theRefund))
	b, err := yaml.Marshal(k)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), b, 0o600)
}

// forScripted allows loopback, and makes the show short: turns of a few words, segments of two seconds.
func forScripted(m *model) []patch {
	return []patch{
		change(map[string]string{"kind": "ModelEndpoint"},
			operation("replace", "/spec/url", m.URL),
			operation("replace", "/spec/model", m.Name),
			operation("replace", "/spec/egress", loopback)),
		change(map[string]string{"kind": "AgentDefinition", "name": "support-reply"},
			operation("replace", "/spec/sampling/maxOutputTokens", 40),
			operation("replace", "/spec/segment", map[string]any{"softSeconds": 2, "hardSeconds": 60})),
	}
}

// forReal leaves out what examples/ say about a model that is not this one. The Secret is made apart, so that the key
// is in no file.
func forReal(m *model) []patch {
	return []patch{
		change(map[string]string{"kind": "ModelEndpoint"},
			operation("replace", "/spec/url", m.URL),
			operation("replace", "/spec/model", m.Name),
			operation("remove", "/spec/egress", nil),
			operation("remove", "/spec/contextWindowTokens", nil),
			operation("remove", "/spec/pricing", nil)),
		without("Secret", modelSecret),
	}
}

// forTools says where the demo's tools are and which key they want.
func forTools(t *tools) []patch {
	return []patch{
		change(map[string]string{"kind": "ToolServer", "name": toolServer},
			operation("replace", "/spec/mcp/url", t.url("/mcp")),
			operation("replace", "/spec/egress", loopback)),
		change(map[string]string{"kind": "Secret", "name": toolServer},
			operation("replace", "/stringData/token", t.key)),
	}
}

// loopback is where the demo's servers listen.
var loopback = map[string]any{"allow": []string{"127.0.0.0/8"}}

func without(kind, name string) patch {
	return patch{
		Target: map[string]string{"kind": kind, "name": name},
		Patch:  fmt.Sprintf("apiVersion: any\nkind: %s\nmetadata: {name: %s}\n$patch: delete\n", kind, name),
	}
}

func change(target map[string]string, operations ...map[string]any) patch {
	b, err := json.Marshal(operations)
	if err != nil {
		panic(err) // operations are made of strings and numbers
	}
	return patch{Target: target, Patch: string(b)}
}

func operation(op, path string, value any) map[string]any {
	o := map[string]any{"op": op, "path": path}
	if value != nil {
		o["value"] = value
	}
	return o
}
