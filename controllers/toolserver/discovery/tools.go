package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	// maxName and maxDescription are the schema's bounds on what the status shows.
	maxName        = 128
	maxDescription = 256
	// maxShown is the most bytes of status.tools in JSON. With the conditions the status stays below 64 KiB.
	maxShown = 56 << 10
	// maxIdle is how many declarations without a tool a message names.
	maxIdle = 8
)

// offered is what the status shows of contracts, in the order of their names.
func offered(s *v1alpha1.ToolServer, contracts []contract.ToolContract) ([]v1alpha1.DiscoveredTool, error) {
	if len(contracts) > contract.MaxTools {
		return nil, fmt.Errorf("it offers %d tools, %d are the most", len(contracts), contract.MaxTools)
	}
	tools := make([]v1alpha1.DiscoveredTool, 0, len(contracts))
	for _, c := range contracts {
		if c.Name == "" || len(c.Name) > maxName {
			return nil, fmt.Errorf("the name of tool %q has %d bytes, 1 to %d are allowed", contract.Clip(c.Name, maxName), len(c.Name), maxName)
		}
		body, digest, err := c.Encode()
		if err != nil {
			return nil, err
		}
		if len(body) > contract.MaxContract {
			return nil, fmt.Errorf("the contract of tool %q has %d bytes, %d are the most", c.Name, len(body), contract.MaxContract)
		}
		tools = append(tools, v1alpha1.DiscoveredTool{Name: c.Name, Digest: digest, Effect: compile.Declaration(s, c.Name).Effect})
	}
	slices.SortFunc(tools, func(a, b v1alpha1.DiscoveredTool) int { return cmp.Compare(a.Name, b.Name) })
	return tools, describe(tools, contracts)
}

// describe adds the beginning of each description. They share evenly what the rest leaves of the status.
func describe(tools []v1alpha1.DiscoveredTool, contracts []contract.ToolContract) error {
	if len(tools) == 0 {
		return nil
	}
	room := (maxShown-contract.InJSON(tools))/len(tools) - len(`,"description":""`)
	if room < 0 {
		return errors.New("the names of its tools do not fit into the status: offer fewer, or with shorter names")
	}
	words := make(map[string]string, len(contracts))
	for _, c := range contracts {
		words[c.Name] = strings.TrimSpace(c.Description)
	}
	for i := range tools {
		tools[i].Description = contract.Fit(words[tools[i].Name], maxDescription, room)
	}
	return nil
}

// same reports whether two lists are of the same contracts.
func same(a, b []v1alpha1.DiscoveredTool) bool {
	return slices.EqualFunc(a, b, func(a, b v1alpha1.DiscoveredTool) bool { return a.Name == b.Name && a.Digest == b.Digest })
}

// undone names the declarations of tools that the server does not offer.
func undone(s *v1alpha1.ToolServer, tools []v1alpha1.DiscoveredTool) string {
	var names []string
	for _, d := range s.Spec.Tools {
		if !slices.ContainsFunc(tools, func(t v1alpha1.DiscoveredTool) bool { return t.Name == d.Name }) {
			names = append(names, fmt.Sprintf("%q", contract.Clip(d.Name, 64)))
		}
	}
	if more := len(names) - maxIdle; more > 0 {
		names = append(names[:maxIdle], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
