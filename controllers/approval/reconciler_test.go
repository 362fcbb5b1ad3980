package approval

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/metrics"
	"github.com/ekiden-dev/ekiden/controllers/requeue"
	"github.com/ekiden-dev/ekiden/test/given"
)

const (
	approved = v1alpha1.VerdictApproved
	denied   = v1alpha1.VerdictDenied
)

const opened = "a: Normal AwaitingDecision pool finance decides on payments/refund by 2026-01-01T13:00:00Z"

// TestOnlyTheLedgerKnowsThatItIsTheSamePerson: the request for the other seat was removed after it was decided.
func TestOnlyTheLedgerKnowsThatItIsTheSamePerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theRun(), asks("a"))
	w.look("a")
	w.decide("a", approved, "alice", "known")
	w.refuses = ledger.ErrSamePerson
	w.look("a")
	w.want("a", v1alpha1.ApprovalWithdrawn, metav1.ConditionFalse, v1alpha1.ReasonSamePerson)
	writes := w.writes
	if w.look("a"); w.writes != writes {
		t.Errorf("%d writes after the end", w.writes-writes)
	}
	w.wantDelivered()
}

func TestADecisionIsTakenUpOnceAndToldToTheRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		verdict v1alpha1.Verdict
		phase   v1alpha1.ApprovalPhase
		reason  string
		says    string
	}{
		"approved": {approved, v1alpha1.ApprovalApproved, v1alpha1.ReasonApproved, "Normal Approved alice approved payments/refund: known"},
		"denied":   {denied, v1alpha1.ApprovalDenied, v1alpha1.ReasonDenied, "Normal Denied alice denied payments/refund: known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, theRun(), asks("a"))
			if got := w.look("a").RequeueAfter; got != time.Hour {
				t.Errorf("looks again after %s", got)
			}
			w.want("a", v1alpha1.ApprovalPending, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingDecision)
			w.decide("a", tc.verdict, "alice", "known")
			w.look("a")
			w.want("a", tc.phase, metav1.ConditionTrue, tc.reason)
			w.wantDelivered(delivery(tc.phase, "alice", "known"))
			w.wantSaid(opened, "a: "+tc.says, "triage: "+tc.says)
			if diff := cmp.Diff([]types.NamespacedName{{Namespace: namespace, Name: "triage"}}, w.woken); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
			writes, asked := w.writes, w.asked
			w.now = one.Add(time.Hour)
			if got := w.look("a"); !got.IsZero() || w.writes != writes || w.asked != asked {
				t.Errorf("after the end %d writes, %d questions to the guard, and again after %s", w.writes-writes, w.asked-asked, got.RequeueAfter)
			}
		})
	}
}

func TestAnyWriteMayFailOrLoseItsAnswer(t *testing.T) {
	t.Parallel()
	stories := map[string]struct {
		given func(w *world)
		want  func(w *world)
	}{
		"an approval": {
			func(w *world) { w.decide("a", approved, "alice", "") },
			func(w *world) {
				w.want("a", v1alpha1.ApprovalApproved, metav1.ConditionTrue, v1alpha1.ReasonApproved)
				w.wantDelivered(delivery(v1alpha1.ApprovalApproved, "alice", ""))
			},
		},
		"an expiry": {
			func(w *world) { w.now = one },
			func(w *world) {
				w.want("a", v1alpha1.ApprovalExpired, metav1.ConditionFalse, v1alpha1.ReasonExpired)
				w.wantDelivered(delivery(v1alpha1.ApprovalExpired, "", ""))
			},
		},
		"a decision that is void": {
			func(w *world) { w.decide("a", approved, "carol", ""); w.since = noon },
			func(w *world) {
				w.want("a", v1alpha1.ApprovalWithdrawn, metav1.ConditionFalse, v1alpha1.ReasonNotGuarded)
				w.wantDelivered()
			},
		},
		"a withdrawal": {
			func(w *world) { w.question.Settled = true },
			func(w *world) {
				w.want("a", v1alpha1.ApprovalWithdrawn, metav1.ConditionFalse, v1alpha1.ReasonWithdrawn)
				w.wantDelivered()
			},
		},
	}
	for name, story := range stories {
		for _, lost := range []bool{false, true} {
			for hit := 1; ; hit++ {
				w := newWorld(t, theRun(), asks("a"))
				story.given(w)
				w.hit, w.lost = hit, lost
				_, err := w.Reconcile(t.Context(), w.request("a"))
				if w.writes < hit { // there is no such write
					break
				}
				if !errors.Is(err, errKilled) {
					t.Fatalf("%s, write %d lost %t: %v", name, hit, lost, err)
				}
				// Somebody may change their mind, and the time goes on: what was recorded stands.
				if w.request("a").Status.Phase != "" {
					w.guarded, w.why, w.now = false, "it is gone", one.Add(time.Hour)
				}
				w.look("a")
				story.want(w)
				if len(w.woken) == 0 {
					t.Errorf("%s, write %d lost %t: nobody wakes the run", name, hit, lost)
				}
			}
		}
	}
}

func TestAnExpiryThatADecisionHasOvertakenIsNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theRun(), asks("a"))
	w.now = one
	w.beforePatch = func() {
		w.beforePatch = nil
		w.decide("a", denied, "alice", "")
	}
	if got := w.look("a"); got.RequeueAfter != requeue.Soon {
		t.Errorf("looks again after %s", got.RequeueAfter)
	}
	w.wantDelivered()
	w.wantSaid()
	w.look("a")
	w.want("a", v1alpha1.ApprovalExpired, metav1.ConditionFalse, v1alpha1.ReasonTooLate)
	w.wantDelivered(delivery(v1alpha1.ApprovalExpired, "", ""))
	late := "Warning TooLate the decision of alice on payments/refund was seen after the request had expired at 2026-01-01T13:00:00Z and is worth nothing: if the agent proposes the call again, a new request comes"
	w.wantSaid("a: "+late, "triage: "+late)
}

func TestARequestThatIsDeletedIsWorthNothing(t *testing.T) {
	t.Parallel()
	t.Run("before its status was written", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, theRun(), asks("a", given.Decided(approved, "alice")))
		w.beforePatch = func() { w.ok(w.api.Delete(t.Context(), w.request("a"))) }
		w.look("a")
		w.wantDelivered()
		w.wantSaid()
	})
	t.Run("and made again under its name", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, theRun(), asks("a", given.Decided(approved, "alice")))
		w.beforePatch = func() {
			w.beforePatch = nil
			w.ok(w.api.Delete(t.Context(), w.request("a")))
			w.ok(w.api.Create(t.Context(), asks("a", func(r *v1alpha1.ApprovalRequest) { r.UID = "another" })))
			another := w.request("a") // so that the two differ in their resourceVersion, as they do on a real API server
			another.Annotations = map[string]string{"x": "y"}
			w.ok(w.api.Update(t.Context(), another))
		}
		if got := w.look("a"); got.RequeueAfter != requeue.Soon {
			t.Errorf("looks again after %s", got.RequeueAfter)
		}
		w.wantDelivered()
		w.look("a")
		w.want("a", v1alpha1.ApprovalPending, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingDecision)
	})
	t.Run("while a finalizer holds it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, theRun(), asks("a", given.Decided(approved, "alice"), func(r *v1alpha1.ApprovalRequest) { r.Finalizers = []string{"foregroundDeletion"} }))
		w.ok(w.api.Delete(t.Context(), w.request("a")))
		if got := w.look("a"); !got.IsZero() || w.writes != 0 {
			t.Errorf("%d writes", w.writes)
		}
	})
}

func TestWithoutTheGuardNothingIsHonoured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theRun(), asks("a"))
	w.look("a")
	w.decide("a", approved, "alice", "")
	w.guarded, w.why = false, "the binding is missing: apply config/admission"
	for range 2 { // the second look says nothing new
		if got := w.look("a"); got.RequeueAfter != 10*time.Second {
			t.Errorf("looks again after %s", got.RequeueAfter)
		}
	}
	w.want("a", v1alpha1.ApprovalPending, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingDecision)
	w.wantDelivered()
	w.wantSaid(opened, "a: Warning NotGuarded the binding is missing: apply config/admission")
	wantGuarded := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		if c := meta.FindStatusCondition(w.request("a").Status.Conditions, v1alpha1.ConditionApprovalsGuarded); c == nil || c.Status != status || c.Reason != reason {
			t.Errorf("got %+v, want %s %s", c, status, reason)
		}
	}
	wantGuarded(metav1.ConditionFalse, v1alpha1.ReasonNotGuarded)
	// Anybody may have written it: that the guard is back makes it no better, and somebody is asked again.
	w.guarded, w.why = true, ""
	w.look("a")
	w.want("a", v1alpha1.ApprovalWithdrawn, metav1.ConditionFalse, v1alpha1.ReasonNotGuarded)
	w.wantDelivered()
	wantGuarded(metav1.ConditionTrue, v1alpha1.ReasonGuarded)
	if len(w.woken) != 1 {
		t.Errorf("woken %v: the run has to ask again", w.woken)
	}
}

func TestPoliciesThatWereMadeAnewHaveEverythingAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theRun(), asks("a"), asks("b"), asks("c", func(r *v1alpha1.ApprovalRequest) { r.CreationTimestamp = metav1.NewTime(noon) }))
	w.since = noon
	w.decide("b", approved, "carol", "")
	w.decide("c", approved, "alice", "")
	for _, name := range []string{"a", "b", "c"} {
		w.look(name)
	}
	w.want("a", v1alpha1.ApprovalWithdrawn, metav1.ConditionFalse, v1alpha1.ReasonNotGuarded)
	w.want("b", v1alpha1.ApprovalWithdrawn, metav1.ConditionFalse, v1alpha1.ReasonNotGuarded)
	w.want("c", v1alpha1.ApprovalApproved, metav1.ConditionTrue, v1alpha1.ReasonApproved)
	if len(w.delivered) != 1 || w.delivered[0].Request != "uid-of-c" {
		t.Errorf("delivered %+v", w.delivered)
	}
}

func TestAGuardThatDoesNotAnswerIsAFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theRun(), asks("a"))
	w.look("a")
	w.decide("a", approved, "alice", "")
	w.unknown = errors.New("timeout")
	writes := w.writes
	if _, err := w.Reconcile(t.Context(), w.request("a")); !errors.Is(err, w.unknown) || w.writes != writes {
		t.Errorf("%d writes and %v", w.writes-writes, err)
	}
	// It does not keep a request from ending otherwise.
	w.question.Over = true
	w.look("a")
	w.want("a", v1alpha1.ApprovalWithdrawn, metav1.ConditionFalse, v1alpha1.ReasonWithdrawn)
}

func TestTwoSeatsAreTwoPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theRun(), asks("a", given.Seated(1, 2)), asks("b", given.Seated(2, 2)),
		// Not about this call, though alice approved it.
		asks("c", given.Asking(4, 1, "payments/refund", `{"iban":"secret"}`), given.Decided(approved, "alice"), func(r *v1alpha1.ApprovalRequest) {
			r.Status.Phase = v1alpha1.ApprovalApproved
		}))
	w.decide("a", approved, "alice", "")
	w.decide("b", approved, "alice", "")
	w.stale = true
	stale := w.request("a") // the cache has not seen what becomes of b
	w.look("b")
	w.want("b", v1alpha1.ApprovalApproved, metav1.ConditionTrue, v1alpha1.ReasonApproved)
	if _, err := w.Reconcile(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	w.want("a", v1alpha1.ApprovalWithdrawn, metav1.ConditionFalse, v1alpha1.ReasonSamePerson)
	if len(w.delivered) != 1 || w.delivered[0].Request != "uid-of-b" {
		t.Errorf("delivered %+v", w.delivered)
	}
	if len(w.woken) != 2 {
		t.Errorf("woken %v: the run has to ask somebody else", w.woken)
	}
	w.ok(w.api.Create(t.Context(), asks("a2", given.Seated(1, 2))))
	w.decide("a2", approved, "bob", "")
	w.look("a2")
	w.want("a2", v1alpha1.ApprovalApproved, metav1.ConditionTrue, v1alpha1.ReasonApproved)
}

func TestARunIsNotToldThatItAsksNothingMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theRun(), asks("a"))
	w.question.Settled = true
	w.look("a")
	w.wantSaid("a: Normal Withdrawn withdrawn: the call is settled")
}

func TestARunIsGone(t *testing.T) {
	t.Parallel()
	t.Run("when there is none of its name", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, asks("a"))
		w.look("a")
		w.want("a", v1alpha1.ApprovalWithdrawn, metav1.ConditionFalse, v1alpha1.ReasonWithdrawn)
		w.wantSaid("a: Normal Withdrawn withdrawn: run triage is gone")
		if len(w.woken) != 0 {
			t.Errorf("woken %v", w.woken)
		}
	})
	t.Run("when another has its name", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, asks("a"), theRun(func(r *v1alpha1.AgentRun) { r.UID = "another" }))
		w.look("a")
		w.want("a", v1alpha1.ApprovalWithdrawn, metav1.ConditionFalse, v1alpha1.ReasonWithdrawn)
	})
	t.Run("not when only the cache says so", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, asks("a"), theRun())
		w.blind = true
		w.look("a")
		w.want("a", v1alpha1.ApprovalPending, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingDecision)
	})
}

func TestWhoIsLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theRun(),
		asks("open"), asks("decided", given.Decided(approved, "alice")),
		asks("ended", func(r *v1alpha1.ApprovalRequest) { r.Status.Phase = v1alpha1.ApprovalExpired }),
		asks("foreign", given.Decided(approved, "alice"), func(r *v1alpha1.ApprovalRequest) {
			r.Namespace, r.Labels = "other", map[string]string{v1alpha1.LabelRunUID: "another"}
		}))
	names := func(found []string) string { return strings.Join(found, " ") }
	var got []string
	for _, r := range w.ofRun(t.Context(), theRun()) {
		got = append(got, r.Name)
	}
	if names(got) != "decided open" {
		t.Errorf("when its run stops: %q", got)
	}
	got = nil
	for _, r := range w.every(t.Context(), nil) {
		got = append(got, r.Namespace+"/"+r.Name)
	}
	if names(got) != "other/foreign team/decided team/open" {
		t.Errorf("when the policies change: %q", got)
	}
}

func TestWhenARunMoves(t *testing.T) {
	t.Parallel()
	says := func(condition string, status metav1.ConditionStatus, reason string) *v1alpha1.AgentRun {
		return theRun(func(r *v1alpha1.AgentRun) {
			meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonAwaitingApproval})
			meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: condition, Status: status, Reason: reason})
		})
	}
	waits := says(v1alpha1.ConditionFinished, metav1.ConditionFalse, v1alpha1.ReasonAwaitingApproval)
	for name, tc := range map[string]struct {
		given *v1alpha1.AgentRun
		want  bool
	}{
		"it still waits":           {waits.DeepCopy(), false},
		"its cancel is committed":  {says(v1alpha1.ConditionCancelRequested, metav1.ConditionTrue, v1alpha1.ReasonCancelling), true},
		"it has ended":             {says(v1alpha1.ConditionFinished, metav1.ConditionTrue, v1alpha1.ReasonCancelled), true},
		"a segment works on it":    {says(v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, v1alpha1.ReasonRunning), true},
		"its cancel is only asked": {func() *v1alpha1.AgentRun { r := waits.DeepCopy(); given.Cancelled()(r); return r }(), false},
	} {
		if got := (moving{}).Update(event.UpdateEvent{ObjectOld: waits, ObjectNew: tc.given}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if (moving{}).Create(event.CreateEvent{}) || !(moving{}).Delete(event.DeleteEvent{}) {
		t.Error("a run that is new has asked nothing, and one that is deleted asks nothing more")
	}
}

func TestTheStateOfOpenRequests(t *testing.T) {
	t.Parallel()
	doubted := func(r *v1alpha1.ApprovalRequest) {
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionApprovalsGuarded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotGuarded}}
	}
	ended := func(r *v1alpha1.ApprovalRequest) { r.Status.Phase = v1alpha1.ApprovalExpired }
	older := func(r *v1alpha1.ApprovalRequest) { r.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour)) }
	for name, tc := range map[string]struct {
		given []*v1alpha1.ApprovalRequest
		why   string
		want  metrics.Approvals
	}{
		"none is open":                        {[]*v1alpha1.ApprovalRequest{asks("a", ended, older)}, "", metrics.Approvals{Guarded: true}},
		"two are open":                        {[]*v1alpha1.ApprovalRequest{asks("a"), asks("b", older)}, "", metrics.Approvals{Open: 2, Oldest: time.Hour, Guarded: true}},
		"a decision is not honoured":          {[]*v1alpha1.ApprovalRequest{asks("a", doubted)}, "", metrics.Approvals{Open: 1, Oldest: time.Minute}},
		"a decision was not, and has expired": {[]*v1alpha1.ApprovalRequest{asks("a", doubted, ended)}, "", metrics.Approvals{Guarded: true}},
		"the policies are missing":            {nil, "missing", metrics.Approvals{}},
	} {
		w := newWorld(t)
		for _, r := range tc.given {
			status := r.Status
			w.ok(w.api.Create(t.Context(), r))
			r.Status = status
			w.ok(w.api.Status().Update(t.Context(), r))
		}
		w.why = tc.why
		got, err := w.state(t.Context(), noon)
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateErrors()); diff != "" || err != nil {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, err)
		}
	}
}
