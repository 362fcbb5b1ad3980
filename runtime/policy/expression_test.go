package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// calls is a call with the arguments of a JSON text, numbers as they are written.
func calls(t testing.TB, args string) policy.Call {
	t.Helper()
	c := policy.Call{
		Tool: "payments/refund", Effect: v1alpha1.EffectSend, Definition: "triage",
		Principal: v1alpha1.Principal{User: "dana", Groups: []string{"support", "night"}},
	}
	d := json.NewDecoder(strings.NewReader(args))
	d.UseNumber()
	if err := d.Decode(&c.Arguments); err != nil {
		t.Fatal(err)
	}
	return c
}

func expression(text string) v1alpha1.PolicyMatch { return v1alpha1.PolicyMatch{Expression: text} }

// TestExpressions has rules that allow: what does not hold falls back to the default, and what fails says why.
func TestExpressions(t *testing.T) {
	t.Parallel()
	const fails = "Rule r of policy support/default requires an approval: its expression "
	tests := map[string]struct {
		expression, args string
		holds            bool
		problem          string
	}{
		"an int below the bound":                     {"args.amount <= 100", `{"amount":100}`, true, ""},
		"an int above the bound":                     {"args.amount <= 100", `{"amount":101}`, false, ""},
		"a double at the bound":                      {"args.amount <= 100", `{"amount":100.0}`, true, ""},
		"a double above the bound":                   {"args.amount <= 100", `{"amount":100.01}`, false, ""},
		"an exponent":                                {"args.amount <= 100", `{"amount":1e2}`, true, ""},
		"an int and a bound with a point":            {"args.amount < 99.5", `{"amount":99}`, true, ""},
		"a large int is not rounded":                 {"args.id == 9007199254740993", `{"id":9007199254740993}`, true, ""},
		"nor taken for its neighbour":                {"args.id == 9007199254740992", `{"id":9007199254740993}`, false, ""},
		"the largest int":                            {"args.id == 9223372036854775807", `{"id":9223372036854775807}`, true, ""},
		"beyond the largest int":                     {"args.id > 9223372036854775807", `{"id":92233720368547758080}`, true, ""},
		"beyond every double":                        {"args.amount <= 100", `{"amount":1e400}`, false, ""},
		"below every double":                         {"args.amount <= 100", `{"amount":-1e400}`, true, ""},
		"a text":                                     {"args.to.endsWith('@example.com')", `{"to":"a@example.com"}`, true, ""},
		"a list":                                     {"args.to.all(t, t.endsWith('@example.com'))", `{"to":["a@example.com","b@evil.example"]}`, false, ""},
		"a field that may be missing":                {"!has(args.amount) || args.amount < 5", `{}`, true, ""},
		"null":                                       {"args.a == null", `{"a":null}`, true, ""},
		"the tool":                                   {"tool == 'payments/refund' && effect == 'Send'", `{}`, true, ""},
		"the definition":                             {"definition == 'triage'", `{}`, true, ""},
		"the principal":                              {"principal.user == 'dana' && 'night' in principal.groups", `{}`, true, ""},
		"a group that the principal is not in":       {"principal.groups.exists(g, g == 'admins')", `{}`, false, ""},
		"a flag":                                     {"args.dryRun", `{"dryRun":true}`, true, ""},
		"a pattern":                                  {"args.id.matches('^[0-9]+$')", `{"id":"12"}`, true, ""},
		"a missing argument":                         {"args.amount <= 100", `{"other":1}`, false, fails + "looks at args.amount, which is not there."},
		"a missing argument deep inside":             {"args.a.b.c == 1", `{"a":{"b":{}}}`, false, fails + "looks at args.a.b.c, which is not there."},
		"a missing argument that does not matter":    {"args.amount <= 100 || true", `{}`, true, ""},
		"a text where a number is compared":          {"args.amount <= 100", `{"amount":"1"}`, false, fails + "fails on these arguments, as when a text is compared with a number."},
		"a flag that is none":                        {"args.dryRun", `{"dryRun":"yes"}`, false, fails + "is not true or false on these arguments."},
		"an argument that cannot be converted":       {"int(args.secret) > 1", `{"secret":"hunter2"}`, false, fails + "fails on these arguments, as when a text is compared with a number."},
		"a number":                                   {"1 + 1", `{}`, false, fails + "does not compile: it is of type int and must be of type bool."},
		"no CEL":                                     {"args.amount <", `{}`, false, fails + "does not compile: at column 14, Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}."},
		"an unknown variable":                        {"arg.amount < 5", `{}`, false, fails + "does not compile: at column 1, undeclared reference to 'arg' (in container '')."},
		"map, which builds lists":                    {"args.a.map(x, [x, x]).size() > 1", `{"a":[1]}`, false, fails + "does not compile: at column 11, undeclared reference to 'map' (in container '')."},
		"a pattern from the arguments":               {"'x'.matches(args.p)", `{"p":"((a{100}){100}){100}"}`, false, fails + "does not compile: the pattern of matches must be a literal."},
		"too long":                                   {"true || " + strings.Repeat("x", 2048), `{}`, false, fails + "does not compile: it has 2056 bytes and may have 2048."},
		"more steps than it may take":                {"args.a.all(x, args.a.all(y, args.a.all(z, x + y + z >= 0)))", `{"a":[` + strings.Repeat("1,", 200) + `1]}`, false, fails + "costs more than 100000 steps on these arguments."},
		"a name that is no field, in a computed way": {"args[args.k] == 1", `{"k":"secret"}`, false, fails + "fails on these arguments, as when a text is compared with a number."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []v1alpha1.PolicyRule{
				allow("r", expression(tc.expression)), deny("r", expression(tc.expression)), ask("r", expression(tc.expression), terms("p", 2, 60)),
			} {
				want := policy.Decision{Action: v1alpha1.PolicyRequireApproval, Approval: terms("default", 1, 86400)}
				if tc.holds {
					want = policy.Decision{Action: r.Action, Rule: rule("support", "r")}
				}
				if tc.problem != "" {
					want.Rule, want.Problem = rule("support", "r"), tc.problem
				}
				if (tc.holds || tc.problem != "") && r.Action == v1alpha1.PolicyRequireApproval {
					want.Approval = terms("p", 2, 60)
				}
				if diff := cmp.Diff(want, policy.Compile(set(own(r))).Decide(calls(t, tc.args))); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestARuleThatIsNotAboutTheToolIsNotEvaluated(t *testing.T) {
	t.Parallel()
	m := v1alpha1.PolicyMatch{Tools: []string{"mail/*"}, Expression: "args.missing == 1"}
	if d := policy.Compile(set(own(deny("no", m)))).Decide(calls(t, `{}`)); d.Problem != "" || d.Rule.Rule != "" {
		t.Errorf("%+v", d)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	rules := policy.Compile(set(own(allow("ok", expression("args.a == 1")), deny("bad", expression("args.a")), deny("worse", expression("'x'")))))
	want := []string{"Rule worse of policy support/default requires an approval: its expression does not compile: it is of type string and must be of type bool."}
	if diff := cmp.Diff(want, rules.Problems()); diff != "" {
		t.Error(diff)
	}
}

// TestNumbersOfAnyKind: whoever decodes without json.Number is understood too.
func TestNumbersOfAnyKind(t *testing.T) {
	t.Parallel()
	rules := policy.Compile(set(own(deny("no", expression("args.amount > 100")))))
	for _, n := range []any{int64(101), float64(100.5), json.Number("101"), json.Number("1.01e2")} {
		if d := rules.Decide(policy.Call{Effect: v1alpha1.EffectRead, Arguments: map[string]any{"amount": n}}); d.Action != v1alpha1.PolicyDeny {
			t.Errorf("%T: %+v", n, d)
		}
	}
	for _, n := range []any{json.Number("many"), []byte("101"), struct{}{}, nil} {
		if d := rules.Decide(policy.Call{Effect: v1alpha1.EffectRead, Arguments: map[string]any{"amount": n}}); d.Problem == "" {
			t.Errorf("%T: %+v", n, d)
		}
	}
	if d := rules.Decide(read); d.Problem == "" {
		t.Errorf("no arguments: %+v", d)
	}
}

// FuzzExpression compiles anything and evaluates it on anything: nothing panics, nothing takes long, and no argument is told.
func FuzzExpression(f *testing.F) {
	f.Add("args.a.all(x, x < 5) && tool.matches('a+')", `{"a":[1,2.5]}`)
	f.Add("size(args) > 0 ? args['a'].b : principal.user == string(args.c)", `{"a":{"b":true},"c":1}`)
	f.Add("timestamp(args.t).getHours('Europe/Berlin') < 5 || duration('1h') > duration(args.d)", `{"t":"2026-01-01T00:00:00Z","d":"x"}`)
	f.Fuzz(func(t *testing.T, text, args string) {
		var decoded map[string]any
		if json.Unmarshal([]byte(args), &decoded) != nil {
			return
		}
		d := policy.Compile(set(own(allow("r", expression(text))))).Decide(policy.Call{Tool: "a/b", Effect: v1alpha1.EffectSend, Arguments: decoded})
		if d.Action == v1alpha1.PolicyDeny || len(d.Problem) > 1<<10 || strings.Contains(d.Problem, "\n") {
			t.Errorf("%+v", d)
		}
	})
}
