package ledgertest

import (
	"encoding/json"
	"errors"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

func aDelivery(turn, index int, phase v1alpha1.ApprovalPhase) contract.Delivery {
	return contract.Delivery{
		Request: types.UID(uuid.NewString()), Turn: turn, Index: index, Digest: contract.Digest([]byte("{}")), Seat: 1, Seats: 2, Phase: phase, By: "alice", Reason: "ok \u00e9",
	}
}

var anAsk = contract.Ask{
	Turn: 3, Tool: "payments/refund", Effect: v1alpha1.EffectSend, Arguments: `{"amount":120}`, Digest: contract.Digest([]byte(`{"amount":120}`)),
	Policy: v1alpha1.ApprovalPolicyReference{Namespace: "team", Name: "default", Rule: "money"}, Pool: "finance", Seats: 2, ExpiresSeconds: 3600,
}

func (s suite) waiting() {
	run := s.admitted()
	s.ok(s.BeginAttempt(s.Context(), run.UID, ledger.AttemptKey{}))
	want := contract.Wait{Cursor: 7, Asks: []contract.Ask{anAsk}}
	s.Yield(run, 0, contract.Outcome{Yield: contract.YieldWaiting, Wait: &want})
	s.ok(s.Deliver(s.Context(), run.UID, aDelivery(1, 0, v1alpha1.ApprovalApproved)))
	ds := []contract.Delivery{aDelivery(3, 1, v1alpha1.ApprovalApproved), aDelivery(3, 0, v1alpha1.ApprovalDenied)}
	for _, d := range ds {
		s.ok(s.Deliver(s.Context(), run.UID, d))
	}
	got := s.look(run.UID)
	if got.Outcome == nil || got.Outcome.Wait == nil || got.OutcomeAt.IsZero() || got.Waits != 1 {
		s.Fatalf("the wait does not show: %+v", got)
	}
	if diff := cmp.Diff(want, *got.Outcome.Wait); diff != "" {
		s.Error(diff)
	}
	last := int64(0)
	for i := range got.Inbox {
		if got.Inbox[i].Seq <= last {
			s.Errorf("numbers do not rise: %+v", got.Inbox)
		}
		last = got.Inbox[i].Seq
		got.Inbox[i].Seq = 0
	}
	if diff := cmp.Diff(ds, got.Inbox); diff != "" {
		s.Error(diff)
	}
}

func (s suite) deliveries() {
	run := s.admitted()
	d := aDelivery(0, 0, v1alpha1.ApprovalApproved)
	s.ok(s.Deliver(s.Context(), run.UID, d))
	other := d
	other.Phase = v1alpha1.ApprovalDenied
	s.ok(s.Deliver(s.Context(), run.UID, other))
	q, err := s.Question(s.Context(), run.UID, 0, 0, d.Request)
	if err != nil || q.Delivered == nil || q.Delivered.Phase != v1alpha1.ApprovalApproved {
		s.Errorf("%+v, %v", q, err)
	}
	if err := s.Deliver(s.Context(), types.UID(uuid.NewString()), d); !errors.Is(err, ledger.ErrUnknown) {
		s.Errorf("delivered to nobody: %v", err)
	}
}

func (s suite) questions() {
	run := s.admitted()
	d := aDelivery(0, 0, v1alpha1.ApprovalExpired)
	q, err := s.Question(s.Context(), run.UID, 0, 0, d.Request)
	if err != nil || !q.Known || q.Over || q.Settled || q.Delivered != nil || q.Now.IsZero() {
		s.Errorf("of a run that goes on: %+v, %v", q, err)
	}
	s.SettleCall(run, 0, 0)
	if q, err = s.Question(s.Context(), run.UID, 0, 0, d.Request); err != nil || !q.Settled {
		s.Errorf("of a settled call: %+v, %v", q, err)
	}
	if q, err = s.Question(s.Context(), run.UID, 0, 1, d.Request); err != nil || q.Settled {
		s.Errorf("of the call beside it: %+v, %v", q, err)
	}
	s.ok(s.Cancel(s.Context(), run.UID))
	if q, err = s.Question(s.Context(), run.UID, 0, 1, d.Request); err != nil || !q.Over {
		s.Errorf("of a cancelled run: %+v, %v", q, err)
	}
	if q, err = s.Question(s.Context(), types.UID(uuid.NewString()), 0, 0, d.Request); err != nil || q.Known || q.Now.IsZero() {
		s.Errorf("of no run: %+v, %v", q, err)
	}
	if q, err = s.Question(s.Context(), "no-uuid", 0, 0, "neither"); err != nil || q.Known {
		s.Errorf("of what was never entered: %+v, %v", q, err)
	}
}

func (s suite) policies() {
	rule := func(name string) contract.PolicySet {
		return contract.PolicySet{Sources: []contract.PolicySource{{Namespace: "team", Name: "default", Rules: []v1alpha1.PolicyRule{{Name: name, Action: v1alpha1.PolicyDeny}}}}}
	}
	for _, set := range []contract.PolicySet{{}, {}, rule("a"), rule("a"), rule("b"), rule("a")} {
		s.ok(s.Project(s.Context(), s.namespace, set))
	}
	if got := s.Versions(s.namespace); got != 4 {
		s.Errorf("%d versions", got)
	}
}

func (s suite) contracts() {
	server := types.UID(uuid.NewString())
	tools := []contract.ToolContract{
		{Name: "b", Description: "B", Schema: json.RawMessage(`{"type": "object"}`)}, {Name: "a", Schema: json.RawMessage(`{"type":"object"}`)},
	}
	if none, err := s.Contracts(s.Context(), s.namespace, server, 1); err != nil || none != nil {
		s.Errorf("%v, %v", none, err)
	}
	foreign := contract.ToolContract{Name: "c", Schema: json.RawMessage(`{"type":"object"}`)}
	s.ok(s.KeepContracts(s.Context(), s.namespace, server, 1, append([]contract.ToolContract{foreign}, tools[:1]...)))
	s.ok(s.KeepContracts(s.Context(), s.namespace, server, 1, tools))
	s.ok(s.KeepContracts(s.Context(), s.namespace, server, 1, tools))
	s.ok(s.KeepContracts(s.Context(), s.namespace, server, 2, tools[:1]))
	want := []contract.ToolContract{{Name: "a", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "b", Description: "B", Schema: json.RawMessage(`{"type":"object"}`)}}
	got, err := s.Contracts(s.Context(), s.namespace, server, 1)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		s.Error(diff, err)
	}
	_, digest, err := tools[0].Encode()
	s.ok(err)
	pin, gone := ledger.Pin{Server: server, Digest: digest}, ledger.Pin{Server: server, Digest: contract.Digest(nil)}
	found, err := s.Pinned(s.Context(), s.namespace, []ledger.Pin{pin, gone})
	if diff := cmp.Diff(map[ledger.Pin]contract.ToolContract{pin: want[1]}, found); diff != "" || err != nil {
		s.Error(diff, err)
	}
	if elsewhere, err := s.Pinned(s.Context(), types.UID(uuid.NewString()), []ledger.Pin{pin}); err != nil || len(elsewhere) != 0 {
		s.Errorf("another namespace finds %v, %v", elsewhere, err)
	}
}
