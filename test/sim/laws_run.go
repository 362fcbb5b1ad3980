package sim

import (
	"slices"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// yielded is an outcome.
func (l *laws) yielded(p *process, o contract.Outcome, err error) {
	there, again := l.outcomes[p.claim.Segment]
	switch {
	case err != nil:
		_ = l.accepted(p, err, "yield")
	case again && there.generation == p.claim.Generation && there.yield == o.Yield: // a repetition
	case again:
		l.broken("a segment has one outcome: %d", p.claim.Segment)
	default:
		_ = l.accepted(p, err, "yield")
		l.tally.segments++
		if o.Yield == contract.YieldWaiting {
			l.tally.waits++
		}
		l.outcomes[p.claim.Segment] = outcome{generation: p.claim.Generation, yield: o.Yield, code: o.Code, ask: firstAsk(o), heard: p.heard}
		l.leftInDoubt(o)
		l.live = false
	}
}

// released is a claim that its holder gives back.
func (l *laws) released(p *process, err error) {
	if err == nil && (p.claim.Generation != l.newest || l.final) {
		l.broken("no write of a stale claim is accepted: release by generation %d, and %d is the newest", p.claim.Generation, l.newest)
	}
	if p.claim.Generation == l.newest && err == nil {
		l.live = false
	}
}

// left is a segment that leaves the wait for the model to another attempt.
func (l *laws) left(p *process, f contract.Fault) {
	r := p.claim.Snapshot.Agent.Retry
	if longest := max(r.MaxRetryAfterSeconds, r.CapSeconds); f.NotBeforeSeconds > longest {
		l.broken("no clock makes a pause longer than the longest there may be: %d s of %d", f.NotBeforeSeconds, longest)
	}
}

// attempted is an attempt that is about to be written down.
func (l *laws) attempted(k lifecycle.AttemptKey) {
	counted := 0
	for _, a := range l.w.pg.Every(runUID) {
		switch {
		case a.AttemptKey == k:
			return
		case a.EndedAt.IsZero() && a.Segment == k.Segment:
			l.broken("one attempt at a segment is live at a time: %s while %s goes on", nameOf(k), nameOf(a.AttemptKey))
		case a.Segment == k.Segment && counts(a):
			counted++
		}
	}
	l.tally.attempts++
	terms, waits := l.w.agent.snapshot.Agent, 0
	for _, o := range l.outcomes {
		if o.yield == contract.YieldWaiting {
			waits++
		}
	}
	switch {
	case counted >= int(terms.Retry.MaxAttempts):
		l.broken("a segment is tried no more often than retry.maxAttempts: %s", nameOf(k))
	case k.Segment-waits >= int(terms.Limits.Segments):
		l.broken("there are no more segments than limits.segments: %s", nameOf(k))
	}
}

// counts reports whether the attempt failed by its own fault.
func counts(a lifecycle.Attempt) bool {
	return a.Class == lifecycle.Crashed || a.Class == lifecycle.Faulted && a.Code.Counted()
}

// decided is what a replica has decided by what it saw.
func (l *laws) decided(o lifecycle.Observed, d lifecycle.Decision) {
	for _, e := range d.Do {
		f, ok := e.(lifecycle.Finish)
		if !ok || o.Recorded != nil {
			continue
		}
		counted := 0
		for _, a := range o.Admission.Attempts {
			if counts(a) {
				counted++
			}
		}
		switch {
		case f.End.Code == v1alpha1.ReasonPoisonSegment && counted < int(o.Admission.Terms.Retry.MaxAttempts):
			l.broken("disruptions do not count: poisoned after %d", counted)
		case f.End.Code == v1alpha1.ReasonIncompatibleSession:
			l.broken("all that is met was written by this version: %s", f.End.Message)
		}
	}
}

// started is a process that begins.
func (l *laws) started(h *pod) {
	l.processes[h.job]++
	if l.processes[h.job] > 1+l.w.cluster.duplicates[h.job] {
		l.broken("nothing but the manager tries again: process %d of %s", l.processes[h.job], h.job)
	}
	if !slices.ContainsFunc(l.w.pg.Every(runUID), func(a lifecycle.Attempt) bool { return a.AttemptKey == h.key }) {
		l.broken("no attempt works unknown to the ledger: %s", nameOf(h.key))
	}
}

func (l *laws) checkEnd() {
	if end := l.w.pg.end(); end != nil {
		if l.end != nil && *l.end != *end {
			l.broken("the end of a run is written once: %s after %s", end.Code, l.end.Code)
		}
		e := *end
		l.end = &e
	}
	shown := l.w.cluster.run.ended
	if l.shown != nil && (shown == nil || shown.Phase != l.shown.Phase || shown.Code != l.shown.Code) {
		l.broken("the end that the status shows stands")
	}
	l.shown = shown
}

// atTheEnd holds the last state against what was promised.
func (l *laws) atTheEnd() {
	w := l.w
	if l.cancelled {
		l.tally.cancelled++
	}
	if e := w.cluster.run.ended; e != nil && e.Phase == v1alpha1.RunSucceeded {
		l.tally.ended++
	}
	row, admitted := w.pg.store.Row(runUID)
	shown := w.cluster.run.ended
	switch {
	case admitted && l.end == nil:
		l.broken("every admitted run ends")
	case shown != nil && admitted && (shown.Phase != l.end.Phase || shown.Code != l.end.Code):
		l.broken("the status shows the end that the ledger has: %s and not %s", shown.Code, l.end.Code)
	case shown != nil && shown.Phase == v1alpha1.RunSucceeded && !l.final:
		l.broken("what has succeeded is final")
	case l.live || row.Held:
		l.broken("nobody holds a run that has ended")
	}
	// A manager that is slow ends a run by itself though its segment has left an outcome meanwhile.
	own := l.end == nil || l.end.Phase == v1alpha1.RunCancelled || l.end.Code == v1alpha1.ReasonPodNotStarted || l.end.Code == v1alpha1.ReasonPoisonSegment
	if o := l.lastOutcome(); !own && o.yield == contract.YieldFailed && l.end.Code != o.code {
		l.broken("a run that its segment has failed ends with the reason of that: %s and not %s", l.end.Code, o.code)
	}
	for _, c := range l.order {
		if c.result == nil && shown != nil && shown.Code == v1alpha1.ReasonCompleted {
			l.broken("a run completes only once its calls are settled: %s", keyName(c.key))
		}
	}
}

func (l *laws) lastOutcome() outcome {
	last := -1
	for n := range l.outcomes {
		last = max(last, n)
	}
	return l.outcomes[last]
}
