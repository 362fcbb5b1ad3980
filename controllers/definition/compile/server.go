package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// Defaults of a declaration. The API's field comments promise them.
const (
	TimeoutSeconds = 60
	MaxResultBytes = 65536
)

// Server is how a ToolServer is reached.
func Server(s *v1alpha1.ToolServer) v1alpha1.CompiledServer {
	spec := s.Spec.DeepCopy() // the revision must not share memory with the cache
	url := spec.MCP.URL
	if spec.Type == v1alpha1.ToolServerHTTP {
		url = spec.HTTP.URL
	}
	return v1alpha1.CompiledServer{
		Name: s.Name, UID: s.UID, Type: spec.Type, URL: url,
		Credentials: spec.Credentials, Headers: spec.Headers, TLS: spec.TLS, Proxy: spec.Proxy, Egress: spec.Egress,
	}
}

// Declaration is what the server's spec says a tool does, with every default filled in.
func Declaration(s *v1alpha1.ToolServer, tool string) v1alpha1.ToolDeclaration {
	d := v1alpha1.ToolDeclaration{Name: tool}
	if i := slices.IndexFunc(s.Spec.Tools, func(d v1alpha1.ToolDeclaration) bool { return d.Name == tool }); i >= 0 {
		d = s.Spec.Tools[i]
	}
	d.Effect = cmp.Or(d.Effect, v1alpha1.EffectWrite)
	d.Idempotency = cmp.Or(d.Idempotency, v1alpha1.IdempotencyNone)
	d.Show = cmp.Or(d.Show, v1alpha1.ShowArguments)
	d.TimeoutSeconds = cmp.Or(d.TimeoutSeconds, TimeoutSeconds)
	d.MaxResultBytes = cmp.Or(d.MaxResultBytes, MaxResultBytes)
	return d
}

// probe is how the server's spec finds out whether a call of the tool took effect, or zero if it does not.
func probe(s *v1alpha1.ToolServer, tool string) (v1alpha1.CompiledProbe, *Problem) {
	p := Declaration(s, tool).Probe
	if p.Tool == "" {
		return v1alpha1.CompiledProbe{}, nil
	}
	invalid := func(format string, args ...any) (v1alpha1.CompiledProbe, *Problem) {
		return v1alpha1.CompiledProbe{}, &Problem{v1alpha1.ReasonInvalid, contract.Clip(
			fmt.Sprintf("ToolServer %q: the probe of tool %q (spec.tools): ", s.Name, tool)+fmt.Sprintf(format, args...), contract.MaxMessage)}
	}
	asked := Declaration(s, p.Tool)
	at := slices.IndexFunc(s.Status.Tools, func(t v1alpha1.DiscoveredTool) bool { return t.Name == p.Tool })
	switch {
	case at < 0:
		return invalid("the server has no tool %q: correct the name, or change spec.release to have its tools discovered again", p.Tool)
	case asked.Effect != v1alpha1.EffectRead:
		return invalid("tool %q has the effect %s, and what is asked must only read: declare it with effect: Read, or name another", p.Tool, asked.Effect)
	}
	if _, err := policy.CompileProbe(p.Arguments, p.Happened); err != nil {
		return invalid("%v", err)
	}
	return v1alpha1.CompiledProbe{
		Tool: p.Tool, Digest: s.Status.Tools[at].Digest, Arguments: p.Arguments, Happened: p.Happened,
		TimeoutSeconds: asked.TimeoutSeconds, MaxResultBytes: asked.MaxResultBytes, HTTP: request(s, p.Tool),
	}, nil
}

// Body is what a tool of an HTTP server sends as its body.
func Body(t v1alpha1.HTTPTool) v1alpha1.HTTPBody {
	switch {
	case t.Body != "":
		return t.Body
	case t.Method == "GET", t.Method == "DELETE":
		return v1alpha1.HTTPBodyNone
	default:
		return v1alpha1.HTTPBodyRest
	}
}

// request is what a tool of an HTTP server sends, or zero for a tool of another.
func request(s *v1alpha1.ToolServer, tool string) v1alpha1.CompiledRequest {
	for _, t := range s.Spec.HTTP.Tools {
		if t.Name == tool {
			return v1alpha1.CompiledRequest{Method: t.Method, Path: t.Path, Query: slices.Clone(t.Query), Body: Body(t)}
		}
	}
	return v1alpha1.CompiledRequest{}
}
