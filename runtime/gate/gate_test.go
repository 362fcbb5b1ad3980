package gate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

const form = `{"type":"object","properties":{"amount":{"type":"number","maximum":9007199254740992},"note":{"type":"string"}},"required":["amount"],"additionalProperties":false}`

// snapshot is a run of dana's with four tools: a read, a send, a send that shows only digests, and a read that always needs an
// approval; and a fifth that is not granted.
func snapshot(t testing.TB) contract.Snapshot {
	t.Helper()
	s := contract.Snapshot{
		Run: contract.Identity{UID: "run-uid"}, Revision: "triage-6d5f8c00", Definition: "triage",
		Principal: v1alpha1.Principal{User: "dana", Groups: []string{"support"}},
		Grant:     []string{"look", "pay", "quiet", "guarded"},
	}
	for _, tool := range []v1alpha1.CompiledTool{
		{Name: "guarded", Server: "crm", Tool: "secrets", Effect: v1alpha1.EffectRead, Approval: v1alpha1.ToolApprovalRequired},
		{Name: "look", Server: "crm", Tool: "get", Effect: v1alpha1.EffectRead},
		{Name: "nope", Server: "crm", Tool: "drop", Effect: v1alpha1.EffectWrite},
		{Name: "pay", Server: "payments", Tool: "refund", Effect: v1alpha1.EffectSend, Show: v1alpha1.ShowArguments},
		{Name: "quiet", Server: "payments", Tool: "quiet", Effect: v1alpha1.EffectSend, Show: v1alpha1.ShowDigest},
	} {
		c := contract.ToolContract{Name: tool.Tool, Description: "does " + tool.Tool, Schema: json.RawMessage(form)}
		_, digest, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		tool.Digest, tool.TimeoutSeconds = digest, 60
		s.Agent.Tools, s.Tools = append(s.Agent.Tools, tool), append(s.Tools, c)
	}
	return s
}

func opened(t testing.TB) *gate.Gate {
	t.Helper()
	g, err := gate.New(snapshot(t))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const (
	args  = `{ "amount": 12.50 }`
	canon = `{"amount":12.50}`
)

var digest = contract.Digest([]byte(canon))

func rules(list ...v1alpha1.PolicyRule) *policy.Rules {
	return policy.Compile(contract.PolicySet{Sources: []contract.PolicySource{{Namespace: "support", Name: "default", Rules: list}}})
}

func rule(name string, action v1alpha1.PolicyAction, a v1alpha1.PolicyApproval) v1alpha1.PolicyRule {
	return v1alpha1.PolicyRule{Name: name, Action: action, Approval: a}
}

func reference(name string) v1alpha1.ApprovalPolicyReference {
	return v1alpha1.ApprovalPolicyReference{Namespace: "support", Name: "default", Rule: name}
}

func delivered(phase v1alpha1.ApprovalPhase, seat, seats int32, by, reason string) contract.Delivery {
	return contract.Delivery{Seq: int64(seat), Request: types.UID("req-" + by), Turn: 3, Index: 1, Digest: digest, Seat: seat, Seats: seats, Phase: phase, By: by, Reason: reason}
}

// seen is what a verdict says, with a permit taken apart.
type seen struct {
	Verdict   string
	Refused   gate.Refused
	Ask       contract.Ask
	Open      []int32
	Rule      string
	Arguments string
	Approvals []types.UID
	By        []string
}

func look(t testing.TB, v gate.Verdict) seen {
	t.Helper()
	switch v := v.(type) {
	case gate.Unknown:
		return seen{Verdict: "unknown " + v.Tool}
	case gate.Unusable:
		return seen{Verdict: "unusable " + v.Message}
	case gate.Exhausted:
		return seen{Verdict: "exhausted"}
	case gate.Refused:
		return seen{Verdict: "refused", Refused: v}
	case gate.Wanted:
		return seen{Verdict: "wanted", Ask: v.Ask, Open: v.Open}
	case gate.Granted:
		p := v.Permit
		return seen{Verdict: "granted", Rule: p.Rule(), Arguments: string(p.Arguments()), Approvals: p.Approvals(), By: p.By()}
	default:
		t.Fatalf("no verdict: %#v", v)
		return seen{}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	refused := func(tool string, effect v1alpha1.Effect, digest, code, text string) seen {
		return seen{Verdict: "refused", Refused: gate.Refused{Tool: tool, Effect: effect, Digest: digest, Code: code, Text: text}}
	}
	badArguments := func(digest, why string) seen {
		return refused("payments/refund", v1alpha1.EffectSend, digest, gate.RefusedArguments,
			"The arguments of the call of pay cannot be used: "+why+". Nothing was called. Correct them and propose the call again.")
	}
	ask := contract.Ask{
		Turn: 3, Index: 1, Tool: "payments/refund", Effect: v1alpha1.EffectSend, Arguments: canon, Digest: digest,
		Pool: "default", Seats: 1, ExpiresSeconds: 86400,
	}
	with := func(change func(*contract.Ask)) contract.Ask { a := ask; change(&a); return a }
	allow := rules(rule("ok", v1alpha1.PolicyAllow, v1alpha1.PolicyApproval{}))
	deny := rules(rule("no", v1alpha1.PolicyDeny, v1alpha1.PolicyApproval{}))
	two := rules(rule("money", v1alpha1.PolicyRequireApproval, v1alpha1.PolicyApproval{Pool: "finance", Seats: 2, ExpiresSeconds: 60}))
	denied := delivered(v1alpha1.ApprovalDenied, 1, 1, "alice", "too much,\nask the customer first.")
	long := `{"amount":1,"note":"` + strings.Repeat("x", contract.MaxShownArguments) + `"}`

	tests := map[string]struct {
		tool, args string
		cut        bool
		c          gate.Circumstances
		want       seen
	}{
		// allowlist
		"a tool that the agent does not have":             {"teleport", args, false, gate.Circumstances{Left: 5, Rules: allow}, seen{Verdict: "unknown teleport"}},
		"its name on the server is not its name":          {"payments/refund", args, false, gate.Circumstances{Left: 5, Rules: allow}, seen{Verdict: "unknown payments/refund"}},
		"unknown comes before everything else":            {"teleport", `{`, true, gate.Circumstances{Rules: deny}, seen{Verdict: "unknown teleport"}},
		"a name without an end is cut":                    {strings.Repeat("x", 999), args, false, gate.Circumstances{}, seen{Verdict: "unknown " + strings.Repeat("x", 128)}},
		"a tool that is not granted":                      {"nope", args, false, gate.Circumstances{Left: 5, Rules: allow}, refused("crm/drop", v1alpha1.EffectWrite, "", gate.RefusedGrant, "You may not use the tool nope in this run: it is not granted to whoever the run acts for. Nothing was called. Go on without it, or say what you could not do.")},
		"the grant comes before the arguments":            {"nope", `{`, true, gate.Circumstances{}, refused("crm/drop", v1alpha1.EffectWrite, "", gate.RefusedGrant, "You may not use the tool nope in this run: it is not granted to whoever the run acts for. Nothing was called. Go on without it, or say what you could not do.")},
		"arguments that are a beginning":                  {"pay", `{"amount": 100`, false, gate.Circumstances{Left: 5, Rules: allow}, badArguments("", "they are not a usable JSON value: EOF")},
		"arguments that were cut, though they look whole": {"pay", args, true, gate.Circumstances{Left: 5, Rules: allow}, badArguments("", "your answer was cut at its length limit, so they may be only their beginning; keep them shorter")},
		"no arguments at all":                             {"pay", "", false, gate.Circumstances{Left: 5, Rules: allow}, badArguments("", "they are not a usable JSON value: EOF")},
		"a key twice":                                     {"pay", `{"amount":1,"amount":2}`, false, gate.Circumstances{Left: 5, Rules: allow}, badArguments("", `they are not a usable JSON value: the key "amount" stands twice in one object`)},
		"a list":                                          {"pay", `[1]`, false, gate.Circumstances{Left: 5, Rules: allow}, badArguments(contract.Digest([]byte("[1]")), "they must be a JSON object")},
		"null":                                            {"pay", `null`, false, gate.Circumstances{Left: 5, Rules: allow}, badArguments(contract.Digest([]byte("null")), "they must be a JSON object")},
		"a field of the wrong type":                       {"pay", `{"amount":"12"}`, false, gate.Circumstances{Left: 5, Rules: allow}, badArguments(contract.Digest([]byte(`{"amount":"12"}`)), `the field "amount" is a string and must be a number`)},
		"a number that a double would round":              {"pay", `{"amount":9007199254740993}`, false, gate.Circumstances{Left: 5, Rules: allow}, badArguments(contract.Digest([]byte(`{"amount":9007199254740993}`)), `the field "amount" must be at most 9007199254740992`)},
		"the schema comes before the limits":              {"pay", `{}`, false, gate.Circumstances{}, badArguments(contract.Digest([]byte(`{}`)), `the field "amount" is missing`)},
		"no calls are left":                               {"pay", args, false, gate.Circumstances{Left: 0, Rules: deny}, seen{Verdict: "exhausted"}},
		"a policy denies it":                              {"pay", args, false, gate.Circumstances{Left: 1, Rules: deny}, refused("payments/refund", v1alpha1.EffectSend, digest, gate.RefusedPolicy, "A policy denies this call of pay (rule support/default/no). Nothing was called. Do not propose it again as it is: go on without it, or say what you could not do.")},
		"a policy denies what was approved":               {"pay", args, false, gate.Circumstances{Left: 1, Rules: deny, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalApproved, 1, 1, "alice", "")}}, refused("payments/refund", v1alpha1.EffectSend, digest, gate.RefusedPolicy, "A policy denies this call of pay (rule support/default/no). Nothing was called. Do not propose it again as it is: go on without it, or say what you could not do.")},
		"a policy allows it":                              {"pay", args, false, gate.Circumstances{Left: 1, Rules: allow}, seen{Verdict: "granted", Rule: "support/default/ok", Arguments: canon}},
		"a read needs nothing":                            {"look", args, false, gate.Circumstances{Left: 1}, seen{Verdict: "granted", Arguments: canon}},
		"a send needs an approval":                        {"pay", args, false, gate.Circumstances{Left: 1}, seen{Verdict: "wanted", Ask: ask, Open: []int32{1}}},
		"a rule asks two people": {"pay", args, false, gate.Circumstances{Left: 1, Rules: two}, seen{Verdict: "wanted", Open: []int32{1, 2}, Ask: with(func(a *contract.Ask) {
			a.Policy, a.Pool, a.Seats, a.ExpiresSeconds = reference("money"), "finance", 2, 60
		})}},
		"the definition asks, though a rule allows": {"guarded", args, false, gate.Circumstances{Left: 1, Rules: allow}, seen{Verdict: "wanted", Open: []int32{1}, Ask: with(func(a *contract.Ask) { a.Tool, a.Effect = "crm/secrets", v1alpha1.EffectRead })}},
		"only the digest is shown":                  {"quiet", args, false, gate.Circumstances{Left: 1}, seen{Verdict: "wanted", Open: []int32{1}, Ask: with(func(a *contract.Ask) { a.Tool, a.Arguments = "payments/quiet", "" })}},
		"too much to be shown":                      {"pay", long, false, gate.Circumstances{Left: 1}, refused("payments/refund", v1alpha1.EffectSend, contract.Digest([]byte(long)), gate.RefusedTooLarge, "The call of pay needs an approval, and its arguments have 8214 bytes: people can be shown at most 8192. Nothing was called. Propose it with shorter arguments, or in several smaller calls.")},
		"nobody has to be shown so much":            {"pay", long, false, gate.Circumstances{Left: 1, Rules: allow}, seen{Verdict: "granted", Rule: "support/default/ok", Arguments: long}},
		"approved":                                  {"pay", args, false, gate.Circumstances{Left: 1, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalApproved, 1, 1, "alice", "")}}, seen{Verdict: "granted", Arguments: canon, Approvals: []types.UID{"req-alice"}, By: []string{"alice"}}},
		"approved for a rule":                       {"pay", args, false, gate.Circumstances{Left: 1, Rules: two, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalApproved, 1, 2, "alice", ""), delivered(v1alpha1.ApprovalApproved, 2, 2, "bob", "")}}, seen{Verdict: "granted", Rule: "support/default/money", Arguments: canon, Approvals: []types.UID{"req-alice", "req-bob"}, By: []string{"alice", "bob"}}},
		"one of two has approved": {"pay", args, false, gate.Circumstances{Left: 1, Rules: two, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalApproved, 2, 2, "bob", "")}}, seen{Verdict: "wanted", Open: []int32{1}, Ask: with(func(a *contract.Ask) {
			a.Policy, a.Pool, a.Seats, a.ExpiresSeconds = reference("money"), "finance", 2, 60
		})}},
		"approved, and the policy asks more people now": {"pay", args, false, gate.Circumstances{Left: 1, Rules: two, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalApproved, 1, 1, "alice", "")}}, seen{Verdict: "granted", Rule: "support/default/money", Arguments: canon, Approvals: []types.UID{"req-alice"}, By: []string{"alice"}}},
		"an approval that is no longer needed":          {"pay", args, false, gate.Circumstances{Left: 1, Rules: allow, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalApproved, 1, 1, "alice", "")}}, seen{Verdict: "granted", Rule: "support/default/ok", Arguments: canon}},
		"other arguments were approved": {"pay", `{"amount":12.51}`, false, gate.Circumstances{Left: 1, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalApproved, 1, 1, "alice", "")}}, seen{Verdict: "wanted", Open: []int32{1}, Ask: with(func(a *contract.Ask) {
			a.Arguments, a.Digest = `{"amount":12.51}`, contract.Digest([]byte(`{"amount":12.51}`))
		})}},
		"denied, with a reason":                        {"pay", args, false, gate.Circumstances{Left: 1, Inbox: []contract.Delivery{denied}}, refused("payments/refund", v1alpha1.EffectSend, digest, gate.RefusedDenied, "The call of pay was denied by alice: too much, ask the customer first. Nothing was called. Do not propose it again as it is: heed the reason, go on without it, or say what you could not do.")},
		"denied, without a reason":                     {"pay", args, false, gate.Circumstances{Left: 1, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalDenied, 1, 1, "alice", " ")}}, refused("payments/refund", v1alpha1.EffectSend, digest, gate.RefusedDenied, "The call of pay was denied by alice, who gave no reason. Nothing was called. Do not propose it again as it is: go on without it, or say what you could not do.")},
		"denied, and the policy would allow it now":    {"pay", args, false, gate.Circumstances{Left: 1, Rules: allow, Inbox: []contract.Delivery{denied}}, refused("payments/refund", v1alpha1.EffectSend, digest, gate.RefusedDenied, "The call of pay was denied by alice: too much, ask the customer first. Nothing was called. Do not propose it again as it is: heed the reason, go on without it, or say what you could not do.")},
		"nobody decided":                               {"pay", args, false, gate.Circumstances{Left: 1, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalExpired, 1, 1, "", "")}}, refused("payments/refund", v1alpha1.EffectSend, digest, gate.RefusedExpired, "The call of pay needs an approval, and nobody decided in time. Nothing was called. Go on without it, or say what you could not do.")},
		"nobody decided, and the policy allows it now": {"pay", args, false, gate.Circumstances{Left: 1, Rules: allow, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalExpired, 1, 1, "", "")}}, seen{Verdict: "granted", Rule: "support/default/ok", Arguments: canon}},
	}
	g := opened(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := look(t, g.Judge(gate.Proposal{Turn: 3, Index: 1, Tool: tc.tool, Arguments: tc.args, Cut: tc.cut}, tc.c))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if len(got.Refused.Text) > 1<<10 {
				t.Errorf("the model reads %d bytes", len(got.Refused.Text))
			}
		})
	}
}

// TestTheModelReadsLittle refuses what has no end.
func TestTheModelReadsLittle(t *testing.T) {
	t.Parallel()
	g := opened(t)
	long := strings.Repeat("日\n", 4000)
	text, _ := json.Marshal(map[string]any{long: 1})
	for name, tc := range map[string]struct {
		args string
		c    gate.Circumstances
	}{
		"a field":  {string(text), gate.Circumstances{Left: 1}},
		"a denial": {args, gate.Circumstances{Left: 1, Inbox: []contract.Delivery{delivered(v1alpha1.ApprovalDenied, 1, 1, long, long)}}},
	} {
		r, ok := g.Judge(gate.Proposal{Turn: 3, Index: 1, Tool: "pay", Arguments: tc.args}, tc.c).(gate.Refused)
		if !ok || len(r.Text) > 1<<10 || strings.Contains(r.Text, "\n") || !strings.Contains(r.Text, "Nothing was called.") {
			t.Errorf("%s: %d bytes: %q", name, len(r.Text), r.Text)
		}
	}
}

func TestPermit(t *testing.T) {
	t.Parallel()
	s := snapshot(t)
	permit := func(turn, index int) gate.Permit {
		v, ok := opened(t).Judge(gate.Proposal{Turn: turn, Index: index, Tool: "look", Arguments: args}, gate.Circumstances{Left: 1, PolicyVersion: 7}).(gate.Granted)
		if !ok {
			t.Fatal("not granted")
		}
		return v.Permit
	}
	p := permit(3, 1)
	if !p.Valid() || p.Turn() != 3 || p.Index() != 1 || p.Digest() != digest || p.PolicyVersion() != 7 {
		t.Errorf("%+v", p)
	}
	if diff := cmp.Diff(s.Agent.Tools[1], p.Tool()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(s.Tools[1], p.Contract()); diff != "" {
		t.Error(diff)
	}
	p.Arguments()[0] = 'x'
	if string(p.Arguments()) != canon {
		t.Error("arguments can be changed from outside")
	}
	keys := map[string]bool{}
	for _, at := range [][2]int{{3, 1}, {3, 2}, {31, 1}, {0, 0}, {1, 31}} {
		k := permit(at[0], at[1]).Key()
		if k != permit(at[0], at[1]).Key() || keys[k] || len(k) != 32 || strings.Trim(k, "0123456789abcdef") != "" {
			t.Errorf("the key of call %v is %q", at, k)
		}
		keys[k] = true
	}
	if (gate.Permit{}).Valid() {
		t.Error("the zero permit lets a call through")
	}
	const ever = "837eac66226a3b173e9402af0110990f" // a key that changed with a release would let a call be made twice
	if k := p.Key(); k != ever {
		t.Errorf("the key of call 3.1 is %s and was always %s", k, ever)
	}
}

func TestOffers(t *testing.T) {
	t.Parallel()
	g := opened(t)
	if !g.Offers("pay") || !g.Offers("nope") || g.Offers("payments/refund") || g.Offers("") {
		t.Error("a gate offers what the agent has, granted or not, and nothing else")
	}
}

func TestSnapshotsThatAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*contract.Snapshot)
		want   string
	}{
		"a contract is missing": {func(s *contract.Snapshot) { s.Tools = s.Tools[:4] }, "the snapshot has 5 tools and the contracts of 4"},
		"a description changed": {func(s *contract.Snapshot) { s.Tools[3].Description += "!" }, "the contract of tool pay has the digest sha256:"},
		"a contract of another": {func(s *contract.Snapshot) { s.Tools[3], s.Tools[4] = s.Tools[4], s.Tools[3] }, `the contract of tool pay is that of "quiet" and must be that of "refund"`},
		"no schema":             {func(s *contract.Snapshot) { s.Tools[3].Schema = nil }, `the contract of tool pay: the schema of tool "refund": not a usable JSON value: EOF`},
		"two tools of one name": {func(s *contract.Snapshot) { s.Agent.Tools[1].Name = "pay" }, "two tools are named pay"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := snapshot(t)
			tc.change(&s)
			if _, err := gate.New(s); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// TestASchemaThatCannotBeUsed is found when the tool is first called, and then ends the run.
func TestASchemaThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	s := snapshot(t)
	s.Tools[3].Schema = json.RawMessage(`{"$ref":"file:///etc/passwd"}`)
	_, s.Agent.Tools[3].Digest, _ = s.Tools[3].Encode()
	g, err := gate.New(s)
	if err != nil {
		t.Fatal(err)
	}
	want := gate.Unusable{Message: `the schema of tool pay: "file:///etc/passwd" is not in the schema: references may only point into the schema itself`}
	if diff := cmp.Diff(want, g.Judge(gate.Proposal{Tool: "pay", Arguments: "{}"}, gate.Circumstances{Left: 1})); diff != "" {
		t.Error(diff)
	}
}

// TestSpellingOfASchemaDoesNotMatter: the digest is that of the canonical form.
func TestSpellingOfASchemaDoesNotMatter(t *testing.T) {
	t.Parallel()
	s := snapshot(t)
	for i := range s.Tools {
		s.Tools[i].Schema = json.RawMessage(" " + strings.ReplaceAll(form, ":", " : "))
	}
	if _, err := gate.New(s); err != nil {
		t.Error(err)
	}
}

func TestAnAgentWithoutToolsOrGrant(t *testing.T) {
	t.Parallel()
	g, err := gate.New(contract.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(gate.Unknown{Tool: "pay"}, g.Judge(gate.Proposal{Tool: "pay"}, gate.Circumstances{})); diff != "" {
		t.Error(diff)
	}
	s := snapshot(t)
	s.Grant = nil
	if g, err = gate.New(s); err != nil {
		t.Fatal(err)
	}
	if r, ok := g.Judge(gate.Proposal{Tool: "look", Arguments: args}, gate.Circumstances{Left: 1}).(gate.Refused); !ok || r.Code != gate.RefusedGrant {
		t.Errorf("without a grant: %+v", r)
	}
}

// TestWhatIsOutOfTheOrdinary is told to whoever is asked.
func TestWhatIsOutOfTheOrdinary(t *testing.T) {
	t.Parallel()
	broken := rule("small", v1alpha1.PolicyAllow, v1alpha1.PolicyApproval{})
	broken.Match.Expression = "args.nothing <= 100"
	for name, tc := range map[string]struct {
		given gate.Circumstances
		words []string
	}{
		"a question as usual":                    {gate.Circumstances{Left: 1}, nil},
		"a rule that could not be evaluated":     {gate.Circumstances{Left: 1, Rules: rules(broken)}, []string{"small", "nothing"}},
		"an earlier call that nobody knows of":   {gate.Circumstances{Left: 1, Doubtful: map[string]bool{"payments/refund": true}}, []string{"Nobody knows"}},
		"an earlier call of another tool":        {gate.Circumstances{Left: 1, Doubtful: map[string]bool{"payments/other": true}}, nil},
		"both are told, the earlier call before": {gate.Circumstances{Left: 1, Rules: rules(broken), Doubtful: map[string]bool{"payments/refund": true}}, []string{"Nobody knows", "nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, asked := opened(t).Judge(gate.Proposal{Tool: "pay", Arguments: args}, tc.given).(gate.Wanted)
			if !asked || (w.Ask.Note == "") != (len(tc.words) == 0) {
				t.Fatalf("%+v", w)
			}
			for _, word := range tc.words {
				if !strings.Contains(w.Ask.Note, word) {
					t.Errorf("the note %q does not say %q", w.Ask.Note, word)
				}
			}
		})
	}
}
