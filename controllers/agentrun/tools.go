package agentrun

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// tools are the contracts of the revision's tools, in its order, and which of them a run of its own may use: all. If o says
// what is waited for, they are not complete.
func (r *Reconciler) tools(ctx context.Context, revision *v1alpha1.DefinitionRevision, o *observation) (contracts []contract.ToolContract, grant []string, err error) {
	agent := revision.Spec.Agent
	if len(agent.Tools) == 0 {
		return nil, nil, nil
	}
	servers := map[string]v1alpha1.CompiledServer{}
	for _, s := range agent.Servers {
		servers[s.Name] = s
		if err := r.served(ctx, revision, s, o); err != nil || o.Waiting != nil {
			return nil, nil, err
		}
	}
	var pins []ledger.Pin
	for _, t := range agent.Tools {
		pins = append(pins, ledger.Pin{Server: servers[t.Server].UID, Digest: t.Digest})
	}
	pinned, err := r.Ledger.Pinned(ctx, o.namespace.UID, pins)
	if err != nil {
		return nil, nil, err
	}
	for i, t := range agent.Tools {
		c, there := pinned[pins[i]]
		if !there {
			o.wait(v1alpha1.ReasonDefinitionNotReady, "Postgres has no contract of tool %q of ToolServer %q as revision %q pins it: change spec.release of the ToolServer to have its tools discovered again", t.Tool, t.Server, revision.Name)
			return nil, nil, nil
		}
		contracts, grant = append(contracts, c), append(grant, t.Name)
	}
	return contracts, grant, nil
}

// served finds out whether the platform still offers the server, and its tools, as the revision was compiled with them, as
// offered does for the model.
func (r *Reconciler) served(ctx context.Context, revision *v1alpha1.DefinitionRevision, frozen v1alpha1.CompiledServer, o *observation) error {
	var live v1alpha1.ToolServer
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: revision.Namespace, Name: frozen.Name}, &live)
	switch {
	case apierrors.IsNotFound(err), err == nil && live.UID != frozen.UID:
		o.wait(v1alpha1.ReasonDefinitionNotReady, "revision %q needs ToolServer %q, which is not in this namespace or is another one than it was compiled with: apply it, or use a revision that was compiled since", revision.Name, frozen.Name)
		return nil
	case err != nil:
		return fmt.Errorf("tool server %s: %w", frozen.Name, err)
	}
	differs := moved(frozen, &live, revision.Name)
	for _, t := range revision.Spec.Agent.Tools {
		if differs == "" && t.Server == frozen.Name {
			differs = redeclared(t, &live, revision.Name)
		}
	}
	if differs != "" {
		o.wait(v1alpha1.ReasonDefinitionNotReady, "%s: use a revision that was compiled since, or correct the definition if its newest edit does not compile", differs)
	}
	return nil
}

// moved says what of the server itself is not as the revision has it, or nothing.
func moved(frozen v1alpha1.CompiledServer, live *v1alpha1.ToolServer, revision string) string {
	now := compile.Server(live)
	field := changed(reach{frozen.URL, frozen.Credentials, frozen.TLS, frozen.Proxy, frozen.Egress}, reach{now.URL, now.Credentials, now.TLS, now.Proxy, now.Egress})
	switch {
	case frozen.Type != now.Type:
		field = "spec.type"
	case field == "":
		return ""
	case field == "spec.url" && now.Type == v1alpha1.ToolServerHTTP:
		field = "spec.http.url"
	case field == "spec.url":
		field = "spec.mcp.url"
	}
	return fmt.Sprintf("%s of ToolServer %q is not what revision %q was compiled with", field, live.Name, revision)
}

// redeclared says what of a tool is not as the revision has it, or nothing. By these fields its calls are judged, shown,
// repeated and sent. They have to be equal: which of two is the stricter is not asked.
func redeclared(t v1alpha1.CompiledTool, live *v1alpha1.ToolServer, revision string) string {
	d := compile.Declaration(live, t.Tool)
	for _, f := range []struct{ name, before, now string }{
		{"effect", string(t.Effect), string(d.Effect)},
		{"idempotency", string(t.Idempotency), string(d.Idempotency)},
		{"show", string(t.Show), string(d.Show)},
	} {
		if f.before != f.now {
			return fmt.Sprintf("the %s of tool %q of ToolServer %q (spec.tools) is %s, and revision %q was compiled with %s", f.name, t.Tool, live.Name, f.now, revision, f.before)
		}
	}
	if frozen := (v1alpha1.Probe{Tool: t.Probe.Tool, Arguments: t.Probe.Arguments, Happened: t.Probe.Happened}); frozen != d.Probe || reprobed(t.Probe, live) {
		return fmt.Sprintf("the probe of tool %q of ToolServer %q (spec.tools) is not what revision %q was compiled with", t.Tool, live.Name, revision)
	}
	if live.Spec.Type != v1alpha1.ToolServerHTTP {
		return "" // what such a server offers is compared before each call
	}
	i := slices.IndexFunc(live.Spec.HTTP.Tools, func(h v1alpha1.HTTPTool) bool { return h.Name == t.Tool })
	if i < 0 {
		return fmt.Sprintf("ToolServer %q no longer has the tool %q (spec.http.tools), with which revision %q was compiled", live.Name, t.Tool, revision)
	}
	if field := rerouted(t.HTTP, live.Spec.HTTP.Tools[i]); field != "" {
		return fmt.Sprintf("the %s of tool %q of ToolServer %q (spec.http.tools) is not what revision %q was compiled with", field, t.Tool, live.Name, revision)
	}
	return ""
}

// reprobed reports whether the tool that a probe asks is not as it was: it may do more than read.
func reprobed(p v1alpha1.CompiledProbe, live *v1alpha1.ToolServer) bool {
	if p.Tool == "" {
		return false
	}
	i := slices.IndexFunc(live.Spec.HTTP.Tools, func(h v1alpha1.HTTPTool) bool { return h.Name == p.Tool })
	return compile.Declaration(live, p.Tool).Effect != v1alpha1.EffectRead ||
		live.Spec.Type == v1alpha1.ToolServerHTTP && (i < 0 || rerouted(p.HTTP, live.Spec.HTTP.Tools[i]) != "")
}

// rerouted names the first field by which a tool's request is another than before, or none.
func rerouted(before v1alpha1.CompiledRequest, now v1alpha1.HTTPTool) string {
	sorted := func(names []string) []string { return slices.Sorted(slices.Values(names)) }
	switch {
	case before.Method != now.Method:
		return "method"
	case before.Path != now.Path:
		return "path"
	case !slices.Equal(sorted(before.Query), sorted(now.Query)):
		return "query"
	case before.Body != compile.Body(now):
		return "body"
	default:
		return ""
	}
}
