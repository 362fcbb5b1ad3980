package sim

import (
	"slices"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// rules are what a policy may say. Each is one set, compiled, with what it does about each tool.
type rules struct {
	set    contract.PolicySet
	rules  *policy.Rules
	action map[string]v1alpha1.PolicyAction
}

// policies are changed from one to another as people like. The first says nothing.
var policies = []rules{
	compile(),
	compile(rule(v1alpha1.PolicyAllow, 0)),
	compile(rule(v1alpha1.PolicyAllow, 0), rule(v1alpha1.PolicyDeny, 0, "crm/send")),
	compile(rule(v1alpha1.PolicyAllow, 0), rule(v1alpha1.PolicyRequireApproval, 2, "crm/send", "crm/post")),
	compile(rule(v1alpha1.PolicyAllow, 0), rule(v1alpha1.PolicyRequireApproval, 1, "crm/write", "crm/read")),
	compile(rule(v1alpha1.PolicyDeny, 0)),
}

func rule(a v1alpha1.PolicyAction, seats int32, tools ...string) v1alpha1.PolicyRule {
	r := v1alpha1.PolicyRule{Name: "rule", Action: a, Match: v1alpha1.PolicyMatch{Tools: tools}}
	if seats > 0 {
		r.Approval = v1alpha1.PolicyApproval{Pool: "desk", Seats: seats, ExpiresSeconds: 300}
	}
	return r
}

func compile(list ...v1alpha1.PolicyRule) rules {
	set := contract.PolicySet{Schema: contract.PolicySchema, Sources: []contract.PolicySource{{Namespace: "team", Name: "default", UID: "policy-uid", Rules: list}}}
	r := rules{set: set, rules: policy.Compile(set), action: map[string]v1alpha1.PolicyAction{}}
	for _, t := range tools {
		d := r.rules.Decide(policy.Call{Tool: "crm/" + t.Name, Effect: t.Effect, Arguments: map[string]any{}})
		r.action["crm/"+t.Name] = d.Action
	}
	return r
}

// at is the set as generation g of its object.
func (r rules) at(g int) contract.PolicySet {
	set, source := r.set, r.set.Sources[0]
	source.Generation = int64(g)
	set.Sources = []contract.PolicySource{source}
	return set
}

// note keeps in mind which policy a new version is.
func (w *world) note() {
	if v := int64(w.pg.versions); len(w.projected) < w.pg.versions {
		all := w.pg.Policies(namespaceUID)
		newest := all[len(all)-1]
		w.projected[v] = slices.IndexFunc(policies, func(r rules) bool { return same(r.set, newest) })
	}
}

func same(a, b contract.PolicySet) bool {
	return slices.EqualFunc(a.Sources[0].Rules, b.Sources[0].Rules, func(x, y v1alpha1.PolicyRule) bool {
		return x.Action == y.Action && slices.Equal(x.Match.Tools, y.Match.Tools)
	})
}

// compiled is policy.Compile of one of policies, or of none.
func (w *world) compiled(set contract.PolicySet) *policy.Rules {
	if len(set.Sources) == 0 {
		return nil
	}
	for _, r := range policies {
		if same(r.set, set) {
			return r.rules
		}
	}
	return policy.Compile(set)
}
