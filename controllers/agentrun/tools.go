package agentrun

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
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

// served finds out whether the platform still offers the server as the revision was compiled with it, as offered does for the
// model.
func (r *Reconciler) served(ctx context.Context, revision *v1alpha1.DefinitionRevision, frozen v1alpha1.CompiledServer, o *observation) error {
	var live v1alpha1.ToolServer
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: revision.Namespace, Name: frozen.Name}, &live)
	field := changed(reach{frozen.URL, frozen.Credentials, frozen.Egress}, reach{live.Spec.MCP.URL + live.Spec.HTTP.URL, live.Spec.Credentials, live.Spec.Egress})
	switch {
	case apierrors.IsNotFound(err), err == nil && live.UID != frozen.UID:
		o.wait(v1alpha1.ReasonDefinitionNotReady, "revision %q needs ToolServer %q, which is not in this namespace or is another one than it was compiled with: apply it, or use a revision that was compiled since", revision.Name, frozen.Name)
	case err != nil:
		return fmt.Errorf("tool server %s: %w", frozen.Name, err)
	case field != "":
		o.wait(v1alpha1.ReasonDefinitionNotReady, "%s of ToolServer %q is not what revision %q was compiled with: use a revision that was compiled since, or correct the definition if its newest edit does not compile", field, live.Name, revision.Name)
	}
	return nil
}
