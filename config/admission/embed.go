// Package admission is the folder of admission policies. It hands those that guard approvals to the manager, which compares
// them with what is installed.
package admission

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// CreatedDecided is what the guard says first when it refuses an approval request that is created decided, whoever creates it.
const CreatedDecided = "An approval request is created open."

// prefix begins the names of all policies and bindings that guard approvals.
const prefix = "ekiden-approval-"

//go:embed *.yaml
var folder embed.FS

// Objects are the policies and bindings that guard approvals. The API server fills in no default that is not spelled out in
// them, and an installer adds labels and annotations at most: a spec that differs from the installed one was changed.
func Objects() ([]*unstructured.Unstructured, error) {
	files, err := folder.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	for _, file := range files {
		content, err := folder.ReadFile(file.Name())
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
			}
			if strings.HasPrefix(object.GetName(), prefix) {
				found = append(found, object)
			}
		}
	}
	return found, nil
}
