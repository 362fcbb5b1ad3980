package doctor

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

func (f Facts) toolHolders() []holder {
	out := make([]holder, 0, len(f.Tools.Value))
	for _, s := range f.Tools.Value {
		out = append(out, holder{s.Namespace, s.Name, s.Spec.Credentials.SecretRef})
	}
	return out
}

func toolServers(f Facts) []Finding {
	what := "tool servers of " + f.everywhere()
	if f.Tools.Err != nil {
		return []Finding{unseen(what, f.Tools.Err)}
	}
	var out []Finding
	for _, s := range f.Tools.Value {
		out = append(out, toolServer(s, f.Now)...)
	}
	if len(out) == 0 {
		out = append(out, ok(what, "%d, all of them ready", len(f.Tools.Value)))
	}
	return out
}

// toolSecrets says nothing where the servers could not be read: that was said.
func toolSecrets(f Facts) []Finding {
	if f.Tools.Err != nil {
		return nil
	}
	return f.credentials("tool server", "the key that the server wants", f.toolHolders())
}

func toolServer(s v1alpha1.ToolServer, now time.Time) []Finding {
	what := named("tool server", s.Namespace, s.Name)
	ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil && now.Sub(s.CreationTimestamp.Time) < settleWithin:
		return nil
	case ready == nil:
		return []Finding{{Level: Fail, What: what, Says: "no manager has looked at it", Cure: "see to the manager"}}
	case ready.ObservedGeneration < s.Generation:
		return []Finding{{Level: Warn, What: what, Says: "its newest edit has not been looked at yet", Cure: "ask again; if this stays, see to the manager"}}
	case ready.Status == metav1.ConditionTrue:
		return nil
	}
	found := Finding{
		Level: Fail, What: what, Cure: cureToolServer(ready.Reason),
		Says: "is not ready, and no edit of a definition that uses it compiles: " + ready.Reason + ": " + ready.Message,
	}
	if ready.Reason == v1alpha1.ReasonDiscovering && now.Sub(ready.LastTransitionTime.Time) <= startWithin {
		found.Level = Warn
	}
	return []Finding{found}
}

func cureToolServer(reason string) string {
	switch reason {
	case v1alpha1.ReasonDiscovering:
		return "ask again; if this stays, see to the Job that the message names"
	case v1alpha1.ReasonDiscoveryFailed:
		return "see to what the message names; the server is asked again by itself, and at once when spec.release changes"
	case v1alpha1.ReasonNameTaken:
		return "remove what holds the name"
	default:
		return "correct the field that the message names"
	}
}

func agentPolicies(f Facts) []Finding {
	what := "agent policies of " + f.everywhere()
	if f.Policies.Err != nil {
		return []Finding{unseen(what, f.Policies.Err)}
	}
	var out []Finding
	for _, p := range f.Policies.Value {
		out = append(out, agentPolicy(p, f.Now)...)
	}
	if len(out) == 0 {
		out = append(out, ok(what, "%d, all of them in force", len(f.Policies.Value)))
	}
	return out
}

// agentPolicy says whether calls go by the newest edit. One that was made just now may take a moment.
func agentPolicy(p v1alpha1.AgentPolicy, now time.Time) []Finding {
	found := Finding{
		Level: Fail, What: named("agent policy", p.Namespace, p.Name),
		Cure: "see to the manager and the Postgres it writes policies to: its logs say what keeps it",
	}
	switch {
	case p.Status.ObservedGeneration >= p.Generation:
		return nil
	case p.Status.ObservedGeneration == 0:
		found.Says = "is not in force: calls go by no rule of it"
	default:
		found.Says = fmt.Sprintf("its newest edit is not in force: calls go by generation %d, and it is at %d", p.Status.ObservedGeneration, p.Generation)
	}
	if now.Sub(edited(&p)) <= settleWithin {
		found.Level, found.Cure = Warn, "ask again; if this stays, see to the manager"
	}
	return []Finding{found}
}

// edited is when something other than the status of an object last changed.
func edited(o metav1.Object) time.Time {
	at := o.GetCreationTimestamp().Time
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}
