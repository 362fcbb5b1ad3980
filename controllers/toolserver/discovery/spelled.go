package discovery

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/schema"
)

// maxSchema is the most bytes of a schema that is written into a spec.
const maxSchema = 32 << 10

// placeholder stands in a path for an argument.
var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// spelled are the contracts that stand in the spec of an HTTP server. The error names the field that is wrong.
func spelled(s *v1alpha1.ToolServer) ([]contract.ToolContract, error) {
	contracts := make([]contract.ToolContract, 0, len(s.Spec.HTTP.Tools))
	for _, t := range s.Spec.HTTP.Tools {
		field := "spec.http.tools[" + t.Name + "]"
		body, err := arguments(t)
		if err != nil {
			return nil, fmt.Errorf("%s.input.schema: %w", field, err)
		}
		if err := places(t, body); err != nil {
			return nil, fmt.Errorf("%s.%w", field, err)
		}
		c := contract.ToolContract{Name: t.Name, Description: t.Description, Schema: body}
		if kept, _, err := c.Encode(); err != nil || len(kept) > contract.MaxContract {
			return nil, fmt.Errorf("%s: description and schema have %d bytes as they are kept, %d are the most: shorten them", field, len(kept), contract.MaxContract)
		}
		contracts = append(contracts, c)
	}
	return contracts, nil
}

// arguments is the schema of a tool's arguments in its canonical form.
func arguments(t v1alpha1.HTTPTool) ([]byte, error) {
	if t.Input.Schema == nil {
		return nil, fmt.Errorf("it is missing: write a JSON Schema of type object")
	}
	body, err := contract.Canonical(t.Input.Schema.Raw)
	if err != nil {
		return nil, err
	}
	if len(body) > maxSchema {
		return nil, fmt.Errorf("it has %d bytes, %d are the most: shorten its descriptions", len(body), maxSchema)
	}
	return body, schema.CheckSchema(body)
}

// places checks that each argument goes where the tool says: an argument that goes nowhere would be approved and then not be sent.
func places(t v1alpha1.HTTPTool, body []byte) error {
	var input struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(body, &input); err != nil {
		return fmt.Errorf("input.schema: properties must be an object and required a list of names: %w", err)
	}
	used := slices.Clone(t.Query)
	for _, found := range placeholder.FindAllStringSubmatch(t.Path, -1) {
		name := found[1]
		if _, ok := input.Properties[name]; !ok {
			return fmt.Errorf("path: {%s} stands for an argument that input.schema does not have: add %q to its properties", name, name)
		}
		if !slices.Contains(input.Required, name) {
			return fmt.Errorf("path: {%s} stands for an argument that may be missing: add %q to required in input.schema", name, name)
		}
		used = append(used, name)
	}
	for _, name := range t.Query {
		if _, ok := input.Properties[name]; !ok {
			return fmt.Errorf("query: %q is an argument that input.schema does not have: add it to its properties", name)
		}
	}
	if compile.Body(t) == v1alpha1.HTTPBodyRest {
		return nil
	}
	var idle []string
	for name := range input.Properties {
		if !slices.Contains(used, name) {
			idle = append(idle, fmt.Sprintf("%q", name))
		}
	}
	if len(idle) > 0 {
		slices.Sort(idle)
		return fmt.Errorf("input.schema: the arguments %s are sent nowhere: name them in path or query, or set body to %s", strings.Join(idle, ", "), v1alpha1.HTTPBodyRest)
	}
	return nil
}
