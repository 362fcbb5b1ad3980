package policy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// strictness orders actions.
func strictness(a v1alpha1.PolicyAction) int {
	return slices.Index([]v1alpha1.PolicyAction{v1alpha1.PolicyAllow, v1alpha1.PolicyRequireApproval, v1alpha1.PolicyDeny}, a)
}

// placed is a rule and whose it is.
type placed struct {
	v1alpha1.PolicyRule
	floor bool
}

// worlds yields every set of up to three rules out of a handful that differ in what they match, say and ask for, in every order,
// each rule of either source.
func worlds(yield func([]placed) bool) {
	rules := []v1alpha1.PolicyRule{
		allow("allow-all", every),
		allow("allow-pay", tools("payments/*")),
		ask("ask-one", every, terms("one", 1, 60)),
		ask("ask-three", effects(v1alpha1.EffectSend), terms("three", 3, 70)),
		deny("deny-send", effects(v1alpha1.EffectSend)),
		{Name: "broken", Match: v1alpha1.PolicyMatch{Expression: "args."}, Action: v1alpha1.PolicyDeny},
	}
	var choices []placed
	for _, r := range rules {
		choices = append(choices, placed{r, true}, placed{r, false})
	}
	var grow func(list []placed) bool
	grow = func(list []placed) bool {
		if !yield(slices.Clone(list)) {
			return false
		}
		for _, c := range choices {
			if len(list) == 3 {
				return true
			}
			if !grow(append(slices.Clone(list), c)) {
				return false
			}
		}
		return true
	}
	grow(nil)
}

func decide(list []placed, c policy.Call) policy.Decision {
	f, o := floor(), own()
	for _, p := range list {
		if p.floor {
			f.Rules = append(f.Rules, p.PolicyRule)
		} else {
			o.Rules = append(o.Rules, p.PolicyRule)
		}
	}
	return policy.Compile(set(f, o)).Decide(c)
}

func matched(d policy.Decision) bool { return d.Rule != v1alpha1.ApprovalPolicyReference{} }

func TestLaws(t *testing.T) {
	t.Parallel()
	calls := []policy.Call{read, refund, {Tool: "crm/note", Effect: v1alpha1.EffectWrite}}
	n := 0
	for list := range worlds {
		for _, c := range calls {
			n++
			d := decide(list, c)
			sound(t, list, c, d)
			for i := range list {
				without := decide(slices.Delete(slices.Clone(list), i, i+1), c)
				addsUp(t, list, c, without, d)
			}
			reversed := slices.Clone(list)
			slices.Reverse(reversed)
			r := decide(reversed, c)
			if r.Action != d.Action || r.Approval.Seats != d.Approval.Seats {
				t.Errorf("the order of %v changes %+v into %+v", names(list), d, r)
			}
			mine := decide(slices.DeleteFunc(slices.Clone(list), func(p placed) bool { return p.floor }), c)
			if matched(mine) && strictness(mine.Action) > strictness(d.Action) {
				t.Errorf("without the floor %v is stricter: %s, then %s", names(list), d.Action, mine.Action)
			}
		}
	}
	t.Logf("%d decisions", n)
}

// sound: a decision is complete and names a rule that there is.
func sound(t *testing.T, list []placed, c policy.Call, d policy.Decision) {
	t.Helper()
	a := d.Approval
	asks := d.Action == v1alpha1.PolicyRequireApproval
	if strictness(d.Action) < 0 || asks != (a.Pool != "" && a.Seats > 0 && a.ExpiresSeconds > 0) || !asks && (a != v1alpha1.PolicyApproval{} || d.Problem != "") {
		t.Errorf("%v on %s: %+v", names(list), c.Tool, d)
	}
	if matched(d) && !slices.ContainsFunc(list, func(p placed) bool {
		return p.Name == d.Rule.Rule && p.floor == (d.Rule.Namespace == "ekiden-system")
	}) {
		t.Errorf("%v on %s is decided by %v", names(list), c.Tool, d.Rule)
	}
}

// addsUp: a further rule makes a call no easier, once any rule is about it.
func addsUp(t *testing.T, list []placed, c policy.Call, without, with policy.Decision) {
	t.Helper()
	if !matched(without) {
		return
	}
	if strictness(with.Action) < strictness(without.Action) ||
		with.Action == without.Action && with.Approval.Seats < without.Approval.Seats {
		t.Errorf("%v on %s: %+v with all of them, %+v with one less", names(list), c.Tool, with, without)
	}
}

func names(list []placed) []string {
	var out []string
	for _, p := range list {
		name := p.Name
		if p.floor {
			name = "floor/" + name
		}
		out = append(out, name)
	}
	return out
}

// TestTheOrderOfSourcesDoesNotMatter puts the floor last.
func TestTheOrderOfSourcesDoesNotMatter(t *testing.T) {
	t.Parallel()
	f, o := floor(ask("a", every, terms("floor", 1, 60))), own(ask("b", every, terms("mine", 2, 70)))
	for _, sources := range [][]contract.PolicySource{{f, o}, {o, f}} {
		want := policy.Decision{Action: v1alpha1.PolicyRequireApproval, Rule: rule("ekiden-system", "a"), Approval: terms("floor", 2, 60)}
		if diff := cmp.Diff(want, policy.Compile(set(sources...)).Decide(refund)); diff != "" {
			t.Error(diff)
		}
	}
}
