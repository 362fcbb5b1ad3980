package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

var (
	noon  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	terms = contract.Terms{
		Limits: v1alpha1.Limits{Segments: 3, Turns: 10, ActiveSeconds: 600},
		Retry:  v1alpha1.Retry{MaxAttempts: 2, BaseSeconds: 1, CapSeconds: 60},
	}
	first = AttemptKey{}
)

func admitted(change ...func(*Admission)) *Admission {
	a := &Admission{Terms: terms, Seed: "uid"}
	for _, c := range change {
		c(a)
	}
	return a
}

func attempts(as ...Attempt) func(*Admission) { return func(a *Admission) { a.Attempts = as } }

func unreadable(why string) func(*Admission) { return func(a *Admission) { a.Unreadable = why } }

func outcome(o contract.Outcome) func(*Admission) { return func(a *Admission) { a.Outcome = &o } }

func cancelledAt(at time.Time) func(*Admission) { return func(a *Admission) { a.CancelledAt = at } }

func live(k AttemptKey) Attempt {
	return Attempt{AttemptKey: k, BegunAt: noon.Add(-time.Minute), Job: "job"}
}

func ended(k AttemptKey, e AttemptEnd) Attempt {
	a := live(k)
	a.EndedAt, a.AttemptEnd = noon.Add(-time.Second), e
	return a
}

// unreachable are attempts that began so long ago, did not reach the ledger and ended a minute later.
func unreachable(ago ...time.Duration) (as []Attempt) {
	for i, d := range ago {
		begun := noon.Add(-time.Minute - d)
		as = append(as, Attempt{
			AttemptKey: AttemptKey{Attempt: i}, BegunAt: begun, Job: "job", EndedAt: begun.Add(time.Minute),
			AttemptEnd: AttemptEnd{Class: Faulted, Code: contract.FaultLedger, Message: "connection refused"},
		})
	}
	return as
}

// again starts the numbered attempt at the first segment.
func again(attempt int) Decision {
	return Decision{
		Do:     []Effect{Start{AttemptKey{Attempt: attempt}}},
		Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 0 waits for its pod"},
		Wake:   noon.Add(Patience),
	}
}

func finish(phase v1alpha1.RunPhase, code, message string) Decision {
	return Decision{Do: []Effect{Finish{End{Phase: phase, Code: code, Message: message, At: noon}}}, Again: true}
}

// held is what is remembered of a run that has come some way.
func held() Memory {
	return Memory{Snapshot: "a", Admitted: true, Newest: &AttemptKey{1, 1}, Entries: 8, Begun: 3, Settled: 2, Decisions: 1}
}

// row is a case of TestDecide.
type row struct {
	given Observed
	// loose says that an admitted run has lost our finalizer.
	loose bool
	want  Decision
}

// behind is a run whose ledger has all that is remembered but for the change.
func behind(change func(*Memory), message string) row {
	a := admitted(attempts(live(AttemptKey{1, 1})))
	a.Held = held()
	change(&a.Held)
	return row{
		given: Observed{Now: noon, Remembered: held(), Admission: a, Sighting: Sighting{State: Working}},
		want:  finish(v1alpha1.RunFailed, v1alpha1.ReasonLedgerRolledBack, "Postgres was restored to an earlier moment: "+message),
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	end := End{Phase: v1alpha1.RunSucceeded, Code: v1alpha1.ReasonCompleted, Message: "done", At: noon.Add(-time.Hour)}
	fault := AttemptEnd{Class: Faulted, Code: contract.FaultSecretMissing, Message: "Secret \"llm\" has no key \"apiKey\""}
	tests := map[string]row{
		"a run that may be admitted is held and frozen": {
			given: Observed{Now: noon, Queued: noon},
			want:  Decision{Do: []Effect{Hold{}, Admit{}}, Again: true},
		},
		"a run that is held already is only frozen": {
			given: Observed{Now: noon, Queued: noon, Held: true},
			want:  Decision{Do: []Effect{Admit{}}, Again: true},
		},
		"a run without its definition is queued until it gives up": {
			given: Observed{Now: noon, Queued: noon, Waiting: &Cause{v1alpha1.ReasonDefinitionNotReady, "no such definition"}},
			want:  Decision{Report: Report{Phase: v1alpha1.RunQueued, Reason: v1alpha1.ReasonDefinitionNotReady, Message: "no such definition"}, Wake: noon.Add(askEvery)},
		},
		"a run whose definition never came fails": {
			given: Observed{Now: noon, Queued: noon.Add(-ReadyWithin), Waiting: &Cause{v1alpha1.ReasonDefinitionNotReady, "no such definition"}},
			want:  Decision{Report: Report{Phase: v1alpha1.RunFailed, Reason: v1alpha1.ReasonDefinitionNotReady, Message: "gave up after 120 seconds: no such definition", Ended: true, At: noon}},
		},
		"a run that is cancelled in the queue ends without starting anything": {
			given: Observed{Now: noon, Queued: noon, CancelWanted: true, Waiting: &Cause{v1alpha1.ReasonDefinitionNotReady, "no such definition"}},
			want:  Decision{Report: Report{Phase: v1alpha1.RunCancelled, Reason: v1alpha1.ReasonCancelled, Message: "cancelled before it was admitted", Ended: true, At: noon}},
		},
		"an admitted run starts its first segment": {
			given: Observed{Now: noon, Admission: admitted()},
			want: Decision{
				Do:     []Effect{Start{first}},
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 0 waits for its pod"},
				Wake:   noon.Add(Patience),
			},
		},
		"an attempt whose Job was not created is begun again under its name": {
			given: Observed{Now: noon, Admission: admitted(attempts(Attempt{AttemptKey: first, BegunAt: noon}))},
			want: Decision{
				Do:     []Effect{Start{first}},
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 0 waits for its pod"},
				Wake:   noon.Add(Patience),
			},
		},
		"a Job that the API server refuses is reported with what it says, and asked for again": {
			given: Observed{Now: noon, Admission: admitted(attempts(Attempt{AttemptKey: first, BegunAt: noon})), Blocked: "Job x: exceeded quota"},
			want: Decision{
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 0 waits for its pod: Job x: exceeded quota"},
				Wake:   noon.Add(askEvery),
			},
		},
		"a Job that the API server refuses for long fails the run with what it says": {
			given: Observed{Now: noon.Add(StartWithin), Admission: admitted(attempts(Attempt{AttemptKey: first, BegunAt: noon})), Blocked: "Job x: exceeded quota"},
			want: Decision{Do: []Effect{Finish{End{
				Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonPodNotStarted, At: noon.Add(StartWithin),
				Message: "the pod of segment 0 did not start within 300 seconds: Job x: exceeded quota",
			}}}, Again: true},
		},
		"a pod that has just been asked for is given time before the status says what holds it up": {
			given: Observed{Now: noon.Add(-55 * time.Second), Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Pending, Why: "no pod has been created"}},
			want: Decision{
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 0 waits for its pod"},
				Wake:   noon.Add(-50 * time.Second),
			},
		},
		"a pod that does not start is reported with what the cluster says": {
			given: Observed{Now: noon, Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Pending, Why: "Unschedulable: 0/1 nodes"}},
			want: Decision{
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 0 waits for its pod: Unschedulable: 0/1 nodes"},
				Wake:   noon.Add(askWhy),
			},
		},
		"and looked at when its time is over": {
			given: Observed{Now: noon.Add(230 * time.Second), Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Pending, Why: "Unschedulable: 0/1 nodes"}},
			want: Decision{
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 0 waits for its pod: Unschedulable: 0/1 nodes"},
				Wake:   noon.Add(-time.Minute).Add(StartWithin),
			},
		},
		"a pod that a queue holds back is waited for, however long that takes": {
			given: Observed{Now: noon.Add(24 * time.Hour), Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Pending, Held: true, Why: "its Job is suspended"}},
			want:  Decision{Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonPodQueued, Message: "segment 0 waits for its pod: its Job is suspended"}, Wake: noon.Add(24 * time.Hour).Add(askWhy)},
		},
		"a pod that a queue has let go has its time from then on": {
			given: Observed{Now: noon.Add(StartWithin - time.Second), Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Pending, Released: noon, Why: "Unschedulable: 0/1 nodes"}},
			want: Decision{
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 0 waits for its pod: Unschedulable: 0/1 nodes"},
				Wake:   noon.Add(StartWithin),
			},
		},
		"and no longer": {
			given: Observed{Now: noon.Add(StartWithin), Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Pending, Released: noon, Why: "Unschedulable: 0/1 nodes"}},
			want: Decision{Do: []Effect{Finish{End{
				Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonPodNotStarted, At: noon.Add(StartWithin),
				Message: "the pod of segment 0 did not start within 300 seconds: Unschedulable: 0/1 nodes",
			}}}, Again: true},
		},
		"a pod that works after a day in a queue has not outlived its deadline": {
			given: Observed{Now: noon.Add(24 * time.Hour), Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Working, Released: noon.Add(24*time.Hour - time.Minute)}},
			want: Decision{
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonRunning, Message: "segment 0 is at work"},
				Wake:   noon.Add(24 * time.Hour).Add(lookEvery),
			},
		},
		"an attempt whose Job is suspended again is over, and its Job goes before it can make another pod": {
			given: Observed{Now: noon, Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Ended, Suspended: true, End: AttemptEnd{Class: Disrupted, Message: "suspended"}}},
			want:  Decision{Do: []Effect{Stop{first}, Close{first, AttemptEnd{Class: Disrupted, Message: "suspended"}}}, Again: true},
		},
		"a pod that never starts fails the run with what the cluster says": {
			given: Observed{Now: noon.Add(StartWithin), Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Pending, Why: "ErrImagePull: no such image"}},
			want: Decision{Do: []Effect{Finish{End{
				Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonPodNotStarted, At: noon.Add(StartWithin),
				Message: "the pod of segment 0 did not start within 300 seconds: ErrImagePull: no such image",
			}}}, Again: true},
		},
		"a process that went silent is given up and its segment is taken up by another": {
			given: Observed{Now: noon, Admission: admitted(attempts(live(first)), func(a *Admission) { a.LapsesAt = noon }), Sighting: Sighting{State: Working}},
			want: Decision{Do: []Effect{
				Stop{first}, Close{first, AttemptEnd{Class: Lost, Message: "its process has been silent for longer than its lease"}},
			}, Again: true},
		},
		"a process that may go silent soon is looked at when it would be": {
			given: Observed{Now: noon, Admission: admitted(attempts(live(first)), func(a *Admission) { a.LapsesAt = noon.Add(3 * time.Second) }), Sighting: Sighting{State: Working}},
			want: Decision{
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonRunning, Message: "segment 0 is at work"}, Wake: noon.Add(3 * time.Second),
			},
		},
		"a pod that has outlived its deadline is on a node that is lost": {
			given: Observed{Now: noon.Add(-time.Minute).Add(StartWithin + terms.PodTime() + contract.StopGrace), Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Stopping}},
			want: Decision{Do: []Effect{
				Stop{first}, Close{first, AttemptEnd{Class: Lost, Message: "its pod has outlived its deadline"}},
			}, Again: true},
		},
		"an outcome closes its attempt first, though its pod still runs": {
			given: Observed{Now: noon, Admission: admitted(attempts(live(first)), outcome(contract.Outcome{Yield: contract.YieldCompleted, Result: "42"})), Sighting: Sighting{State: Working}},
			want:  Decision{Do: []Effect{Close{first, AttemptEnd{Class: Yielded, Message: "it left an outcome"}}}, Again: true},
		},
		"a completed outcome succeeds": {
			given: Observed{Now: noon, Admission: admitted(attempts(ended(first, yielded)), outcome(contract.Outcome{Yield: contract.YieldCompleted, Result: "42"}))},
			want:  finish(v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted, "the agent gave its answer"),
		},
		"a checkpoint starts the next segment": {
			given: Observed{Now: noon, Admission: admitted(attempts(ended(first, AttemptEnd{Class: Yielded})), outcome(contract.Outcome{Yield: contract.YieldCheckpoint}))},
			want: Decision{
				Do:     []Effect{Start{AttemptKey{Segment: 1}}},
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 1 waits for its pod"},
				Wake:   noon.Add(Patience),
			},
		},
		"a ceiling with a partial result succeeds": {
			given: Observed{Now: noon, Admission: admitted(attempts(ended(first, yielded)), outcome(contract.Outcome{Yield: contract.YieldCeiling, Message: "limits.turns: 3 of 3 used", Result: "so far"}))},
			want:  finish(v1alpha1.RunSucceeded, v1alpha1.ReasonLimitReached, "stopped with a partial result: limits.turns: 3 of 3 used"),
		},
		"a ceiling without a turn fails": {
			given: Observed{Now: noon, Admission: admitted(attempts(ended(first, yielded)), outcome(contract.Outcome{Yield: contract.YieldCeiling, Message: "limits.activeSeconds: 5 of 5 used"}))},
			want:  finish(v1alpha1.RunFailed, v1alpha1.ReasonLimitReached, "limits.activeSeconds: 5 of 5 used"),
		},
		"an outcome of a later version fails by name and never half read": {
			given: Observed{Now: noon, Admission: admitted(attempts(ended(first, yielded)), outcome(contract.Outcome{Yield: "teleported"}))},
			want:  finish(v1alpha1.RunFailed, v1alpha1.ReasonIncompatibleSession, `a segment left the outcome "teleported", which this version does not know`),
		},
		"terms of a later version end the run by name, whatever it was at": {
			given: Observed{Now: noon, Admission: admitted(attempts(live(first)), unreadable("unknown schema: 2")), Sighting: Sighting{State: Working}},
			want:  finish(v1alpha1.RunFailed, v1alpha1.ReasonIncompatibleSession, "unknown schema: 2"),
		},
		"an attempt that is seen to have ended is written down first": {
			given: Observed{Now: noon, Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Ended, End: fault, Pause: 7 * time.Second}},
			want: Decision{Do: []Effect{Close{first, AttemptEnd{
				Class: Faulted, Code: contract.FaultSecretMissing, Message: fault.Message, NotBefore: noon.Add(7 * time.Second),
			}}}, Again: true},
		},
		"a process that ends well without an outcome has crashed": {
			given: Observed{Now: noon, Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Ended, End: AttemptEnd{Class: Yielded, Terminated: true}}},
			want:  Decision{Do: []Effect{Close{first, AttemptEnd{Class: Crashed, Message: "exit code 0 without an outcome", Terminated: true}}}, Again: true},
		},
		"a crash is tried again": {
			given: Observed{Now: noon.Add(time.Minute), Admission: admitted(attempts(ended(first, AttemptEnd{Class: Crashed})))},
			want: Decision{
				Do:     []Effect{Start{AttemptKey{Attempt: 1}}},
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 0 waits for its pod"},
				Wake:   noon.Add(time.Minute).Add(Patience),
			},
		},
		"an attempt waits for the instant that the last one asked for": {
			given: Observed{Now: noon, Admission: admitted(attempts(ended(first, AttemptEnd{Class: Faulted, Code: contract.FaultDeferred, Message: "429", NotBefore: noon.Add(time.Minute)})))},
			want: Decision{
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonBackingOff, Message: "attempt 0 at segment 0 ended (faulted): 429"},
				Wake:   noon.Add(time.Minute),
			},
		},
		"a segment that keeps crashing is poison": {
			given: Observed{Now: noon, Admission: admitted(attempts(ended(first, AttemptEnd{Class: Crashed}), ended(AttemptKey{Attempt: 1}, AttemptEnd{Class: Crashed, Message: "exit code 137, OOMKilled"})))},
			want:  finish(v1alpha1.RunFailed, v1alpha1.ReasonPoisonSegment, "segment 0 failed 2 times, the last time: exit code 137, OOMKilled"),
		},
		"a fault that nothing cures fails the run under its own name": {
			given: Observed{Now: noon, Admission: admitted(attempts(ended(first, fault), ended(AttemptKey{Attempt: 1}, fault)))},
			want:  finish(v1alpha1.RunFailed, v1alpha1.ReasonSecretMissing, `segment 0 failed 2 times, the last time: Secret "llm" has no key "apiKey"`),
		},
		"disruptions are nobody's crash": {
			given: Observed{Now: noon.Add(time.Hour), Admission: admitted(attempts(
				ended(first, AttemptEnd{Class: Disrupted}), ended(AttemptKey{Attempt: 1}, AttemptEnd{Class: Disrupted}), ended(AttemptKey{Attempt: 2}, AttemptEnd{Class: Lost})))},
			want: Decision{
				Do:     []Effect{Start{AttemptKey{Attempt: 3}}},
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonStarting, Message: "segment 0 waits for its pod"},
				Wake:   noon.Add(time.Hour).Add(Patience),
			},
		},
		"segments that do not reach the ledger for long end the run": {
			given: Observed{Now: noon, Admission: admitted(attempts(unreachable(ReachWithin, ReachWithin/2, time.Minute)...))},
			want:  finish(v1alpha1.RunFailed, v1alpha1.ReasonLedgerUnreachable, "the manager reaches Postgres, and for 15 minutes no attempt at segment 0 did: connection refused"),
		},
		"segments that do not reach the ledger for less are tried again": {
			given: Observed{Now: noon, Admission: admitted(attempts(unreachable(ReachWithin-time.Second, ReachWithin/2, 2*time.Minute)...))},
			want:  again(3),
		},
		"one outage that the manager met too is not the segment's alone": {
			given: Observed{Now: noon, Admission: admitted(attempts(unreachable(time.Hour, 2*time.Minute)...))},
			want:  again(2),
		},
		"an attempt that met something else begins the count anew": {
			given: Observed{Now: noon, Admission: admitted(attempts(append(
				[]Attempt{unreachable(time.Hour)[0], ended(AttemptKey{Attempt: 1}, AttemptEnd{Class: Disrupted})}, unreachable(0, 0, ReachWithin-1, ReachWithin/2, 2*time.Minute)[2:]...)...))},
			want: again(5),
		},
		"a cancel is committed before anything is stopped": {
			given: Observed{Now: noon, CancelWanted: true, Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Working}},
			want:  Decision{Do: []Effect{Cancel{}}, Again: true},
		},
		"a committed cancel stops the pod and waits for it": {
			given: Observed{Now: noon, CancelWanted: true, Admission: admitted(attempts(live(first)), cancelledAt(noon)), Sighting: Sighting{State: Working}},
			want: Decision{
				Do:     []Effect{Stop{first}},
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonCancelling, Message: "nothing new begins; waiting for the segment to stop", CancelRequested: true},
				Wake:   noon.Add(StopWithin),
			},
		},
		"a pod that is stopping is not stopped again": {
			given: Observed{Now: noon, CancelWanted: true, Admission: admitted(attempts(live(first)), cancelledAt(noon)), Sighting: Sighting{State: Stopping}},
			want: Decision{
				Report: Report{Phase: v1alpha1.RunRunning, Reason: v1alpha1.ReasonCancelling, Message: "nothing new begins; waiting for the segment to stop", CancelRequested: true},
				Wake:   noon.Add(StopWithin),
			},
		},
		"a pod that does not stop is not waited for for ever": {
			given: Observed{Now: noon.Add(StopWithin), CancelWanted: true, Admission: admitted(attempts(live(first)), cancelledAt(noon)), Sighting: Sighting{State: Stopping}},
			want: Decision{Do: []Effect{Finish{End{
				Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "cancelled by spec.desiredState", At: noon.Add(StopWithin),
			}}}, Again: true},
		},
		"a committed cancel wins against an outcome that came after it": {
			given: Observed{Now: noon, Deleting: true, Admission: admitted(attempts(live(first)), cancelledAt(noon), outcome(contract.Outcome{Yield: contract.YieldCompleted, Result: "42"}))},
			want:  finish(v1alpha1.RunCancelled, v1alpha1.ReasonCancelled, "cancelled by its deletion"),
		},
		"a namespace that goes is not waited for": {
			given: Observed{Now: noon, NamespaceGoing: true, Admission: admitted(attempts(live(first)), cancelledAt(noon)), Sighting: Sighting{State: Working}},
			want:  finish(v1alpha1.RunCancelled, v1alpha1.ReasonCancelled, "cancelled by its deletion"),
		},
		"an end in the ledger is reported whatever is wanted now": {
			given: Observed{Now: noon, CancelWanted: true, Admission: admitted(func(a *Admission) { a.End = &end })},
			want:  Decision{Report: Report{Phase: end.Phase, Reason: end.Code, Message: end.Message, Ended: true, At: end.At}},
		},
		"an end in the status closes a ledger that does not know it": {
			given: Observed{Now: noon, Recorded: &end, Admission: admitted()},
			want:  Decision{Do: []Effect{Finish{end}}},
		},
		"a pod that outlives its run is stopped, and its attempt closed": {
			given: Observed{Now: noon, Recorded: &end, Admission: admitted(attempts(live(first)), func(a *Admission) { a.End = &end }), Sighting: Sighting{State: Pending}},
			want:  Decision{Do: []Effect{Stop{first}, Close{first, AttemptEnd{Class: Stopped, Message: "its run has ended"}}}},
		},
		"an attempt that outlives its run and is stopping is closed": {
			given: Observed{Now: noon, Recorded: &end, Admission: admitted(attempts(live(first)), func(a *Admission) { a.End = &end }), Sighting: Sighting{State: Stopping}},
			want:  Decision{Do: []Effect{Close{first, AttemptEnd{Class: Stopped, Message: "its run has ended"}}}},
		},
		"an attempt that left an outcome to a run that was cancelled has yielded": {
			given: Observed{Now: noon, Recorded: &end, Admission: admitted(attempts(live(first)), func(a *Admission) { a.End = &end }, outcome(contract.Outcome{Yield: contract.YieldCancelled})), Sighting: Sighting{State: Working}},
			want:  Decision{Do: []Effect{Close{first, AttemptEnd{Class: Yielded, Message: "it left an outcome"}}}},
		},
		"an attempt that found its run ended has not crashed": {
			given: Observed{Now: noon, Recorded: &end, Admission: admitted(attempts(live(first)), func(a *Admission) { a.End = &end }), Sighting: Sighting{State: Ended, End: AttemptEnd{Class: Yielded, Message: "exit code 0"}}},
			want:  Decision{Do: []Effect{Close{first, AttemptEnd{Class: Yielded, Message: "exit code 0"}}}},
		},
		"a deleted run that has ended is let go": {
			given: Observed{Now: noon, Recorded: &end, Deleting: true, Held: true},
			want:  Decision{Do: []Effect{LetGo{}}},
		},
		"a run outlives its end by its time to live": {
			given: Observed{Now: noon, Recorded: &end, TTL: 2 * time.Hour},
			want:  Decision{Wake: noon.Add(time.Hour)},
		},
		"a run whose time to live is over is removed": {
			given: Observed{Now: noon, Recorded: &end, TTL: time.Hour},
			want:  Decision{Do: []Effect{Remove{}}},
		},
		"a run that was let go by an installation that ended is held again by the next": {
			given: Observed{Now: noon, Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Working}}, loose: true,
			want: Decision{Do: []Effect{Hold{}}, Again: true},
		},
		"so is one that is cancelled and may still be deleted": {
			given: Observed{Now: noon, CancelWanted: true, Admission: admitted(attempts(live(first)), cancelledAt(noon)), Sighting: Sighting{State: Working}}, loose: true,
			want: Decision{Do: []Effect{Hold{}}, Again: true},
		},
		"one that has ended is not": {
			given: Observed{Now: noon, Admission: admitted(func(a *Admission) { a.End = &end })}, loose: true,
			want: Decision{Report: Report{Phase: end.Phase, Reason: end.Code, Message: end.Message, Ended: true, At: end.At}},
		},
		"nor one that is deleted: the API server would refuse it": {
			given: Observed{Now: noon, Deleting: true, Admission: admitted(attempts(live(first)))}, loose: true,
			want: Decision{Do: []Effect{Cancel{}}, Again: true},
		},
		"a run that was admitted and that the ledger does not know is not admitted again": {
			given: Observed{Now: noon, Queued: noon, Remembered: Memory{Admitted: true}},
			want: Decision{Report: Report{
				Phase: v1alpha1.RunFailed, Reason: v1alpha1.ReasonLedgerRolledBack, Ended: true, At: noon,
				Message: "the run was admitted and Postgres no longer knows it: it was restored from a backup, or is another one",
			}},
		},
		"nor is it said to have been cancelled before it began": {
			given: Observed{Now: noon, Queued: noon, Remembered: Memory{Admitted: true}, CancelWanted: true},
			want: Decision{Report: Report{
				Phase: v1alpha1.RunFailed, Reason: v1alpha1.ReasonLedgerRolledBack, Ended: true, At: noon,
				Message: "the run was admitted and Postgres no longer knows it: it was restored from a backup, or is another one",
			}},
		},
		"an object that stands for the run of another has its end": {
			given: Observed{Now: noon, Queued: noon, Of: "other", Unmarked: true, Remembered: Memory{Admitted: true}},
			want: Decision{Report: Report{
				Phase: v1alpha1.RunFailed, Reason: v1alpha1.ReasonRestored, Ended: true, At: noon,
				Message: "this object was restored from a backup of run other, or copied from it, and what that run did is not done again. To do the task anew, create a run without the annotation ekiden.dev/run-uid",
			}},
		},
		"unless the ledger knows it: then somebody has changed what it carries, and that is put right": {
			given: Observed{Now: noon, Of: "other", Unmarked: true, Admission: admitted()},
			want:  Decision{Do: []Effect{Hold{}}, Again: true},
		},
		"a run that an earlier version holds is given its UID to carry": {
			given: Observed{Now: noon, Unmarked: true, Admission: admitted(attempts(live(first))), Sighting: Sighting{State: Working}},
			want:  Decision{Do: []Effect{Hold{}}, Again: true},
		},
		"a ledger that holds all that is remembered, and more, goes on": {
			given: Observed{Now: noon, Remembered: held(), Admission: admitted(func(a *Admission) {
				a.Held = held()
				a.Held.Newest, a.Held.Entries = &AttemptKey{Segment: 2}, 9
			})},
			want: again(0),
		},
		"a ledger with an end keeps it, however little it holds": {
			given: Observed{Now: noon, Remembered: held(), Admission: admitted(func(a *Admission) { a.End = &end })},
			want:  Decision{Report: Report{Phase: end.Phase, Reason: end.Code, Message: end.Message, Ended: true, At: end.At}},
		},
		"a ledger that is behind does not take back the end that the status has": {
			given: Observed{Now: noon, Recorded: &end, Remembered: held(), Admission: admitted()},
			want:  Decision{Do: []Effect{Finish{end}}},
		},
		"a run that was at work when the ledger was set back": {
			given: Observed{Now: noon, Admission: admitted(attempts(live(first)), func(a *Admission) { a.SetBack = true }), Sighting: Sighting{State: Working}},
			want:  finish(v1alpha1.RunFailed, v1alpha1.ReasonLedgerRolledBack, "Postgres was restored to a moment at which an attempt was at work, and what it did after that is not known"),
		},
		"a ledger with another snapshot":                     behind(func(m *Memory) { m.Snapshot = "b" }, "it was admitted with snapshot a, and Postgres holds b"),
		"a ledger without the attempt":                       behind(func(m *Memory) { m.Newest = nil }, "attempt 1 at segment 1 was begun, and Postgres does not know it"),
		"a ledger with an earlier attempt":                   behind(func(m *Memory) { m.Newest = &AttemptKey{1, 0} }, "attempt 1 at segment 1 was begun, and Postgres does not know it"),
		"a ledger with a later attempt at an earlier one":    behind(func(m *Memory) { m.Newest = &AttemptKey{0, 7} }, "attempt 1 at segment 1 was begun, and Postgres does not know it"),
		"a ledger whose transcript is shorter":               behind(func(m *Memory) { m.Entries-- }, "there were 8 entries of the transcript, and Postgres holds 7"),
		"a ledger that has forgotten that a call was begun":  behind(func(m *Memory) { m.Begun-- }, "there were 3 calls that were begun, and Postgres holds 2"),
		"a ledger that has forgotten how a call ended":       behind(func(m *Memory) { m.Settled-- }, "there were 2 calls that were settled, and Postgres holds 1"),
		"a ledger that has forgotten what somebody approved": behind(func(m *Memory) { m.Decisions-- }, "there were 1 decisions, and Postgres holds 0"),
		"a name that belongs to somebody else fails the run": {
			given: Observed{Now: noon, Taken: "a Job named x exists", Admission: admitted()},
			want:  finish(v1alpha1.RunFailed, v1alpha1.ReasonNameTaken, "a Job named x exists"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.given.Held = tc.given.Held || tc.given.Admission != nil && !tc.loose
			if diff := cmp.Diff(tc.want, Decide(tc.given)); diff != "" {
				t.Errorf("Decide() (-want +got):\n%s", diff)
			}
		})
	}
}
