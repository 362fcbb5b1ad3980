package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// policies is the kind whose spec.pods has the form of segment.pods.
const policies = "config/crd/bases/ekiden.dev_agentpolicies.yaml"

// schema writes what segment.pods may be into the schema of the values: what spec.pods of an AgentPolicy may be, except that
// what is empty counts as unset. Rules in CEL are not for JSON Schema: the manager has them checked when it reads the file.
func schema() error {
	crd, err := os.ReadFile(policies)
	if err != nil {
		return err
	}
	pods, err := podSettings(crd)
	if err != nil {
		return err
	}
	path := filepath.Join(chart, "values.schema.json")
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var values map[string]any
	if err := json.Unmarshal(content, &values); err != nil {
		return err
	}
	if err := unstructured.SetNestedMap(values, pods, "properties", "segment", "properties", "pods"); err != nil {
		return err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(values); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644) //nolint:gosec // for everybody to read
}

// podSettings is the schema of spec.pods as JSON Schema.
func podSettings(crd []byte) (map[string]any, error) {
	var object map[string]any
	if err := yaml.Unmarshal(crd, &object); err != nil {
		return nil, err
	}
	versions, _, err := unstructured.NestedSlice(object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		return nil, errors.New("the kind has not one version")
	}
	pods, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "pods")
	if err != nil || !found {
		return nil, errors.New("the kind has no spec.pods")
	}
	strict(pods)
	for _, field := range pods["properties"].(map[string]any) {
		optional(field.(map[string]any))
	}
	return pods, nil
}

// strict takes out what only Kubernetes understands, and forbids fields that are not named.
func strict(node map[string]any) {
	properties, named := node["properties"].(map[string]any)
	if named {
		node["additionalProperties"] = false
	}
	for key, value := range node {
		if strings.HasPrefix(key, "x-kubernetes-") || key == "description" || key == "format" {
			delete(node, key)
			continue
		}
		if below, ok := value.(map[string]any); ok && key != "properties" {
			strict(below)
		}
	}
	for _, field := range properties {
		strict(field.(map[string]any))
	}
}

// optional lets a field be empty, and all that is below it.
func optional(field map[string]any) {
	for _, bound := range []string{"minLength", "minItems", "minProperties"} {
		delete(field, bound)
	}
	if pattern, ok := field["pattern"].(string); ok && field["type"] == "string" {
		field["pattern"] = "^(" + strings.TrimSuffix(strings.TrimPrefix(pattern, "^"), "$") + ")?$"
	}
	properties, _ := field["properties"].(map[string]any)
	required, _ := field["required"].([]any)
	for name, below := range properties {
		if !slices.Contains(required, any(name)) {
			optional(below.(map[string]any))
		}
	}
}
