package gate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// TestDoubt is whom what came of a call is asked of, and what they are shown.
func TestDoubt(t *testing.T) {
	t.Parallel()
	finance := v1alpha1.PolicyApproval{Pool: "finance", Seats: 3, ExpiresSeconds: 60}
	long := `{"amount":1,"note":"` + strings.Repeat("x", contract.MaxShownArguments) + `"}`
	want := contract.Ask{
		Type: v1alpha1.ApprovalIndeterminate, Turn: 3, Index: 1, Tool: "payments/refund", Effect: v1alpha1.EffectSend, Arguments: canon, Digest: digest,
		Note: "It was lost.", Pool: policy.DefaultPool, Seats: 1, ExpiresSeconds: policy.DefaultExpiresSeconds,
	}
	for name, tc := range map[string]struct {
		tool, arguments string
		rules           *policy.Rules
		change          func(*contract.Ask)
	}{
		"without a policy, of the pool default":            {"pay", args, nil, func(*contract.Ask) {}},
		"of the pool that approves such calls, but of one": {"pay", args, rules(rule("money", v1alpha1.PolicyRequireApproval, finance)), func(a *contract.Ask) { a.Pool, a.ExpiresSeconds, a.Policy = "finance", 60, reference("money") }},
		"though the policy allows such calls":              {"pay", args, rules(rule("ok", v1alpha1.PolicyAllow, v1alpha1.PolicyApproval{})), func(*contract.Ask) {}},
		"though the policy has come to deny them":          {"pay", args, rules(rule("no", v1alpha1.PolicyDeny, v1alpha1.PolicyApproval{})), func(*contract.Ask) {}},
		"of a tool that shows the digest alone":            {"quiet", args, nil, func(a *contract.Ask) { a.Tool, a.Arguments = "payments/quiet", "" }},
		"with arguments that are too long to be shown": {"pay", long, nil, func(a *contract.Ask) {
			a.Arguments, a.Digest = "", contract.Digest([]byte(long))
			a.Note += fmt.Sprintf(" Its arguments are not shown: they have %d bytes.", len(long))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := want
			tc.change(&want)
			got := opened(t).Doubt(gate.Proposal{Turn: 3, Index: 1, Tool: tc.tool, Arguments: tc.arguments}, gate.Circumstances{Rules: tc.rules}, "It was lost.")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if err := (contract.Wait{Asks: []contract.Ask{got}}).Check(); err != nil {
				t.Errorf("nobody believes it: %v", err)
			}
		})
	}
}

// TestAWordIsUsedUpByThePermit has the word stand beside the approvals.
func TestAWordIsUsedUpByThePermit(t *testing.T) {
	t.Parallel()
	word := delivered(v1alpha1.ApprovalRetry, 1, 1, "erin", "")
	word.Type = v1alpha1.ApprovalIndeterminate
	p := gate.Proposal{Turn: 3, Index: 1, Tool: "pay", Arguments: args}
	asks := rules(rule("money", v1alpha1.PolicyRequireApproval, v1alpha1.PolicyApproval{Seats: 1}))
	approved := []contract.Delivery{delivered(v1alpha1.ApprovalApproved, 1, 1, "alice", ""), word}
	got := look(t, opened(t).Judge(p, gate.Circumstances{Left: 1, Rules: asks, Inbox: approved, Again: &word}))
	if diff := cmp.Diff([]types.UID{"req-alice", "req-erin"}, got.Approvals); diff != "" || !cmp.Equal(got.By, []string{"alice", "erin"}) {
		t.Errorf("%s by %v", diff, got.By)
	}
	// It is no approval itself.
	if got := look(t, opened(t).Judge(p, gate.Circumstances{Left: 1, Rules: asks, Inbox: []contract.Delivery{word}, Again: &word})); got.Verdict != "wanted" {
		t.Errorf("%+v", got)
	}
}

// TestProbeIsJudged is what lets a question through, and what does not.
func TestProbeIsJudged(t *testing.T) {
	t.Parallel()
	find := v1alpha1.CompiledProbe{Tool: "find", Digest: digest, Arguments: `{'key': key, 'of': args.amount}`, Happened: `answer.found`, TimeoutSeconds: 7, MaxResultBytes: 512}
	for name, tc := range map[string]struct {
		change    func(*v1alpha1.CompiledProbe)
		arguments string
		rules     *policy.Rules
		why       string
	}{
		"a question that nothing stands against": {nil, args, nil, ""},
		"of a tool without a probe":              {func(p *v1alpha1.CompiledProbe) { *p = v1alpha1.CompiledProbe{} }, args, nil, ""},
		"whose expressions do not compile":       {func(p *v1alpha1.CompiledProbe) { p.Happened = "nope" }, args, nil, "its expressions cannot be used"},
		"whose arguments cannot be made":         {func(p *v1alpha1.CompiledProbe) { p.Arguments = "{'x': args.missing}" }, args, nil, "its expression arguments fails, as when it looks at something that is not there"},
		"about a call that cannot be read":       {nil, `{`, nil, "the arguments of the call cannot be read"},
		"that the policy denies":                 {nil, args, rules(rule("no", v1alpha1.PolicyDeny, v1alpha1.PolicyApproval{})), "the policy does not let it be asked"},
		"that the policy wants approved":         {nil, args, rules(rule("ask", v1alpha1.PolicyRequireApproval, v1alpha1.PolicyApproval{})), "the policy does not let it be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, probe := snapshot(t), find
			if tc.change != nil {
				tc.change(&probe)
			}
			s.Agent.Tools[3].Probe = probe
			g, err := gate.New(s)
			if err != nil {
				t.Fatal(err)
			}
			permit, why := g.Probe(gate.Proposal{Turn: 3, Index: 1, Tool: "pay", Arguments: tc.arguments}, gate.Circumstances{Rules: tc.rules})
			if why != tc.why || permit.Valid() != (tc.why == "" && probe.Tool != "") {
				t.Fatalf("permitted: %t, %q", permit.Valid(), why)
			}
			if !permit.Valid() {
				return
			}
			call, ok := g.Judge(gate.Proposal{Turn: 3, Index: 1, Tool: "pay", Arguments: args}, gate.Circumstances{
				Left: 1, Rules: rules(rule("ok", v1alpha1.PolicyAllow, v1alpha1.PolicyApproval{})),
			}).(gate.Granted)
			if !ok {
				t.Fatal("the call is not granted")
			}
			if got, want := string(permit.Arguments()), fmt.Sprintf(`{"key":%q,"of":12.5}`, call.Permit.Key()); got != want {
				t.Errorf("asks %s, want %s", got, want)
			}
			asked := permit.Tool()
			if asked.Tool != "find" || asked.Server != "payments" || asked.Effect != v1alpha1.EffectRead || asked.TimeoutSeconds != 7 || permit.Key() == call.Permit.Key() || permit.Key() == "" {
				t.Errorf("asks %+v with the key %s", asked, permit.Key())
			}
		})
	}
}
