package sim

// tally is how much of what matters has happened: laws that nothing comes near are not tried.
type tally struct {
	steps, claims, intents, executions, indeterminate, approved, waits, segments, attempts, stale, cancelled, ended int
	// asked are the times that people were asked what came of a call, words what they said, failedRun the runs that failed over one.
	asked, words, probed, again, failedRun int
}

func (a *tally) add(b tally) {
	a.steps += b.steps
	a.claims += b.claims
	a.intents += b.intents
	a.executions += b.executions
	a.indeterminate += b.indeterminate
	a.approved += b.approved
	a.waits += b.waits
	a.segments += b.segments
	a.attempts += b.attempts
	a.stale += b.stale
	a.cancelled += b.cancelled
	a.ended += b.ended
	a.asked += b.asked
	a.words += b.words
	a.probed += b.probed
	a.again += b.again
	a.failedRun += b.failedRun
}
