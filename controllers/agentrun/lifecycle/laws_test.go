package lifecycle

import (
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// TestDecideLaws walks every shape that an observation can have and checks what must hold in all of them.
func TestDecideLaws(t *testing.T) {
	t.Parallel()
	laws := map[string]func(o Observed, d Decision) bool{
		"an end is final: nothing starts, and no other end is reported": func(o Observed, d Decision) bool {
			if o.Recorded == nil && (o.Admission == nil || o.Admission.End == nil) {
				return true
			}
			if f, ok := effect[Finish](d); ok && (o.Recorded == nil || f.End != *o.Recorded) {
				return false
			}
			return !has[Start](d) && !has[Admit](d) && (!d.Report.Ended || o.Recorded == nil && d.Report.Reason == o.Admission.End.Code)
		},
		"what is to stop starts nothing": func(o Observed, d Decision) bool {
			return !o.stopWanted() || !has[Start](d) && !has[Admit](d)
		},
		"a cancel is committed before a pod is stopped for it": func(o Observed, d Decision) bool {
			a := o.Admission
			return !has[Stop](d) || !a.CancelledAt.IsZero() || o.Recorded != nil || !a.LapsesAt.IsZero() && !o.Now.Before(a.LapsesAt) || o.Sighting.Suspended
		},
		"no second attempt begins while one is live": func(o Observed, d Decision) bool {
			s, ok := effect[Start](d)
			if !ok || o.Admission.live() == nil {
				return true
			}
			return s.AttemptKey == o.Admission.live().AttemptKey && o.Sighting.State == Unseen && o.Admission.Outcome == nil
		},
		"no attempt's name is used twice": func(o Observed, d Decision) bool {
			s, ok := effect[Start](d)
			if !ok {
				return true
			}
			for _, a := range o.Admission.Attempts {
				if a.AttemptKey == s.AttemptKey && !a.EndedAt.IsZero() {
					return false
				}
			}
			return true
		},
		"a segment that has its outcome is not tried again": func(o Observed, d Decision) bool {
			s, ok := effect[Start](d)
			return !ok || o.Admission.Outcome == nil || s.Segment == o.Admission.newest().Segment+1 && s.Attempt == 0
		},
		"no segment begins beyond the limit": func(o Observed, d Decision) bool {
			s, ok := effect[Start](d)
			return !ok || s.Segment-o.Admission.Waits < int(o.Admission.Terms.Limits.Segments)
		},
		"people are asked only about calls of a run that waits and goes on": func(o Observed, d Decision) bool {
			return !has[Raise](d) || o.Admission.Outcome.Yield == contract.YieldWaiting && o.Admission.End == nil && !o.stopWanted()
		},
		"a run that waits goes on only when its first call is decided": func(o Observed, d Decision) bool {
			a := o.Admission
			if a == nil || a.Outcome == nil || a.Outcome.Yield != contract.YieldWaiting || !has[Start](d) {
				return true
			}
			return a.Outcome.Wait.Over(a.Inbox)
		},
		"each seat that is asked is one of the call's": func(o Observed, d Decision) bool {
			for _, e := range d.Do {
				if r, ok := e.(Raise); ok && (r.Seat < 1 || r.Seat > r.Ask.Seats) {
					return false
				}
			}
			return true
		},
		"nobody looks again at once without having done something": func(o Observed, d Decision) bool {
			return d.Report.Waiting == nil || len(d.Do) > 0 || d.Wake.After(o.Now.Add(time.Second))
		},
		"what waits shows it, and nothing else does": func(o Observed, d Decision) bool {
			return (d.Report.Waiting != nil) == (d.Report.Phase == v1alpha1.RunWaiting)
		},
		"a run that was admitted ends in the ledger before it ends in the status": func(o Observed, d Decision) bool {
			return !d.Report.Ended || o.Admission == nil || o.Admission.End != nil
		},
		"no attempt stays open once its run has ended": func(o Observed, d Decision) bool {
			return o.Recorded == nil || o.Admission == nil || o.Admission.live() == nil || has[Close](d)
		},
		"an outcome is followed only when its attempt is closed": func(o Observed, d Decision) bool {
			a := o.Admission
			return !has[Finish](d) || o.Recorded != nil || o.Taken != "" || o.setBack() != "" || a.Outcome == nil || a.live() == nil || !a.CancelledAt.IsZero()
		},
		"what the API server refuses is not asked for again at once": func(o Observed, d Decision) bool {
			return o.Blocked == "" || !has[Raise](d) && (o.Admission == nil || o.Admission.live() == nil || !has[Start](d))
		},
		"whatever goes on says why, and looks again by itself or has something to do": func(o Observed, d Decision) bool {
			if d.Again || d.Report.Ended || o.Recorded != nil {
				return true
			}
			return d.Report.Reason != "" && d.Report.Phase != "" && !d.Wake.IsZero()
		},
		"what a queue holds back is never given up for not starting": func(o Observed, d Decision) bool {
			f, ok := effect[Finish](d)
			return !o.Sighting.Held || !ok || o.Recorded != nil || f.End.Code != v1alpha1.ReasonPodNotStarted
		},
		"a Job that may go on by itself is gone before its attempt is closed": func(o Observed, d Decision) bool {
			return !o.Sighting.Suspended || o.Sighting.State != Ended || !has[Close](d) || has[Stop](d)
		},
		"nothing begins for a run that could vanish without being cancelled": func(o Observed, d Decision) bool {
			return o.Held || !has[Start](d) && !has[Raise](d)
		},
		"what is held is not held again, nor what has ended or is deleted": func(o Observed, d Decision) bool {
			return !has[Hold](d) || (!o.Held || o.Unmarked) && !o.Deleting && o.Recorded == nil && (o.Admission == nil || o.Admission.End == nil)
		},
		"of what the ledger has forgotten nothing is done again": func(o Observed, d Decision) bool {
			return o.setBack() == "" || !has[Start](d) && !has[Admit](d) && !has[Raise](d)
		},
		"what the ledger has forgotten has an end, and it says so": func(o Observed, d Decision) bool {
			a := o.Admission
			if o.setBack() == "" || o.Recorded != nil || a != nil && a.End != nil || o.Of != "" {
				return true
			}
			f, ok := effect[Finish](d)
			return d.Report.Reason == v1alpha1.ReasonLedgerRolledBack || ok && f.End.Code == v1alpha1.ReasonLedgerRolledBack
		},
		"an object that stands for the run of another starts nothing, unless the ledger knows it": func(o Observed, d Decision) bool {
			return o.Of == "" || o.Admission != nil || len(d.Do) == 0 || o.Recorded != nil
		},
		"looking again comes with something done": func(_ Observed, d Decision) bool {
			return !d.Again || len(d.Do) > 0
		},
		"a namespace that goes gets nothing new": func(o Observed, d Decision) bool {
			return !o.NamespaceGoing || !has[Start](d) && !has[Hold](d)
		},
	}
	n := 0
	for o := range everyObserved() {
		n++
		d := Decide(o)
		// Comparing two decisions costs more than all laws together.
		if n%101 == 0 && !reflect.DeepEqual(d, Decide(o)) {
			t.Fatalf("the same observation gives another decision\ngiven %+v\nadmission %+v\ngot %+v", o, o.Admission, d)
		}
		for law, holds := range laws {
			if !holds(o, d) {
				t.Fatalf("broken law: %s\ngiven %+v\nadmission %+v\ngot %+v", law, o, o.Admission, d)
			}
		}
	}
	if n < 50_000 {
		t.Errorf("only %d observations", n)
	}
}

// TestEveryRunEnds lets time pass and the cluster do its worst in turn: however an attempt goes, Decide brings the run to its end.
func TestEveryRunEnds(t *testing.T) {
	t.Parallel()
	fates := map[string]func() (Sighting, *contract.Outcome){
		"every pod crashes": func() (Sighting, *contract.Outcome) {
			return Sighting{State: Ended, End: AttemptEnd{Class: Crashed}}, nil
		},
		"every pod leaves with 0": func() (Sighting, *contract.Outcome) {
			return Sighting{State: Ended, End: AttemptEnd{Class: Yielded}}, nil
		},
		"no pod ever starts": func() (Sighting, *contract.Outcome) { return Sighting{State: Pending}, nil },
		"every secret is missing": func() (Sighting, *contract.Outcome) {
			return Sighting{State: Ended, End: AttemptEnd{Class: Faulted, Code: contract.FaultSecretMissing}}, nil
		},
		"no segment reaches the ledger": func() (Sighting, *contract.Outcome) {
			return Sighting{State: Ended, End: AttemptEnd{Class: Faulted, Code: contract.FaultLedger}}, nil
		},
		"no Job is ever taken": nil,
		"every segment checkpoints": func() (Sighting, *contract.Outcome) {
			return Sighting{State: Working}, &contract.Outcome{Yield: contract.YieldCheckpoint}
		},
		"the first segment completes": func() (Sighting, *contract.Outcome) {
			return Sighting{State: Working}, &contract.Outcome{Yield: contract.YieldCompleted, Result: "x"}
		},
		"a segment yields nonsense": func() (Sighting, *contract.Outcome) { return Sighting{State: Working}, &contract.Outcome{Yield: "?"} },
		"no end is ever written twice": func() (Sighting, *contract.Outcome) {
			return Sighting{State: Ended, End: AttemptEnd{Class: Crashed}}, nil
		},
	}
	for name, fate := range fates {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, a, finished := noon, admitted(), 0
			for range 1000 {
				d := Decide(Observed{Now: now, Held: true, Queued: noon, Admission: a, Sighting: sighted(a, fate), Blocked: blocked(a, fate)})
				if d.Report.Ended {
					if finished != 1 {
						t.Fatalf("ended %d times in the ledger", finished)
					}
					return
				}
				finished += carryOut(a, d, now, fate)
				if !d.Wake.IsZero() {
					now = d.Wake
				}
			}
			t.Fatal("still going on after 1000 decisions")
		})
	}
}

// blocked is what the API server says of a Job where there is no fate: it takes none.
func blocked(a *Admission, fate func() (Sighting, *contract.Outcome)) string {
	if fate != nil || a.live() == nil {
		return ""
	}
	return "exceeded quota"
}

func sighted(a *Admission, fate func() (Sighting, *contract.Outcome)) Sighting {
	if a.live() == nil || a.live().Job == "" {
		return Sighting{}
	}
	s, _ := fate()
	return s
}

// carryOut does to the ledger what the effects say, and lets the attempt that was started meet its fate. It counts ends.
func carryOut(a *Admission, d Decision, now time.Time, fate func() (Sighting, *contract.Outcome)) (finished int) {
	for _, e := range d.Do {
		switch e := e.(type) {
		case Start:
			if n := a.newest(); n == nil || n.Segment != e.Segment {
				a.Attempts, a.Outcome = nil, nil
			}
			a.Attempts = append(a.Attempts, Attempt{AttemptKey: e.AttemptKey, BegunAt: now})
			if fate != nil {
				a.newest().Job = "job"
				_, a.Outcome = fate()
			}
		case Close:
			a.newest().EndedAt, a.newest().AttemptEnd = now, e.End
		case Finish:
			a.End = &e.End
			finished++
		}
	}
	return finished
}

func effect[E Effect](d Decision) (E, bool) {
	for _, e := range d.Do {
		if e, ok := e.(E); ok {
			return e, true
		}
	}
	var none E
	return none, false
}

func has[E Effect](d Decision) bool {
	_, ok := effect[E](d)
	return ok
}

func everyObserved() iter.Seq[Observed] {
	var (
		bools     = []bool{false, true}
		end       = End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonModelUnavailable, At: noon.Add(-time.Hour)}
		ends      = []*End{nil, &end}
		nows      = []time.Time{noon, noon.Add(StopWithin), noon.Add(StartWithin)}
		sightings = []Sighting{
			{},
			{State: Pending},
			{State: Pending, Held: true, Why: "its Job is suspended"},
			{State: Working},
			{State: Stopping},
			{State: Ended, End: AttemptEnd{Class: Crashed}},
			{State: Ended, End: AttemptEnd{Class: Yielded}},
			{State: Ended, Suspended: true, End: AttemptEnd{Class: Disrupted}},
			{State: Ended, End: AttemptEnd{Class: Faulted, Code: contract.FaultDeferred}, Pause: time.Minute},
		}
	)
	return func(yield func(Observed) bool) {
		for _, now := range nows {
			for _, cancel := range bools {
				for _, deleting := range bools {
					for _, going := range bools {
						for _, held := range bools {
							for _, recorded := range ends {
								base := Observed{Now: now, Queued: noon, CancelWanted: cancel, Deleting: deleting, NamespaceGoing: going, Held: held, Recorded: recorded, TTL: time.Hour}
								for _, w := range []*Cause{nil, {v1alpha1.ReasonDefinitionNotReady, "no"}} {
									for _, r := range ends {
										o := base
										o.Waiting, o.Refused = w, r
										if !yield(o) {
											return
										}
										for _, unsure := range []Observed{{Remembered: Memory{Admitted: true}}, {Of: "other"}, {Unmarked: true}} {
											o.Remembered, o.Of, o.Unmarked = unsure.Remembered, unsure.Of, unsure.Unmarked
											if !yield(o) {
												return
											}
										}
									}
								}
								for a := range everyAdmission(ends) {
									for _, s := range sightings {
										o := base
										o.Admission, o.Sighting = a, s
										if !yield(o) {
											return
										}
									}
									o := base
									o.Admission, o.Blocked = a, "no"
									if !yield(o) {
										return
									}
									o.Unmarked, o.Of = true, "other"
									if !yield(o) {
										return
									}
									o.Remembered = Memory{Admitted: true, Entries: 1}
									if !yield(o) {
										return
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

func everyAdmission(ends []*End) iter.Seq[*Admission] {
	outcomes := []*contract.Outcome{nil}
	for _, y := range []contract.Yield{contract.YieldCompleted, contract.YieldCeiling, contract.YieldCheckpoint, contract.YieldCancelled, contract.YieldFailed, "FromTheFuture"} {
		outcomes = append(outcomes, &contract.Outcome{Yield: y})
	}
	unsure := &contract.Outcome{Yield: contract.YieldWaiting, Wait: &contract.Wait{Cursor: 1, Asks: []contract.Ask{doubtful}}}
	waiting := &contract.Outcome{Yield: contract.YieldWaiting, Wait: &contract.Wait{Asks: []contract.Ask{ask(0, 1), ask(1, 2)}}}
	inboxes := [][]contract.Delivery{nil, {answered(1, 0, 1, 1, v1alpha1.ApprovalApproved)}, {answered(1, 1, 1, 2, v1alpha1.ApprovalDenied)}}
	words := [][]contract.Delivery{
		nil,
		{answered(2, 0, 1, 1, v1alpha1.ApprovalApproved)},
		{spoken(1, v1alpha1.ApprovalRetry)},
		{spoken(1, v1alpha1.ApprovalRetry), spoken(2, v1alpha1.ApprovalHappened)},
		{spoken(2, v1alpha1.ApprovalRetry)},
		{spoken(2, v1alpha1.ApprovalExpired)},
	}
	tries := [][]Attempt{nil}
	for segment := range 3 {
		k := AttemptKey{Segment: segment}
		tries = append(tries,
			[]Attempt{live(k)},
			[]Attempt{{AttemptKey: k, BegunAt: noon}},
			[]Attempt{ended(k, AttemptEnd{Class: Crashed}), live(AttemptKey{segment, 1})},
		)
		for _, c := range []AttemptClass{Yielded, Faulted, Crashed, Disrupted, Lost, Stopped} {
			tries = append(tries, []Attempt{ended(k, AttemptEnd{Class: c})}, []Attempt{ended(k, AttemptEnd{Class: c}), ended(AttemptKey{segment, 1}, AttemptEnd{Class: c})})
		}
	}
	return func(yield func(*Admission) bool) {
		for _, at := range []time.Time{{}, noon} {
			for _, end := range ends {
				for _, lapses := range []time.Time{{}, noon.Add(-time.Hour)} {
					for _, as := range tries {
						for _, out := range outcomes {
							if out != nil && len(as) == 0 {
								continue // an outcome is that of an attempt's segment
							}
							if !yield(&Admission{Terms: terms, Seed: "uid", CancelledAt: at, End: end, Attempts: as, Outcome: out, LapsesAt: lapses}) {
								return
							}
						}
						for _, said := range words {
							if len(as) > 0 && !yield(&Admission{Terms: terms, Seed: "uid", CancelledAt: at, End: end, Attempts: as, Outcome: unsure, OutcomeAt: noon, Inbox: said, Waits: 1, LapsesAt: lapses}) {
								return
							}
						}
						for _, inbox := range inboxes {
							if len(as) > 0 && !yield(&Admission{Terms: terms, Seed: "uid", CancelledAt: at, End: end, Attempts: as, Outcome: waiting, OutcomeAt: noon, Inbox: inbox, Waits: 1, LapsesAt: lapses}) {
								return
							}
						}
					}
				}
			}
		}
	}
}
