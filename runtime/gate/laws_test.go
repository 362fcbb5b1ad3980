package gate_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// proposals are calls of every tool, and of one that there is not, with arguments of every kind.
func proposals(yield func(p gate.Proposal, valid bool) bool) {
	for _, tool := range []string{"look", "pay", "quiet", "guarded", "nope", "teleport", ""} {
		for text, valid := range map[string]bool{args: true, canon: true, `{"amount":12.51}`: true, `{"amount":"x"}`: false, `{}`: false, `[]`: false, `{"amount":1`: false, "": false} {
			for _, cut := range []bool{false, true} {
				if !yield(gate.Proposal{Turn: 3, Index: 1, Tool: tool, Arguments: text, Cut: cut}, valid && !cut) {
					return
				}
			}
		}
	}
}

// circumstances are limits, policies and inboxes of every kind.
func circumstances(yield func(gate.Circumstances) bool) {
	var inboxes [][]contract.Delivery
	deliveries := []contract.Delivery{}
	for _, phase := range []v1alpha1.ApprovalPhase{v1alpha1.ApprovalApproved, v1alpha1.ApprovalDenied, v1alpha1.ApprovalExpired} {
		deliveries = append(deliveries, delivered(phase, 1, 1, "alice", ""), delivered(phase, 1, 2, "alice", ""), delivered(phase, 2, 2, "bob", ""))
	}
	other := delivered(v1alpha1.ApprovalApproved, 1, 1, "alice", "")
	other.Index = 2
	deliveries = append(deliveries, other)
	inboxes = append(inboxes, nil)
	for _, a := range deliveries {
		inboxes = append(inboxes, []contract.Delivery{a})
		for _, b := range deliveries {
			inboxes = append(inboxes, []contract.Delivery{a, b})
		}
	}
	for _, left := range []int{-1, 0, 1} {
		for _, r := range []*policy.Rules{
			nil,
			rules(rule("ok", v1alpha1.PolicyAllow, v1alpha1.PolicyApproval{})),
			rules(rule("no", v1alpha1.PolicyDeny, v1alpha1.PolicyApproval{})),
			rules(rule("two", v1alpha1.PolicyRequireApproval, v1alpha1.PolicyApproval{Seats: 2})),
		} {
			for _, inbox := range inboxes {
				for _, doubtful := range []map[string]bool{nil, {"payments/refund": true}} {
					if !yield(gate.Circumstances{Left: left, Rules: r, PolicyVersion: 1, Inbox: inbox, Doubtful: doubtful}) {
						return
					}
				}
			}
		}
	}
}

// TestLaws goes through every proposal in all circumstances.
func TestLaws(t *testing.T) {
	t.Parallel()
	g, s := opened(t), snapshot(t)
	n, granted := 0, 0
	for p, valid := range proposals {
		for c := range circumstances {
			n++
			v := g.Judge(p, c)
			switch v := v.(type) {
			case gate.Granted:
				granted++
				grantedLawfully(t, s, p, valid, c, v.Permit)
			case gate.Wanted:
				wantedLawfully(t, p, valid, c, v)
			case gate.Refused:
				if v.Tool == "" || v.Code == "" || !bytes.Contains([]byte(v.Text), []byte("Nothing was called.")) {
					t.Errorf("%+v in %+v: %+v", p, c, v)
				}
			case gate.Exhausted:
				if c.Left > 0 {
					t.Errorf("%+v in %+v is exhausted", p, c)
				}
			case gate.Unusable:
				t.Errorf("%+v: %+v", p, v)
			case gate.Unknown:
				if g.Offers(p.Tool) {
					t.Errorf("%+v is unknown", p)
				}
			}
			if c.Left <= 0 || !g.Offers(p.Tool) {
				continue
			}
			if again := g.Judge(p, c); !cmp.Equal(look(t, v), look(t, again)) {
				t.Errorf("%+v in %+v: %+v, then %+v", p, c, v, again)
			}
		}
	}
	if granted == 0 {
		t.Error("nothing is ever granted")
	}
	t.Logf("%d judgements, %d granted", n, granted)
}

// decision is what the rules say of a call, decided apart from the gate.
func decision(t *testing.T, s contract.Snapshot, p gate.Proposal, c gate.Circumstances) (v1alpha1.CompiledTool, policy.Decision) {
	t.Helper()
	i := slices.IndexFunc(s.Agent.Tools, func(tool v1alpha1.CompiledTool) bool { return tool.Name == p.Tool })
	if i < 0 {
		t.Fatalf("%+v is of a tool that there is not", p)
	}
	tool := s.Agent.Tools[i]
	call := policy.Call{Tool: tool.Server + "/" + tool.Tool, Effect: tool.Effect, Definition: "triage", Principal: s.Principal}
	if err := json.Unmarshal([]byte(p.Arguments), &call.Arguments); err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	return tool, c.Rules.Decide(call)
}

func grantedLawfully(t *testing.T, s contract.Snapshot, p gate.Proposal, valid bool, c gate.Circumstances, permit gate.Permit) {
	t.Helper()
	tool, d := decision(t, s, p, c)
	canonical, err := contract.Canonical([]byte(p.Arguments))
	if err != nil || !bytes.Equal(canonical, permit.Arguments()) || permit.Digest() != contract.Digest(canonical) || permit.Tool().Name != tool.Name {
		t.Errorf("%+v is granted as %+v", p, look(t, gate.Granted{Permit: permit}))
	}
	if !valid || c.Left <= 0 || !slices.Contains(s.Grant, tool.Name) || d.Action == v1alpha1.PolicyDeny {
		t.Errorf("%+v in %+v is granted, and the rules say %+v", p, c, d)
	}
	doubtful := tool.Effect != v1alpha1.EffectRead && c.Doubtful[tool.Server+"/"+tool.Tool]
	if d.Action == v1alpha1.PolicyAllow && tool.Approval != v1alpha1.ToolApprovalRequired && !doubtful {
		return
	}
	seats := int32(0)
	for _, answer := range c.Inbox {
		if answer.Phase != v1alpha1.ApprovalApproved && answer.Turn == p.Turn && answer.Index == p.Index && answer.Digest == permit.Digest() {
			t.Errorf("%+v in %+v is granted although it was not approved by all", p, c)
		}
		if answer.Turn == p.Turn && answer.Index == p.Index {
			seats = max(seats, answer.Seats)
		}
	}
	if seats == 0 {
		t.Errorf("%+v in %+v is granted although nobody was asked", p, c)
	}
	for seat := int32(1); seat <= seats; seat++ {
		if !slices.ContainsFunc(c.Inbox, func(d contract.Delivery) bool {
			return d.Phase == v1alpha1.ApprovalApproved && d.Seat == seat && d.Turn == p.Turn && d.Index == p.Index && d.Digest == permit.Digest() &&
				slices.Contains(permit.By(), d.By) && slices.Contains(permit.Approvals(), d.Request)
		}) {
			t.Errorf("%+v in %+v is granted without seat %d", p, c, seat)
		}
	}
}

// wantedLawfully: what is asked can be answered, and the answers that it wants let the call through.
func wantedLawfully(t *testing.T, p gate.Proposal, valid bool, c gate.Circumstances, w gate.Wanted) {
	t.Helper()
	a := w.Ask
	if !valid || c.Left <= 0 || len(w.Open) == 0 || a.Seats < 1 || a.Pool == "" || a.ExpiresSeconds < 1 || a.Turn != p.Turn || a.Index != p.Index ||
		len(a.Arguments) > contract.MaxShownArguments || (a.Arguments != "" && contract.Digest([]byte(a.Arguments)) != a.Digest) {
		t.Errorf("%+v in %+v wants %+v", p, c, w)
	}
	if (contract.Wait{Asks: []contract.Ask{a}}).Over(c.Inbox) {
		t.Errorf("%+v in %+v would wait for what was answered", p, c)
	}
	for _, seat := range w.Open {
		d := delivered(v1alpha1.ApprovalApproved, seat, a.Seats, "carol", "")
		d.Digest = a.Digest
		c.Inbox = append(slices.Clone(c.Inbox), d)
	}
	if _, ok := opened(t).Judge(p, c).(gate.Granted); !ok {
		t.Errorf("%+v in %+v is not granted after all seats of %+v approved", p, c, w)
	}
}

// FuzzJudge proposes anything: nothing panics, and only what is valid passes.
func FuzzJudge(f *testing.F) {
	f.Add("pay", args, false, 1, "alice", "no", int32(1), int32(2), uint8(0))
	f.Add("look", `{"amount":1e400,"note":"\ud800"}`, false, 1, "", "", int32(0), int32(0), uint8(1))
	f.Add("guarded", `{"amount":[{"a":[1,{}]}]}`, true, 0, "a\nb", "\xff", int32(-1), int32(3), uint8(2))
	g := opened(f)
	known := []*policy.Rules{nil, rules(rule("ok", v1alpha1.PolicyAllow, v1alpha1.PolicyApproval{})), rules(rule("no", v1alpha1.PolicyDeny, v1alpha1.PolicyApproval{}))}
	phases := []v1alpha1.ApprovalPhase{v1alpha1.ApprovalApproved, v1alpha1.ApprovalDenied, v1alpha1.ApprovalExpired, ""}
	f.Fuzz(func(t *testing.T, tool, text string, cut bool, left int, by, reason string, seat, seats int32, pick uint8) {
		if seats > 100 {
			return
		}
		p := gate.Proposal{Turn: 3, Index: 1, Tool: tool, Arguments: text, Cut: cut}
		d := delivered(phases[int(pick)%len(phases)], seat, seats, by, reason)
		if body, err := contract.Canonical([]byte(text)); err == nil {
			d.Digest = contract.Digest(body)
		}
		v := g.Judge(p, gate.Circumstances{Left: left, Rules: known[int(pick)%len(known)], Inbox: []contract.Delivery{d}})
		switch v := v.(type) {
		case gate.Granted:
			if cut || left <= 0 || !json.Valid([]byte(text)) || !v.Permit.Valid() {
				t.Errorf("%+v is granted", p)
			}
		case gate.Refused:
			if len(v.Text) > 1<<10 || bytes.ContainsAny([]byte(v.Text), "\n\x00") {
				t.Errorf("the model reads %q", v.Text)
			}
		default: // says nothing and calls nothing
		}
	})
}
