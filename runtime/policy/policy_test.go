package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// Words for the tables.

func allow(name string, m v1alpha1.PolicyMatch) v1alpha1.PolicyRule {
	return v1alpha1.PolicyRule{Name: name, Match: m, Action: v1alpha1.PolicyAllow}
}

func deny(name string, m v1alpha1.PolicyMatch) v1alpha1.PolicyRule {
	return v1alpha1.PolicyRule{Name: name, Match: m, Action: v1alpha1.PolicyDeny}
}

func ask(name string, m v1alpha1.PolicyMatch, a v1alpha1.PolicyApproval) v1alpha1.PolicyRule {
	return v1alpha1.PolicyRule{Name: name, Match: m, Action: v1alpha1.PolicyRequireApproval, Approval: a}
}

func tools(globs ...string) v1alpha1.PolicyMatch { return v1alpha1.PolicyMatch{Tools: globs} }

func effects(e ...v1alpha1.Effect) v1alpha1.PolicyMatch { return v1alpha1.PolicyMatch{Effects: e} }

func terms(pool string, seats, expires int32) v1alpha1.PolicyApproval {
	return v1alpha1.PolicyApproval{Pool: pool, Seats: seats, ExpiresSeconds: expires}
}

func floor(rules ...v1alpha1.PolicyRule) contract.PolicySource {
	return contract.PolicySource{Namespace: "ekiden-system", Name: "default", Floor: true, Rules: rules}
}

func own(rules ...v1alpha1.PolicyRule) contract.PolicySource {
	return contract.PolicySource{Namespace: "support", Name: "default", Rules: rules}
}

func set(sources ...contract.PolicySource) contract.PolicySet {
	return contract.PolicySet{Schema: contract.PolicySchema, Sources: sources}
}

func rule(namespace, name string) v1alpha1.ApprovalPolicyReference {
	return v1alpha1.ApprovalPolicyReference{Namespace: namespace, Name: "default", Rule: name}
}

var (
	read   = policy.Call{Tool: "crm/get_customer", Effect: v1alpha1.EffectRead}
	refund = policy.Call{Tool: "payments/refund", Effect: v1alpha1.EffectSend}
	every  = v1alpha1.PolicyMatch{}
)

func TestDecide(t *testing.T) {
	t.Parallel()
	byDefault := policy.Decision{Action: v1alpha1.PolicyRequireApproval, Approval: terms("default", 1, 86400)}
	tests := map[string]struct {
		rules contract.PolicySet
		call  policy.Call
		want  policy.Decision
	}{
		"without rules a read is allowed":        {set(), read, policy.Decision{Action: v1alpha1.PolicyAllow}},
		"without rules a send needs an approval": {set(), refund, byDefault},
		"an effect that is not known needs an approval": {
			set(), policy.Call{Tool: "a/b", Effect: "Teleport"}, byDefault,
		},
		"a rule about another tool says nothing": {set(own(deny("no", tools("mail/*")))), read, policy.Decision{Action: v1alpha1.PolicyAllow}},
		"a rule without a match is about every call": {
			set(own(deny("no", every))), read, policy.Decision{Action: v1alpha1.PolicyDeny, Rule: rule("support", "no")},
		},
		"a tool and an effect have to match both": {
			set(own(deny("no", v1alpha1.PolicyMatch{Tools: []string{"payments/*"}, Effects: []v1alpha1.Effect{v1alpha1.EffectRead}}))), refund, byDefault,
		},
		"one of several globs is enough": {
			set(own(allow("ok", tools("mail/*", "*/refund")))), refund, policy.Decision{Action: v1alpha1.PolicyAllow, Rule: rule("support", "ok")},
		},
		"a rule may allow a send": {
			set(own(allow("ok", tools("payments/refund")))), refund, policy.Decision{Action: v1alpha1.PolicyAllow, Rule: rule("support", "ok")},
		},
		"a read may need an approval": {
			set(own(ask("look", effects(v1alpha1.EffectRead), terms("privacy", 0, 0)))), read,
			policy.Decision{Action: v1alpha1.PolicyRequireApproval, Rule: rule("support", "look"), Approval: terms("privacy", 1, 86400)},
		},
		"an approval beats an allowance": {
			set(own(allow("ok", every), ask("ask", every, v1alpha1.PolicyApproval{}))), read,
			policy.Decision{Action: v1alpha1.PolicyRequireApproval, Rule: rule("support", "ask"), Approval: terms("default", 1, 86400)},
		},
		"a denial beats an approval": {
			set(floor(ask("ask", every, v1alpha1.PolicyApproval{})), own(deny("no", every), deny("never", every))), refund,
			policy.Decision{Action: v1alpha1.PolicyDeny, Rule: rule("support", "no")},
		},
		"the floor is not loosened": {
			set(floor(deny("no", tools("payments/*"))), own(allow("ok", every))), refund,
			policy.Decision{Action: v1alpha1.PolicyDeny, Rule: rule("ekiden-system", "no")},
		},
		"the pool is that of the rule with the most seats": {
			set(own(ask("a", every, terms("one", 1, 60)), ask("b", every, terms("two", 2, 70)), ask("c", every, terms("also-two", 2, 80)))), refund,
			policy.Decision{Action: v1alpha1.PolicyRequireApproval, Rule: rule("support", "b"), Approval: terms("two", 2, 70)},
		},
		"the pool is that of the floor, the seats are the most": {
			set(floor(ask("a", every, terms("floor", 0, 60)), ask("b", every, terms("floor-two", 2, 70))), own(ask("c", every, terms("mine", 3, 80)))), refund,
			policy.Decision{Action: v1alpha1.PolicyRequireApproval, Rule: rule("ekiden-system", "b"), Approval: terms("floor-two", 3, 70)},
		},
		"a floor that only allows leaves the pool to the namespace": {
			set(floor(allow("a", every)), own(ask("c", every, terms("mine", 3, 80)))), refund,
			policy.Decision{Action: v1alpha1.PolicyRequireApproval, Rule: rule("support", "c"), Approval: terms("mine", 3, 80)},
		},
		"an action of a later version needs an approval": {
			set(own(v1alpha1.PolicyRule{Name: "later", Action: "Rewrite"})), read,
			policy.Decision{
				Action: v1alpha1.PolicyRequireApproval, Rule: rule("support", "later"), Approval: terms("default", 1, 86400),
				Problem: `Rule later of policy support/default requires an approval: its action "Rewrite" is not known to this version.`,
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, policy.Compile(tc.rules).Decide(tc.call)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNothingKnownIsNoRules(t *testing.T) {
	t.Parallel()
	var none *policy.Rules
	for _, c := range []policy.Call{read, refund, {}} {
		if diff := cmp.Diff(policy.Compile(contract.PolicySet{}).Decide(c), none.Decide(c)); diff != "" {
			t.Error(diff)
		}
	}
	if p := none.Problems(); p != nil {
		t.Error(p)
	}
}

func TestGlobs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ fits, not []string }{
		"payments/refund": {[]string{"payments/refund"}, []string{"payments/refunds", "xpayments/refund", "payments/*", ""}},
		"payments/*":      {[]string{"payments/", "payments/refund", "payments/a/b"}, []string{"payments", "xpayments/a"}},
		"*/delete_*":      {[]string{"a/delete_b", "a/b/delete_", "/delete_"}, []string{"delete_b", "a/delet"}},
		"*":               {[]string{"", "a/b"}, nil},
		"**":              {[]string{"", "a/b"}, nil},
		"ab*ba":           {[]string{"abba", "abxba"}, []string{"aba"}},
		"a*b*c":           {[]string{"abc", "axbxbc"}, []string{"acb", "ab"}},
		"*ab*ab*":         {[]string{"abab", "xabxabx"}, []string{"aba", "ab"}},
		"crm/[a-z]?.x":    {[]string{"crm/[a-z]?.x"}, []string{"crm/a1.x", "crm/ab.x"}},
		"CRM/*":           {nil, []string{"crm/a"}},
	}
	for glob, tc := range tests {
		rules := policy.Compile(set(own(deny("no", tools(glob)))))
		for want, list := range map[v1alpha1.PolicyAction][]string{v1alpha1.PolicyDeny: tc.fits, v1alpha1.PolicyAllow: tc.not} {
			for _, tool := range list {
				if got := rules.Decide(policy.Call{Tool: tool, Effect: v1alpha1.EffectRead}).Action; got != want {
					t.Errorf("%s on %q: %s", glob, tool, got)
				}
			}
		}
	}
}
