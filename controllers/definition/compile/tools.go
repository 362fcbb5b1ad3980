package compile

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// maxTools is how many tools a revision holds. The schema of CompiledAgent says the same.
const maxTools = 128

// A choice is one tool that a definition takes from a server.
type choice struct {
	server   *v1alpha1.ToolServer
	offered  v1alpha1.DiscoveredTool
	approval v1alpha1.ToolApproval
}

// toolsOf are the tools of a definition in the order of their model-facing names, and the servers they come from.
func toolsOf(def *v1alpha1.AgentDefinition, servers map[string]*v1alpha1.ToolServer) ([]v1alpha1.CompiledServer, []v1alpha1.CompiledTool, *Problem) {
	chosen, p := choose(def, servers)
	if p != nil {
		return nil, nil, p
	}
	if len(chosen) > maxTools {
		return nil, nil, &Problem{v1alpha1.ReasonInvalid, fmt.Sprintf("spec.tools: %d tools are named, an agent has at most %d: leave some out", len(chosen), maxTools)}
	}
	var (
		reached []v1alpha1.CompiledServer
		tools   []v1alpha1.CompiledTool
	)
	for _, c := range chosen {
		compiled := c.compile()
		if compiled.Probe, p = probe(c.server, c.offered.Name); p != nil {
			return nil, nil, p
		}
		tools = append(tools, compiled)
		if !slices.ContainsFunc(reached, func(s v1alpha1.CompiledServer) bool { return s.Name == c.server.Name }) {
			reached = append(reached, Server(c.server))
		}
	}
	slices.SortFunc(reached, func(a, b v1alpha1.CompiledServer) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(tools, func(a, b v1alpha1.CompiledTool) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool))
	})
	return reached, tools, taken(tools)
}

// choose resolves what the definition names. A tool that is named twice is one; that an approval is required anywhere counts.
func choose(def *v1alpha1.AgentDefinition, servers map[string]*v1alpha1.ToolServer) ([]choice, *Problem) {
	type key struct{ server, tool string }
	var (
		chosen []choice
		at     = map[key]int{}
	)
	for i, s := range def.Spec.Tools {
		server := servers[s.ServerRef.Name]
		if p := checkServer(fmt.Sprintf("spec.tools[%d].serverRef.name", i), s.ServerRef.Name, server); p != nil {
			return nil, p
		}
		for _, name := range s.Names {
			n, twice := at[key{server.Name, name}]
			if !twice {
				t := slices.IndexFunc(server.Status.Tools, func(t v1alpha1.DiscoveredTool) bool { return t.Name == name })
				if t < 0 {
					return nil, unknown(fmt.Sprintf("spec.tools[%d].names", i), name, server)
				}
				n = len(chosen)
				at[key{server.Name, name}] = n
				chosen = append(chosen, choice{server: server, offered: server.Status.Tools[t]})
			}
			chosen[n].approval = cmp.Or(chosen[n].approval, s.Approval)
		}
	}
	return chosen, nil
}

// checkServer refuses a server whose tools are not known as its newest spec describes them.
func checkServer(field, name string, s *v1alpha1.ToolServer) *Problem {
	if s == nil {
		return &Problem{v1alpha1.ReasonToolServerNotFound, fmt.Sprintf("%s: there is no ToolServer %q in this namespace: apply it, or correct the name", field, name)}
	}
	if err := CheckEgress(s.Spec.Egress); err != nil {
		return &Problem{v1alpha1.ReasonInvalid, fmt.Sprintf("ToolServer %q: spec.egress.allow: %v", name, err)}
	}
	ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.ObservedGeneration != s.Generation:
		return &Problem{v1alpha1.ReasonToolServerNotReady, fmt.Sprintf("%s: ToolServer %q has not been looked at yet since its newest edit", field, name)}
	case ready.Status != metav1.ConditionTrue || s.Status.DiscoveredGeneration != s.Generation:
		return &Problem{v1alpha1.ReasonToolServerNotReady, fmt.Sprintf("%s: ToolServer %q is not ready: %s: %s", field, name, ready.Reason, contract.Clip(ready.Message, contract.MaxMessage*3/4))}
	default:
		return nil
	}
}

func (c choice) compile() v1alpha1.CompiledTool {
	d := Declaration(c.server, c.offered.Name)
	return v1alpha1.CompiledTool{
		Name: cmp.Or(d.As, ToolName(c.server.Name, d.Name)), Server: c.server.Name, Tool: d.Name, Digest: c.offered.Digest,
		Effect: d.Effect, Idempotency: d.Idempotency, Show: d.Show, Approval: c.approval,
		TimeoutSeconds: d.TimeoutSeconds, MaxResultBytes: d.MaxResultBytes, HTTP: request(c.server, d.Name),
	}
}

// taken refuses two tools of one name. The tools are sorted by it.
func taken(tools []v1alpha1.CompiledTool) *Problem {
	for i := 1; i < len(tools); i++ {
		if a, b := tools[i-1], tools[i]; a.Name == b.Name {
			return &Problem{v1alpha1.ReasonToolNameTaken, fmt.Sprintf("spec.tools: tool %q of ToolServer %q and tool %q of ToolServer %q would both be %s for the model: give one of them another name with as in spec.tools of its ToolServer", a.Tool, a.Server, b.Tool, b.Server, a.Name)}
		}
	}
	return nil
}
