package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Fixture is a ledger and what segments do to it behind the manager's back.
type Fixture struct {
	ledger.Ledger
	// Hold makes an attempt the holder of the run's claim.
	Hold func(run types.UID, k ledger.AttemptKey)
	// Lapse makes the holder's lease have run out so long ago.
	Lapse func(run types.UID, ago time.Duration)
	// Held reports whether the claim has a holder.
	Held func(run types.UID) bool
	// Yield leaves the outcome of a segment.
	Yield func(run contract.Identity, segment int, o contract.Outcome)
	// SettleCall settles a call without having sent it.
	SettleCall func(run contract.Identity, turn, index int)
	// Append adds so many entries to the transcript.
	Append func(run contract.Identity, entries int)
	// Versions is how many versions the policy of a namespace has.
	Versions func(namespace types.UID) int
}

// Run holds a ledger to the laws. make is called once a law.
func Run(t *testing.T, make func(t *testing.T) Fixture) {
	t.Helper()
	for name, law := range map[string]func(suite){
		"a run is admitted once":                                                    suite.admittedOnce,
		"of two runs with one key the first is admitted":                            suite.duplicates,
		"of many runs with one key at once, one is admitted":                        suite.duplicatesAtOnce,
		"an attempt is written down once":                                           suite.attemptsOnce,
		"only the attempts at the newest segment are shown":                         suite.newestAttempts,
		"what was never admitted or begun is unknown":                               suite.unknown,
		"an attempt that has ended gives its own claim back":                        suite.claimBack,
		"how far a run has come shows, and another run's is its own":                suite.memory,
		"a ledger that was set back says so of what was at work":                    suite.setBack,
		"the outcome of the newest segment is shown":                                suite.newestOutcome,
		"a cancel is committed once":                                                suite.cancelOnce,
		"a run that has ended cannot be cancelled":                                  suite.cancelAfterEnd,
		"the first end of a run counts":                                             suite.firstEnd,
		"unfinished runs are listed oldest first":                                   suite.unfinished,
		"a lease that ran out more than its patience ago shows":                     suite.lapse,
		"a lease that an earlier attempt let run out is not the newest one's":       suite.lapsedBefore,
		"a password that no login can have is refused by name":                      suite.passwords,
		"a namespace that is gone leaves nothing open":                              suite.unprovision,
		"a login that another one follows stays until nobody can use it":            suite.rotation,
		"a wait shows what is asked and what was decided":                           suite.waiting,
		"a wait that no segment leaves ends its run":                                suite.unbelieved,
		"a decision is delivered once for each request":                             suite.deliveries,
		"a person approves one seat of a call":                                      suite.samePerson,
		"an older state of a policy does not follow a newer one":                    suite.stalePolicies,
		"a question about a call tells how the run stands":                          suite.questions,
		"a policy is a new version when it differs":                                 suite.policies,
		"contracts of a generation are those kept last, and found by their digests": suite.contracts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(suite{T: t, Fixture: make(t), namespace: types.UID(uuid.NewString())})
		})
	}
}

// suite is one law's world.
type suite struct {
	*testing.T
	Fixture
	namespace types.UID
}

// Snapshot is a snapshot of a new run.
func Snapshot(namespace types.UID) contract.Snapshot {
	uid := types.UID(uuid.NewString())
	return contract.Snapshot{
		Schema: contract.SnapshotSchema, Revision: "writer-1", Task: "Say hello.",
		Run: contract.Identity{Namespace: "team", NamespaceUID: namespace, Name: "run-" + string(uid[:8]), UID: uid, RootUID: uid},
		Agent: v1alpha1.CompiledAgent{
			Instructions: "Be brief.", Limits: v1alpha1.Limits{Segments: 3, Turns: 4, ActiveSeconds: 5}, Retry: v1alpha1.Retry{MaxAttempts: 2},
		},
	}
}

func (s suite) admitted() contract.Identity {
	s.Helper()
	snapshot := Snapshot(s.namespace)
	s.ok(s.Admit(s.Context(), ledger.Admission{Snapshot: snapshot}))
	return snapshot.Run
}

func (s suite) look(run types.UID) ledger.Record {
	s.Helper()
	r, err := s.Look(s.Context(), run)
	s.ok(err)
	if r == nil {
		s.Fatal("the run is not there")
	}
	return *r
}

func (s suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s suite) is(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("got error %v, want %v", err, want)
	}
}

func (s suite) same(got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("-want +got\n%s", diff)
	}
}

func (s suite) absent(run types.UID) {
	s.Helper()
	r, err := s.Look(s.Context(), run)
	s.ok(err)
	s.same(r == nil, true)
}

func (s suite) admittedOnce() {
	snapshot := Snapshot(s.namespace)
	s.absent(snapshot.Run.UID)
	s.ok(s.Admit(s.Context(), ledger.Admission{Snapshot: snapshot}))
	first := s.look(snapshot.Run.UID)
	_, digest, _ := snapshot.Encode()
	if age := first.Now.Sub(first.AdmittedAt); age < 0 || age > time.Minute {
		s.Errorf("admitted at %s, now %s", first.AdmittedAt, first.Now)
	}
	s.same(first, ledger.Record{Now: first.Now, AdmittedAt: first.AdmittedAt, SnapshotDigest: digest, Terms: snapshot.Terms()})

	edited := snapshot
	edited.Task, edited.Agent.Limits.Turns = "Something else.", 99
	s.ok(s.Admit(s.Context(), ledger.Admission{Snapshot: edited}))
	again := s.look(snapshot.Run.UID)
	again.Now = first.Now
	s.same(again, first)
}

func (s suite) duplicates() {
	a, b, c := Snapshot(s.namespace), Snapshot(s.namespace), Snapshot(types.UID(uuid.NewString()))
	for range 2 {
		s.ok(s.Admit(s.Context(), ledger.Admission{Snapshot: a, IdempotencyKey: "k"}))
	}
	for range 2 {
		var duplicate *ledger.DuplicateError
		if err := s.Admit(s.Context(), ledger.Admission{Snapshot: b, IdempotencyKey: "k"}); !errors.As(err, &duplicate) {
			s.Fatalf("got error %v, want a duplicate", err)
		}
		s.same(duplicate.Of, v1alpha1.RunReference{Name: a.Run.Name, UID: a.Run.UID})
	}
	s.absent(b.Run.UID)
	s.ok(s.Admit(s.Context(), ledger.Admission{Snapshot: c, IdempotencyKey: "k"})) // another namespace's key
}

func (s suite) duplicatesAtOnce() {
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		snapshot := Snapshot(s.namespace)
		wg.Go(func() {
			errs[i] = s.Admit(s.Context(), ledger.Admission{Snapshot: snapshot, IdempotencyKey: "at once"})
		})
	}
	wg.Wait()
	admitted := 0
	for _, err := range errs {
		var duplicate *ledger.DuplicateError
		if err == nil {
			admitted++
		} else if !errors.As(err, &duplicate) {
			s.Errorf("got error %v, want a duplicate", err)
		}
	}
	s.same(admitted, 1)
}

func (s suite) attemptsOnce() {
	run, k, job := s.admitted().UID, ledger.AttemptKey{}, types.UID(uuid.NewString())
	s.same(len(s.look(run).Attempts), 0)
	for range 2 {
		s.ok(s.BeginAttempt(s.Context(), run, k))
	}
	begun := s.look(run).Attempts[0].BegunAt
	s.same(s.look(run).Attempts, []ledger.Attempt{{BegunAt: begun}})
	for _, j := range []types.UID{job, job, types.UID(uuid.NewString())} {
		s.ok(s.StoreJob(s.Context(), run, k, j))
	}
	s.same(s.look(run).Attempts[0].BegunAt.After(begun), true) // a pod has its time to start from its Job on
	begun = s.look(run).Attempts[0].BegunAt
	end := ledger.AttemptEnd{
		Class: lifecycle.Faulted, Code: contract.FaultDeferred, Message: "later\x00", NotBefore: time.Now().Add(time.Hour).Truncate(time.Microsecond),
	}
	s.ok(s.EndAttempt(s.Context(), run, k, end))
	s.ok(s.EndAttempt(s.Context(), run, k, ledger.AttemptEnd{Class: lifecycle.Crashed}))
	got := s.look(run).Attempts
	end.Message = "later\uFFFD"
	s.same(got, []ledger.Attempt{{Job: job, BegunAt: begun, EndedAt: got[0].EndedAt, AttemptEnd: end}})
	s.same(got[0].EndedAt.IsZero(), false)
}

func (s suite) newestAttempts() {
	run := s.admitted().UID
	want := []ledger.AttemptKey{{Segment: 1, Attempt: 0}, {Segment: 1, Attempt: 1}}
	for _, k := range append([]ledger.AttemptKey{{}}, want...) {
		s.ok(s.BeginAttempt(s.Context(), run, k))
	}
	var keys []ledger.AttemptKey
	for _, a := range s.look(run).Attempts {
		keys = append(keys, a.AttemptKey)
	}
	s.same(keys, want)
}

func (s suite) unknown() {
	nobody, run, k := types.UID(uuid.NewString()), s.admitted().UID, ledger.AttemptKey{}
	s.is(s.BeginAttempt(s.Context(), nobody, k), ledger.ErrUnknown)
	s.is(s.StoreJob(s.Context(), run, k, nobody), ledger.ErrUnknown)
	s.is(s.EndAttempt(s.Context(), run, k, ledger.AttemptEnd{Class: lifecycle.Lost}), ledger.ErrUnknown)
	s.is(s.Cancel(s.Context(), nobody), ledger.ErrUnknown)
	_, err := s.Finish(s.Context(), nobody, ledger.End{Phase: v1alpha1.RunFailed})
	s.is(err, ledger.ErrUnknown)
	s.absent("not a UID")
}

func (s suite) claimBack() {
	run, k := s.admitted().UID, ledger.AttemptKey{Segment: 0, Attempt: 1}
	s.ok(s.BeginAttempt(s.Context(), run, ledger.AttemptKey{}))
	s.ok(s.BeginAttempt(s.Context(), run, k))
	s.Hold(run, k)
	s.ok(s.EndAttempt(s.Context(), run, ledger.AttemptKey{}, ledger.AttemptEnd{Class: lifecycle.Crashed, Terminated: true}))
	s.same(s.Held(run), true) // it is another attempt's
	s.ok(s.EndAttempt(s.Context(), run, k, ledger.AttemptEnd{Class: lifecycle.Lost}))
	s.same(s.Held(run), true) // nobody saw it end
	s.ok(s.EndAttempt(s.Context(), run, k, ledger.AttemptEnd{Class: lifecycle.Crashed, Terminated: true, Pods: []types.UID{"another"}}))
	s.same(s.Held(run), true) // it is another pod's
	s.ok(s.EndAttempt(s.Context(), run, k, ledger.AttemptEnd{Class: lifecycle.Crashed, Terminated: true, Pods: []types.UID{"another", Holder}}))
	s.same(s.Held(run), false)
	s.same(s.look(run).Attempts[1].Class, lifecycle.Lost)
}

func (s suite) newestOutcome() {
	run := s.admitted()
	whole := "x" + strings.Repeat("é", contract.MaxInlineResult) + "!"
	s.Yield(run, 0, contract.Outcome{Yield: contract.YieldCheckpoint})
	s.Yield(run, 1, contract.Outcome{Yield: contract.YieldCeiling, Code: "c", Message: "m", Result: whole})
	s.same(s.look(run.UID).Outcome == nil, true) // no attempt was made
	s.ok(s.BeginAttempt(s.Context(), run.UID, ledger.AttemptKey{Segment: 0}))
	s.same(s.look(run.UID).Outcome, &contract.Outcome{Yield: contract.YieldCheckpoint})
	s.ok(s.BeginAttempt(s.Context(), run.UID, ledger.AttemptKey{Segment: 1}))
	r := s.look(run.UID)
	s.same(r.Outcome, &contract.Outcome{Yield: contract.YieldCeiling, Code: "c", Message: "m", Result: whole[:contract.MaxInlineResult-1]})
	s.same(r.ResultBytes, int64(len(whole)))
	s.same(r.ResultDigest, contract.Digest([]byte(whole)))
	s.ok(s.BeginAttempt(s.Context(), run.UID, ledger.AttemptKey{Segment: 2}))
	s.same(s.look(run.UID).Outcome == nil, true)
}

func (s suite) memory() {
	run, other := s.admitted(), s.admitted()
	_, digest, _ := Snapshot(s.namespace).Encode()
	same := func(run contract.Identity, want lifecycle.Memory) {
		s.Helper()
		r := s.look(run.UID)
		got := r.Memory()
		s.same(len(got.Snapshot), len(digest))
		want.Admitted, got.Snapshot = true, ""
		s.same(got, want)
	}
	same(run, lifecycle.Memory{})
	s.ok(s.BeginAttempt(s.Context(), run.UID, ledger.AttemptKey{}))
	s.ok(s.BeginAttempt(s.Context(), run.UID, ledger.AttemptKey{Segment: 1}))
	s.ok(s.BeginAttempt(s.Context(), run.UID, ledger.AttemptKey{Segment: 1, Attempt: 1}))
	s.Append(run, 3)
	s.SettleCall(run, 0, 0)
	s.SettleCall(run, 0, 1)
	s.ok(s.Deliver(s.Context(), run.UID, aDelivery(0, 0, v1alpha1.ApprovalExpired)))
	same(run, lifecycle.Memory{Newest: &ledger.AttemptKey{Segment: 1, Attempt: 1}, Entries: 3, Settled: 2, Decisions: 1})
	same(other, lifecycle.Memory{})
}

func (s suite) setBack() {
	begun, over, between, none := s.admitted().UID, s.admitted().UID, s.admitted().UID, s.admitted().UID
	for _, run := range []types.UID{begun, over, between} {
		s.ok(s.BeginAttempt(s.Context(), run, ledger.AttemptKey{}))
	}
	_, err := s.Finish(s.Context(), over, ledger.End{Phase: v1alpha1.RunSucceeded})
	s.ok(err)
	s.ok(s.EndAttempt(s.Context(), between, ledger.AttemptKey{}, ledger.AttemptEnd{Class: lifecycle.Yielded}))
	beat := func(known int64) ledger.Pulse {
		s.Helper()
		p, err := s.Beat(s.Context(), known)
		s.ok(err)
		s.same(s.look(begun).Count, p.Count)
		return p
	}
	first := beat(0)
	s.same(beat(first.Count), ledger.Pulse{Count: first.Count + 1})
	s.same(beat(first.Count), ledger.Pulse{Count: first.Count + 2}) // what is remembered may lag
	s.same(s.look(begun).SetBack, false)
	s.same(beat(first.Count+100), ledger.Pulse{Count: first.Count + 101, SetBack: true, Runs: 1})
	s.same(beat(first.Count+101), ledger.Pulse{Count: first.Count + 102})
	for _, run := range []types.UID{begun, over, between, none} {
		s.same(s.look(run).SetBack, run == begun)
	}
}

func (s suite) cancelOnce() {
	run := s.admitted().UID
	s.same(s.look(run).CancelledAt.IsZero(), true)
	s.ok(s.Cancel(s.Context(), run))
	first := s.look(run).CancelledAt
	s.same(first.IsZero(), false)
	s.ok(s.Cancel(s.Context(), run))
	s.same(s.look(run).CancelledAt, first)
}

func (s suite) cancelAfterEnd() {
	run := s.admitted().UID
	_, err := s.Finish(s.Context(), run, ledger.End{Phase: v1alpha1.RunSucceeded})
	s.ok(err)
	s.ok(s.Cancel(s.Context(), run))
	s.same(s.look(run).CancelledAt.IsZero(), true)
}

func (s suite) firstEnd() {
	run := s.admitted().UID
	s.Hold(run, ledger.AttemptKey{})
	ends := make([]ledger.End, 8)
	var wg sync.WaitGroup
	for i := range ends {
		wg.Go(func() {
			var err error
			if ends[i], err = s.Finish(s.Context(), run, ledger.End{Phase: v1alpha1.RunFailed, Code: fmt.Sprint("c", i), Message: "m"}); err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	for _, e := range ends {
		s.same(e, ends[0])
	}
	s.same(ends[0].At.IsZero(), false)
	s.same(*s.look(run).End, ends[0])
	s.same(s.Held(run), false)
}

func (s suite) unfinished() {
	ids := []contract.Identity{s.admitted(), s.admitted(), s.admitted(), s.admitted()}
	_, err := s.Finish(s.Context(), ids[1].UID, ledger.End{Phase: v1alpha1.RunSucceeded})
	s.ok(err)
	now := s.look(ids[0].UID).Now
	got, err := s.Unfinished(s.Context(), now.Add(time.Hour), 2)
	s.ok(err)
	s.same(got, []contract.Identity{ids[0], ids[2]})
	got, err = s.Unfinished(s.Context(), now.Add(-time.Hour), 2)
	s.ok(err)
	s.same(len(got), 0)
}

func (s suite) lapse() {
	run, k := s.admitted().UID, ledger.AttemptKey{}
	s.ok(s.BeginAttempt(s.Context(), run, k))
	s.Hold(run, k)
	s.same(s.look(run).Lapsed(), false)
	s.Lapse(run, contract.LeasePatience-time.Second)
	s.same(s.look(run).Lapsed(), false)
	s.Lapse(run, contract.LeasePatience+time.Second)
	s.same(s.look(run).Lapsed(), true)
	s.ok(s.EndAttempt(s.Context(), run, k, ledger.AttemptEnd{Class: lifecycle.Crashed, Terminated: true}))
	s.same(s.look(run).Lapsed(), false)
}

func (s suite) lapsedBefore() {
	run, first, second := s.admitted().UID, ledger.AttemptKey{}, ledger.AttemptKey{Attempt: 1}
	s.ok(s.BeginAttempt(s.Context(), run, first))
	s.Hold(run, first)
	s.Lapse(run, time.Minute)
	s.ok(s.EndAttempt(s.Context(), run, first, ledger.AttemptEnd{Class: lifecycle.Lost}))
	s.same(s.look(run).Lapsed(), true)
	s.ok(s.BeginAttempt(s.Context(), run, second))
	s.same(s.look(run).Lapsed(), false) // its process has begun and not claimed the run yet
	s.Hold(run, second)
	s.Lapse(run, time.Minute)
	s.same(s.look(run).Lapsed(), true)
}

func (s suite) passwords() {
	for _, password := range []string{"", "a b", "a\nb", "a\x00b", "é"} {
		s.is(s.Provision(s.Context(), ledger.Tenant{Namespace: "team", NamespaceUID: s.namespace, Password: password}), ledger.ErrPassword)
	}
	all, err := s.Tenants(s.Context())
	s.ok(err)
	s.same(len(all), 0)
}

func (s suite) unprovision() {
	t := ledger.Tenant{Namespace: "team", NamespaceUID: s.namespace, Password: "secret"}
	for range 2 {
		s.ok(s.Provision(s.Context(), t))
	}
	all, err := s.Tenants(s.Context())
	s.ok(err)
	s.same(all, []ledger.Tenant{{Namespace: "team", NamespaceUID: s.namespace}})

	running, done := s.admitted().UID, s.admitted().UID
	s.Hold(running, ledger.AttemptKey{})
	end, err := s.Finish(s.Context(), done, ledger.End{Phase: v1alpha1.RunSucceeded})
	s.ok(err)
	foreign := Snapshot(types.UID(uuid.NewString()))
	s.ok(s.Admit(s.Context(), ledger.Admission{Snapshot: foreign}))
	for range 2 {
		s.ok(s.Unprovision(s.Context(), s.namespace))
		r := s.look(running)
		s.same(*r.End, ledger.End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "the namespace is gone", At: r.End.At})
		s.same(s.Held(running), false)
		s.same(*s.look(done).End, end)
		s.same(s.look(foreign.Run.UID).End == nil, true)
	}
	all, err = s.Tenants(s.Context())
	s.ok(err)
	s.same(len(all), 0)
}
