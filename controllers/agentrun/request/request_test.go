package request

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// TestNamesAreLegalOneQuestionsAndTellTheirOrdinal tries names that are alike, with the greatest numbers there are.
func TestNamesAreLegalOneQuestionsAndTellTheirOrdinal(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, name := range []string{"a", "a-gate", "a-gate-r3", "a-t0c0-gate-s2-r1", "a-ask3", strings.Repeat("x.", 126) + "x"} {
		for _, uid := range []types.UID{"u1", "u2"} {
			run := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid + types.UID(name)}}
			for _, k := range []lifecycle.RequestKey{
				{Seat: 1},
				{Seat: 1, Ordinal: 12},
				{Seat: 2},
				{Seat: 2, Ordinal: 1},
				{Turn: 9999, Index: 63, Seat: 5, Ordinal: 99},
				{Turn: 1, Index: 1, Seat: 1},
				{Type: v1alpha1.ApprovalIndeterminate, Seat: 1},
				{Type: v1alpha1.ApprovalIndeterminate, Seat: 1, Ordinal: 12},
			} {
				got := Name(run, k)
				if errs := validation.IsDNS1123Subdomain(got); len(errs) > 0 || len(got) > 80 || seen[got] || ordinal(got) != k.Ordinal {
					t.Errorf("%s of %s, %+v: %v, seen %t, ordinal %d", got, name, k, errs, seen[got], ordinal(got))
				}
				seen[got] = true
			}
		}
	}
}

// TestSame tells the request for a seat of a call from whatever else may have its name.
func TestSame(t *testing.T) {
	t.Parallel()
	run := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "team", UID: "u"}}
	raise := lifecycle.Raise{Ask: contract.Ask{Turn: 3, Index: 1, Tool: "payments/refund", Digest: "d", Pool: "finance", Seats: 2, ExpiresSeconds: 60}, Seat: 2, Ordinal: 1}
	other := int32(9)
	for name, tc := range map[string]struct {
		change func(*v1alpha1.ApprovalRequest)
		want   bool
	}{
		"itself":                            {func(*v1alpha1.ApprovalRequest) {}, true},
		"itself, asked of others and later": {func(q *v1alpha1.ApprovalRequest) { q.Spec.Pool, q.Spec.ExpiresAt = "legal", metav1.Now() }, true},
		"itself, decided":                   {func(q *v1alpha1.ApprovalRequest) { q.Spec.Decision.Verdict = v1alpha1.VerdictDenied }, true},
		"one about what came of the call":   {func(q *v1alpha1.ApprovalRequest) { q.Spec.Type = v1alpha1.ApprovalIndeterminate }, false},
		"one about other arguments":         {func(q *v1alpha1.ApprovalRequest) { q.Spec.Call.Digest = "other" }, false},
		"one about another tool":            {func(q *v1alpha1.ApprovalRequest) { q.Spec.Call.Tool = "payments/charge" }, false},
		"one of another turn":               {func(q *v1alpha1.ApprovalRequest) { q.Spec.Call.Turn = &other }, false},
		"one of another place in the turn":  {func(q *v1alpha1.ApprovalRequest) { q.Spec.Call.Index = &other }, false},
		"one without a place":               {func(q *v1alpha1.ApprovalRequest) { q.Spec.Call.Index = nil }, false},
		"one for another seat":              {func(q *v1alpha1.ApprovalRequest) { q.Spec.Seat = 1 }, false},
		"one of an earlier run of the name": {func(q *v1alpha1.ApprovalRequest) { q.Spec.RunRef.UID = "earlier" }, false},
		"one that belongs to somebody else": {func(q *v1alpha1.ApprovalRequest) { q.OwnerReferences[0].UID = "somebody" }, false},
		"one that belongs to nobody":        {func(q *v1alpha1.ApprovalRequest) { q.OwnerReferences = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := Build(run, v1alpha1.Principal{User: "dana"}, raise, time.Unix(0, 0))
			tc.change(q)
			if got := Same(q, run, raise); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestRead gives back what was asked, and nothing of a request that goes or is somebody else's.
func TestRead(t *testing.T) {
	t.Parallel()
	run := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "team", UID: "u"}}
	raise := lifecycle.Raise{Ask: contract.Ask{Turn: 3, Index: 1, Tool: "payments/refund", Digest: "d", Pool: "finance", Seats: 2, ExpiresSeconds: 60}, Seat: 2, Ordinal: 1}
	q := Build(run, v1alpha1.Principal{User: "dana"}, raise, time.Unix(1000, 5))
	q.UID, q.Status.Phase = "quid", v1alpha1.ApprovalWithdrawn
	got, ours := Read(q, run)
	want := lifecycle.Request{UID: "quid", Type: v1alpha1.ApprovalCall, Turn: 3, Index: 1, Digest: "d", Seat: 2, Ordinal: 1, Pool: "finance", Withdrawn: true, Until: time.Unix(1060, 0)}
	if diff := cmp.Diff(want, got); diff != "" || !ours {
		t.Error(diff, ours)
	}
	going := q.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	foreign := q.DeepCopy()
	foreign.OwnerReferences[0].UID = "somebody"
	for _, q := range []*v1alpha1.ApprovalRequest{going, foreign} {
		if got, ours := Read(q, run); ours {
			t.Errorf("%+v", got)
		}
	}
}
