// Package rights holds what Ekiden's accounts may do against what they do: each right has a purpose, and each purpose shows
// in the API server's audit log.
package rights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	kustomize "sigs.k8s.io/yaml"
)

// Right is one verb on one kind of resource.
type Right struct {
	// Group is the API group; core is "". Resource may name a subresource, as in agentruns/status.
	Group, Resource, Verb string
	// Name is the only object that it is about, or empty for all.
	Name string
}

// String is the right as kubectl auth can-i has it.
func (r Right) String() string {
	s := r.Verb + " " + r.Resource
	if r.Group != "" {
		s = r.Verb + " " + r.resource() + "." + r.Group + r.subresource()
	}
	if r.Name != "" {
		s += " " + r.Name
	}
	return s
}

func (r Right) resource() string { s, _, _ := strings.Cut(r.Resource, "/"); return s }

func (r Right) subresource() string {
	if _, sub, ok := strings.Cut(r.Resource, "/"); ok {
		return "/" + sub
	}
	return ""
}

// Manifests are the objects that a kustomization applies, in its order. Patches and generators are not understood: ours have
// none.
func Manifests(folder string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var k struct{ Resources []string }
	if err := kustomize.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("reading %s: %w", folder, err)
	}
	var all []*unstructured.Unstructured
	for _, name := range k.Resources {
		read := file
		if !strings.HasSuffix(name, ".yaml") {
			read = Manifests
		}
		some, err := read(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func file(name string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// Of are the rights that the roles of a name grant, each once, in order.
func Of(role string, objects []*unstructured.Unstructured) ([]Right, error) {
	var rights []Right
	for _, o := range objects {
		if o.GetName() != role || o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
			continue
		}
		var r rbacv1.ClusterRole // of a Role, the rules lie in the same place
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", o.GetKind(), role, err)
		}
		for _, rule := range r.Rules {
			rights = append(rights, granted(rule)...)
		}
	}
	slices.SortFunc(rights, compare)
	return slices.Compact(rights), nil
}

func granted(rule rbacv1.PolicyRule) (rights []Right) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					rights = append(rights, Right{Group: group, Resource: resource, Verb: verb, Name: name})
				}
			}
		}
	}
	return rights
}
