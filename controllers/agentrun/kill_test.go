package agentrun

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
)

// life is a run from its creation to its end, and what is left of it.
type life struct {
	run    []func(*v1alpha1.AgentRun)
	fate   func(lifecycle.AttemptKey) fate
	meddle func(*world)

	wantPhase  v1alpha1.RunPhase
	wantReason string
	// wantAttempts are the attempts that were made, each with one Job.
	wantAttempts []lifecycle.AttemptKey
	wantGone     bool
}

var lives = map[string]life{
	"two segments": {
		fate: func(k lifecycle.AttemptKey) fate {
			if k.Segment == 0 {
				return checkpoint()
			}
			return completed("42")
		},
		wantPhase: v1alpha1.RunSucceeded, wantReason: v1alpha1.ReasonCompleted, wantAttempts: []lifecycle.AttemptKey{{Segment: 0}, {Segment: 1}},
	},
	"a crash, a fault, and an answer": {
		fate: func(k lifecycle.AttemptKey) fate {
			switch k.Attempt {
			case 0:
				return fate{exit: 137}
			case 1:
				return fate{exit: contract.ExitFault, message: `{"fault":"Deferred","message":"429","notBeforeSeconds":30}`}
			default:
				return completed("42")
			}
		},
		wantPhase: v1alpha1.RunSucceeded, wantReason: v1alpha1.ReasonCompleted, wantAttempts: []lifecycle.AttemptKey{{}, {Attempt: 1}, {Attempt: 2}},
	},
	"crashes alone": {
		fate:      func(lifecycle.AttemptKey) fate { return fate{exit: 1} },
		wantPhase: v1alpha1.RunFailed, wantReason: v1alpha1.ReasonPoisonSegment, wantAttempts: []lifecycle.AttemptKey{{}, {Attempt: 1}},
	},
	"cancelled at work": {
		meddle: func(w *world) {
			if w.atWork() && w.run().Spec.DesiredState == "" {
				w.cancel()
			}
		},
		wantPhase: v1alpha1.RunCancelled, wantReason: v1alpha1.ReasonCancelled, wantAttempts: []lifecycle.AttemptKey{{}},
	},
	"deleted at work": {
		meddle: func(w *world) {
			if w.atWork() && w.run().DeletionTimestamp.IsZero() {
				w.remove()
			}
		},
		wantPhase: v1alpha1.RunCancelled, wantReason: v1alpha1.ReasonCancelled, wantAttempts: []lifecycle.AttemptKey{{}}, wantGone: true,
	},
	"silent at work": {
		fate: func(k lifecycle.AttemptKey) fate {
			if k.Attempt == 0 {
				return fate{silent: true}
			}
			return completed("42")
		},
		wantPhase: v1alpha1.RunSucceeded, wantReason: v1alpha1.ReasonCompleted, wantAttempts: []lifecycle.AttemptKey{{}, {Attempt: 1}},
	},
	"gone after its time to live": {
		run:       []func(*v1alpha1.AgentRun){func(r *v1alpha1.AgentRun) { r.Spec.TTLSecondsAfterFinished = 60 }},
		wantPhase: v1alpha1.RunSucceeded, wantReason: v1alpha1.ReasonCompleted, wantAttempts: []lifecycle.AttemptKey{{}}, wantGone: true,
	},
	"a duplicate": {
		run:       []func(*v1alpha1.AgentRun){given.Key("k")},
		wantPhase: v1alpha1.RunFailed, wantReason: v1alpha1.ReasonDuplicate,
	},
}

func (l life) begin(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, append(compiled(given.Tries(2)), theRun(l.run...))...)
	if l.fate != nil {
		w.fate = l.fate
	}
	if l.wantReason == v1alpha1.ReasonDuplicate {
		w.ok(w.ledger.Admit(t.Context(), ledger.Admission{IdempotencyKey: "k", Snapshot: contract.Snapshot{
			Run: contract.Identity{Namespace: namespace, NamespaceUID: teamUID, Name: "other", UID: "other", RootUID: "other"},
		}}))
	}
	return w
}

// TestWholeLives plays each life undisturbed.
func TestWholeLives(t *testing.T) {
	t.Parallel()
	for name, l := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := l.begin(t)
			w.settle(l.meddle)
			l.verify(w)
		})
	}
}

// TestKilledBetweenEveryTwoWrites plays each life once for every write in it, and kills the manager at that write:
// before it happens, and after it has happened and before it is known.
func TestKilledBetweenEveryTwoWrites(t *testing.T) {
	t.Parallel()
	for name, l := range lives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := l.begin(t)
			whole.settle(l.meddle)
			for n := 1; n <= whole.writes; n++ {
				for _, lost := range []bool{false, true} {
					t.Run(fmt.Sprintf("write %d, carried out %v", n, lost), func(t *testing.T) {
						w := l.begin(t)
						w.hit, w.lost = n, lost
						w.settle(l.meddle)
						l.verify(w)
						compare(w, whole)
					})
				}
			}
		})
	}
}

// verify checks what a life leaves behind, however it went.
func (l life) verify(w *world) {
	w.Helper()
	if gone := w.run() == nil; gone != l.wantGone {
		w.Errorf("the run is gone: %v, want %v", gone, l.wantGone)
	}
	if len(w.statuses) == 0 {
		w.Fatal("no status was written")
	}
	last := w.statuses[len(w.statuses)-1]
	if c := meta.FindStatusCondition(last.Conditions, v1alpha1.ConditionSucceeded); c == nil || last.Phase != l.wantPhase || c.Reason != l.wantReason {
		w.Errorf("ended as %s %+v, want %s %s", last.Phase, c, l.wantPhase, l.wantReason)
	}
	final := 0
	for _, s := range w.statuses {
		if meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionFinished) {
			final++
		}
	}
	if final != 1 {
		w.Errorf("%d final statuses", final)
	}
	var keys []lifecycle.AttemptKey
	for _, a := range w.ledger.Every(uid) {
		keys = append(keys, a.AttemptKey)
		if a.EndedAt.IsZero() {
			w.Errorf("attempt %+v was left open", a)
		}
	}
	if diff := cmp.Diff(l.wantAttempts, keys); diff != "" {
		w.Errorf("attempts (-want +got):\n%s", diff)
	}
	names := slices.Clone(w.created)
	slices.Sort(names)
	if len(slices.Compact(names)) != len(w.created) || len(w.created) != len(l.wantAttempts) {
		w.Errorf("Jobs %v for the attempts %v", w.created, l.wantAttempts)
	}
	for _, a := range w.admitted {
		if diff := cmp.Diff(w.admitted[0], a); diff != "" {
			w.Errorf("it was admitted twice, as different runs:\n%s", diff)
		}
	}
	var secret corev1.Secret
	w.ok(w.api.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: contract.PostgresSecret}, &secret))
	if password := w.ledger.Password(teamUID); password == "" || !strings.Contains(string(secret.Data[contract.PostgresKey]), ":"+password+"@") {
		w.Errorf("the Secret does not hold the login's password")
	}
	if len(w.ledger.Every(uid)) > 0 {
		if rec, err := w.ledger.Look(w.Context(), uid); err != nil || rec.End == nil || w.ledger.Held(uid) {
			w.Errorf("the ledger is left open: %+v %v", rec, err)
		}
	}
}

// compare holds a disturbed life against the undisturbed one: the same end, and no event that was not heard there.
func compare(w, whole *world) {
	w.Helper()
	got, want := w.statuses[len(w.statuses)-1], whole.statuses[len(whole.statuses)-1]
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime"), cmpopts.IgnoreFields(v1alpha1.AgentRunStatus{}, "FinishedAt")); diff != "" {
		w.Errorf("status (-undisturbed +disturbed):\n%s", diff)
	}
	if got.FinishedAt.IsZero() {
		w.Error("the end has no time")
	}
	missing := 0
	for _, s := range whole.said {
		if !slices.Contains(w.said, s) {
			missing++
		}
	}
	// Of a status that was written without an answer nobody is told: people read the status.
	if missing > 1 || missing == 1 && !w.lost {
		w.Errorf("events are missing:\n%s", cmp.Diff(whole.said, w.said))
	}
	for _, s := range w.said {
		if count(w.said, s) > count(whole.said, s) {
			w.Errorf("the event %q was heard too often:\n%s", s, cmp.Diff(whole.said, w.said))
		}
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}
