// Package policy decides what may be called, by the rules of AgentPolicies. It is pure: both the manager and a segment
// decide by it.
//
// # Numbers
//
// In an expression, an argument that is written as an integer and fits into 64 bits is an int, exactly; every other number is
// a double, the nearest one. Ints and doubles can be compared with each other, so args.amount <= 100 holds for 100 and for
// 100.0. Two things are to be known. A double rounds: 100.000000000000000001 is 100, and so are integers beyond 64 bits
// rounded; a rule that allows up to a bound allows what rounds to it. And comparing an int with a literal such as 9007199254740993.0
// rounds the int too: write bounds on large integers without a point.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Defaults of an approval. The API's field comments promise them.
const (
	DefaultPool           = "default"
	DefaultSeats          = 1
	DefaultExpiresSeconds = 86400
)

// DefaultApproval is who approves where nothing is said.
func DefaultApproval() v1alpha1.PolicyApproval { return filled(v1alpha1.PolicyApproval{}) }

// Call is what a rule may look at.
type Call struct {
	// Tool is server/tool.
	Tool   string
	Effect v1alpha1.Effect
	// Arguments are the arguments as decoded JSON; numbers are json.Number, float64 or int64.
	Arguments  map[string]any
	Definition string
	Principal  v1alpha1.Principal
}

// Decision is what the rules say about a call.
type Decision struct {
	Action v1alpha1.PolicyAction
	// Rule is the rule that decided. Zero means that none matched and the effect of the tool decided.
	Rule v1alpha1.ApprovalPolicyReference
	// Approval says who approves, with every field set, if Action is RequireApproval.
	Approval v1alpha1.PolicyApproval
	// Problem tells why an expression could not be evaluated, if that is what made the call need an approval.
	Problem string
}

// Rules are the policies in force, compiled. They are for concurrent use. A nil *Rules is no rules.
type Rules struct {
	list []rule
}

// rule is one rule, compiled.
type rule struct {
	v1alpha1.PolicyRule
	reference v1alpha1.ApprovalPolicyReference
	floor     bool
	// expression is nil if there is none, or if problem says why it cannot be used.
	expression *expression
	problem    string
}

// Compile compiles a set of policies. A rule that does not compile is kept, and calls it might be about need an approval.
func Compile(set contract.PolicySet) *Rules {
	r := &Rules{}
	for _, source := range set.Sources {
		for _, spec := range source.Rules {
			r.list = append(r.list, compile(source, spec))
		}
	}
	return r
}

func compile(source contract.PolicySource, spec v1alpha1.PolicyRule) rule {
	r := rule{
		PolicyRule: spec, floor: source.Floor,
		reference: v1alpha1.ApprovalPolicyReference{Namespace: source.Namespace, Name: source.Name, Rule: spec.Name},
	}
	switch spec.Action {
	case v1alpha1.PolicyAllow, v1alpha1.PolicyRequireApproval, v1alpha1.PolicyDeny:
	default: // of a later version
		r.problem = fmt.Sprintf("its action %q is not known to this version", spec.Action)
		return r
	}
	if spec.Match.Expression != "" {
		var err error
		if r.expression, err = compileExpression(spec.Match.Expression); err != nil {
			r.problem = "its expression does not compile: " + err.Error()
		}
	}
	return r
}

// Problems are the rules that do not compile, in sentences for whoever wrote them. Calls that such a rule might be about need an
// approval, whatever its action.
func (r *Rules) Problems() []string {
	var out []string
	if r == nil {
		return nil
	}
	for _, rule := range r.list {
		if rule.problem != "" {
			out = append(out, rule.sentence(rule.problem))
		}
	}
	return out
}

// sentence is a problem with the name of the rule before it.
func (r rule) sentence(problem string) string {
	return contract.Clip(fmt.Sprintf("Rule %s of policy %s/%s requires an approval: %s.", r.reference.Rule, r.reference.Namespace, r.reference.Name, problem), contract.MaxMessage)
}

// verdict is what one rule says about a call that it matches.
type verdict struct {
	*rule
	action  v1alpha1.PolicyAction
	problem string
}

// Decide says what the rules say about a call. It is total.
func (r *Rules) Decide(c Call) Decision {
	matching := r.matching(c)
	for _, action := range []v1alpha1.PolicyAction{v1alpha1.PolicyDeny, v1alpha1.PolicyRequireApproval, v1alpha1.PolicyAllow} {
		says := slices.Collect(func(yield func(verdict) bool) {
			for _, v := range matching {
				if v.action == action && !yield(v) {
					return
				}
			}
		})
		if len(says) == 0 {
			continue
		}
		if action == v1alpha1.PolicyRequireApproval {
			return approval(says)
		}
		return Decision{Action: action, Rule: says[0].reference}
	}
	if c.Effect == v1alpha1.EffectRead {
		return Decision{Action: v1alpha1.PolicyAllow}
	}
	return Decision{Action: v1alpha1.PolicyRequireApproval, Approval: DefaultApproval()}
}

// matching are the rules that match, or may match, a call.
func (r *Rules) matching(c Call) []verdict {
	if r == nil {
		return nil
	}
	var out []verdict
	facts := facts(c)
	for i := range r.list {
		rule := &r.list[i]
		if !rule.about(c) {
			continue
		}
		v := verdict{rule: rule, action: rule.Action, problem: rule.problem}
		if rule.expression != nil {
			holds, problem := rule.expression.holds(facts)
			if !holds && problem == "" {
				continue
			}
			v.problem = problem
		}
		if v.problem != "" {
			v.action = v1alpha1.PolicyRequireApproval
		}
		out = append(out, v)
	}
	return out
}

// about reports whether the rule is about such tools and effects.
func (r *rule) about(c Call) bool {
	m := r.Match
	if len(m.Tools) > 0 && !slices.ContainsFunc(m.Tools, func(glob string) bool { return fits(glob, c.Tool) }) {
		return false
	}
	return len(m.Effects) == 0 || slices.Contains(m.Effects, c.Effect)
}

// approval is what the rules that require an approval ask for together: the pool of the floor, if it asks, and the seats of
// whoever asks for the most.
func approval(says []verdict) Decision {
	asks := slices.DeleteFunc(slices.Clone(says), func(v verdict) bool { return !v.floor })
	if len(asks) == 0 {
		asks = says
	}
	chosen, terms := asks[0], filled(asks[0].Approval)
	for _, v := range asks[1:] {
		if a := filled(v.Approval); a.Seats > terms.Seats {
			chosen, terms = v, a
		}
	}
	for _, v := range says {
		terms.Seats = max(terms.Seats, filled(v.Approval).Seats)
	}
	d := Decision{Action: v1alpha1.PolicyRequireApproval, Rule: chosen.reference, Approval: terms}
	if chosen.problem != "" {
		d.Problem = chosen.sentence(chosen.problem)
	}
	return d
}

// filled is a with the defaults where nothing is said.
func filled(a v1alpha1.PolicyApproval) v1alpha1.PolicyApproval {
	if a.Pool == "" {
		a.Pool = DefaultPool
	}
	if a.Seats <= 0 {
		a.Seats = DefaultSeats
	}
	if a.ExpiresSeconds <= 0 {
		a.ExpiresSeconds = DefaultExpiresSeconds
	}
	return a
}

// fits reports whether glob stands for s. A star stands for any characters; nothing else is special. It takes no
// more than len(glob) times len(s) steps.
func fits(glob, s string) bool {
	parts := strings.Split(glob, "*")
	if len(parts) == 1 {
		return glob == s
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(s, part)
		if at < 0 {
			return false
		}
		s = s[at+len(part):]
	}
	return true
}
