package ledgertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

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
	ds := []contract.Delivery{aDelivery(3, 1, v1alpha1.ApprovalApproved), aDelivery(3, 0, v1alpha1.ApprovalDenied), aDelivery(3, 0, v1alpha1.ApprovalRetry)}
	ds[2].Type = v1alpha1.ApprovalIndeterminate
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

// unbelieved leaves outcomes as a namespace's login can write them.
func (s suite) unbelieved() {
	asks := func(n int) (w contract.Wait) {
		for i := range n {
			a := anAsk
			a.Index = i
			w.Asks = append(w.Asks, a)
		}
		return w
	}
	with := func(change func(*contract.Ask)) contract.Wait {
		w := asks(1)
		change(&w.Asks[0])
		return w
	}
	for name, w := range map[string]contract.Wait{
		"no asks": {}, "too many asks": asks(contract.MaxAsks + 1), "seats for everybody": with(func(a *contract.Ask) { a.Seats = math.MaxInt32 }),
		"other arguments than are sent": with(func(a *contract.Ask) { a.Arguments = "{}" }), "no pool": with(func(a *contract.Ask) { a.Pool = "" }),
		"a large tool": with(func(a *contract.Ask) { a.Tool = strings.Repeat("t", 1<<19) }),
	} {
		run := s.admitted()
		s.ok(s.BeginAttempt(s.Context(), run.UID, ledger.AttemptKey{}))
		s.Yield(run, 0, contract.Outcome{Yield: contract.YieldWaiting, Message: "m", Wait: &w})
		got := s.look(run.UID)
		if o := got.Outcome; o == nil || o.Yield != contract.YieldFailed || o.Code != v1alpha1.ReasonIncompatibleSession || o.Wait != nil ||
			!strings.HasPrefix(o.Message, "a segment waits for what this version cannot ask: ") || len(o.Message) > contract.MaxMessage || got.OutcomeAt.IsZero() {
			s.Errorf("%s: %+v", name, o)
		}
	}
	run, w := s.admitted(), asks(contract.MaxAsks)
	s.ok(s.BeginAttempt(s.Context(), run.UID, ledger.AttemptKey{}))
	s.Yield(run, 0, contract.Outcome{Yield: contract.YieldWaiting, Wait: &w})
	if o := s.look(run.UID).Outcome; o == nil || o.Wait == nil || len(o.Wait.Asks) != contract.MaxAsks {
		s.Errorf("as many as can be asked: %+v", o)
	}
}

func (s suite) samePerson() {
	run, elsewhere := s.admitted(), s.admitted()
	seat := func(n int32, by string, phase v1alpha1.ApprovalPhase) contract.Delivery {
		d := aDelivery(0, 0, phase)
		d.Seat, d.By = n, by
		return d
	}
	first := seat(1, "alice", v1alpha1.ApprovalApproved)
	s.ok(s.Deliver(s.Context(), run.UID, first))
	s.ok(s.Deliver(s.Context(), run.UID, first))
	second := seat(2, "alice", v1alpha1.ApprovalApproved)
	for range 2 {
		if err := s.Deliver(s.Context(), run.UID, second); !errors.Is(err, ledger.ErrSamePerson) {
			s.Errorf("the second seat: %v", err)
		}
	}
	if q, err := s.Question(s.Context(), run.UID, 0, 0, second.Request); err != nil || q.Delivered != nil {
		s.Errorf("what was refused was delivered: %+v, %v", q, err)
	}
	index, turn, arguments := seat(2, "alice", v1alpha1.ApprovalApproved), seat(2, "alice", v1alpha1.ApprovalApproved), seat(2, "alice", v1alpha1.ApprovalApproved)
	index.Index, turn.Turn, arguments.Digest = 1, 1, contract.Digest([]byte("[]"))
	for name, d := range map[string]contract.Delivery{
		"another call": index, "another turn": turn, "other arguments": arguments, "the same seat, asked again": seat(1, "alice", v1alpha1.ApprovalApproved),
		"somebody else": seat(2, "bob", v1alpha1.ApprovalApproved), "a denial": seat(2, "alice", v1alpha1.ApprovalDenied),
	} {
		if err := s.Deliver(s.Context(), run.UID, d); err != nil {
			s.Errorf("%s: %v", name, err)
		}
	}
	s.ok(s.Deliver(s.Context(), elsewhere.UID, seat(1, "carol", v1alpha1.ApprovalDenied)))
	s.ok(s.Deliver(s.Context(), elsewhere.UID, seat(2, "carol", v1alpha1.ApprovalApproved))) // a denial is no approval

	at, errs := s.admitted(), make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = s.Deliver(s.Context(), at.UID, seat(int32(i+1), "dave", v1alpha1.ApprovalApproved)) }) //nolint:gosec // 1 or 2
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), ledger.ErrSamePerson) {
		s.Errorf("two seats at once: %v", errs)
	}
}

func (s suite) stalePolicies() {
	source := func(uid types.UID, generation int64) contract.PolicySource {
		return contract.PolicySource{Namespace: "team", Name: "default", UID: uid, Generation: generation}
	}
	set := func(sources ...contract.PolicySource) contract.PolicySet { return contract.PolicySet{Sources: sources} }
	versions := 0
	for _, step := range []struct {
		name  string
		given contract.PolicySet
		stale bool
		adds  int
	}{
		{"one that was stored without its generation", set(source("", 0)), false, 1},
		{"the first", set(source("floor", 1), source("own", 1)), false, 1},
		{"a newer one", set(source("floor", 1), source("own", 3)), false, 1},
		{"the same again", set(source("floor", 1), source("own", 3)), false, 0},
		{"an older one", set(source("floor", 1), source("own", 2)), true, 0},
		{"a newer one beside an older one", set(source("floor", 2), source("own", 2)), true, 0},
		{"both newer", set(source("floor", 10), source("own", 12)), false, 1},
		{"older, though its digits are greater", set(source("floor", 9), source("own", 12)), true, 0},
		{"one was deleted and made anew", set(source("floor", 10), source("another", 1)), false, 1},
		{"both were deleted", set(), false, 1},
	} {
		err := s.Project(s.Context(), s.namespace, step.given)
		versions += step.adds
		if errors.Is(err, ledger.ErrStale) != step.stale || err != nil && !step.stale || s.Versions(s.namespace) != versions {
			s.Errorf("%s: %v, %d versions, want %d", step.name, err, s.Versions(s.namespace), versions)
		}
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
	var many []contract.ToolContract
	for i := range contract.MaxTools + 9 {
		many = append(many, contract.ToolContract{Name: fmt.Sprintf("t%03d", i), Schema: json.RawMessage(`{}`)})
	}
	s.ok(s.KeepContracts(s.Context(), s.namespace, server, 3, many))
	if got, err := s.Contracts(s.Context(), s.namespace, server, 3); err != nil || len(got) != contract.MaxTools+1 {
		s.Errorf("of too many it reads %d, %v", len(got), err)
	}
	if elsewhere, err := s.Pinned(s.Context(), types.UID(uuid.NewString()), []ledger.Pin{pin}); err != nil || len(elsewhere) != 0 {
		s.Errorf("another namespace finds %v, %v", elsewhere, err)
	}
}
