package sim

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// laws is a witness. It writes down by itself what is done and what is answered, and believes no table: what it holds against
// the store is what it saw.
type laws struct {
	w *world
	// law is the first that was broken, or empty.
	law string

	// newest is the newest generation that was granted. live says that its holder may write, until when if it does not renew.
	newest int64
	live   bool
	until  time.Time
	key    lifecycle.AttemptKey

	generation       int64
	cancelled, final bool
	entries, turns   int
	failed           int // tries in a row
	answers          map[string]bool
	outcomes         map[int]outcome
	calls            map[segment.CallKey]*called
	order            []*called
	end, shown       *lifecycle.End
	processes        map[types.UID]int // by their Jobs
	// decisions are what people decided, by request.
	decisions map[string]decision
	tally     tally
}

// tally is how much of what matters has happened: laws that nothing comes near are not tried.
type tally struct {
	steps, claims, intents, executions, indeterminate, approved, waits, segments, attempts, stale, cancelled, ended int
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
}

type outcome struct {
	generation int64
	yield      contract.Yield
}

// called is what is known of one call.
type called struct {
	key         segment.CallKey
	intent      segment.Intent
	generations []int64 // those that wrote its intent
	executed    int
	heard       int64 // the generation that had an answer of the tool
	result      *segment.CallResult
}

func (c *called) repeatable() bool {
	return c.intent.Effect == v1alpha1.EffectRead || c.intent.Idempotency == v1alpha1.IdempotencyKey
}

// decision is what a person said, and when.
type decision struct {
	verdict v1alpha1.Verdict
	by      string
	digest  string
	inTime  bool
}

func newLaws(w *world) *laws {
	return &laws{
		w: w, answers: map[string]bool{}, outcomes: map[int]outcome{}, calls: map[segment.CallKey]*called{},
		processes: map[types.UID]int{}, decisions: map[string]decision{},
	}
}

func (l *laws) broken(format string, args ...any) {
	if l.law == "" {
		l.law = fmt.Sprintf(format, args...)
		l.w.tell("BROKEN: %s", l.law)
	}
}

func (l *laws) call(k segment.CallKey) *called {
	c := l.calls[k]
	if c == nil {
		c = &called{key: k}
		l.calls[k] = c
		l.order = append(l.order, c)
	}
	return c
}

// claimed is a claim that was granted.
func (l *laws) claimed(p *process) {
	g := p.claim.Generation
	_, over := l.outcomes[p.claim.Segment]
	switch {
	case g <= l.newest:
		l.broken("a claim has a new generation: %d after %d", g, l.newest)
	case l.live && !l.until.Before(l.w.now):
		l.broken("a live lease is not taken over: that of generation %d by %s", l.newest, p.name)
	case l.cancelled || l.final || over:
		l.broken("nothing is claimed that is cancelled or over: %s", p.name)
	}
	l.tally.claims++
	l.newest, l.live, l.until, l.key = g, true, l.w.now.Add(contract.LeaseTTL), p.pod.key
}

// freed is a claim that the store takes back from its own holder.
func (l *laws) freed(generation int64) {
	if l.newest == generation {
		l.live = false
	}
}

// terminated is a claim that the manager gives back.
func (l *laws) terminated(k lifecycle.AttemptKey) {
	if l.key == k {
		l.live = false
	}
}

// accepted is a write, by what became of it.
func (l *laws) accepted(p *process, err error, what string) error {
	switch {
	case err == segment.ErrFenced: //nolint:errorlint // unwrapped in memory
		l.tally.stale++
	case err != nil:
	case p.claim.Generation != l.newest || !l.live || l.final:
		l.broken("no write of a stale claim is accepted: %s by generation %d, and %d is the newest", what, p.claim.Generation, l.newest)
	default:
		l.until = l.w.now.Add(contract.LeaseTTL)
	}
	return err
}

// appended is an entry that was added.
func (l *laws) appended(p *process, at int, e segment.Entry, err error) error {
	if l.accepted(p, err, "append") != nil {
		return err
	}
	p.owes = false
	if at < l.entries { // a repetition
		return nil
	}
	l.entries++
	a, ok := e.(segment.Answered)
	if !ok {
		if l.failed++; l.failed > int(l.w.agent.snapshot.Agent.Retry.MaxAttempts) {
			l.broken("a turn has no more tries than retry.maxAttempts: %d", l.failed)
		}
		return nil
	}
	l.failed = 0
	if l.answers[string(a.Raw)] || a.Turn != l.turns {
		l.broken("each answer of the model is in the transcript once, in order: turn %d", a.Turn)
	}
	l.answers[string(a.Raw)] = true
	if l.turns++; l.turns > int(l.w.agent.snapshot.Agent.Limits.Turns) {
		l.broken("there are no more turns than limits.turns: %d", l.turns)
	}
	return nil
}

// asked is a request to the model, answered the end of one that was not cut.
func (l *laws) asked(p *process) {
	if p.owes {
		l.broken("the model is asked again only once the try before is in the transcript: %s", p.name)
	}
}

func (l *laws) answered(p *process) { p.owes = true }

// begun is an intent.
func (l *laws) begun(p *process, i segment.Intent, err error) error {
	if l.accepted(p, err, "intent") != nil {
		return err
	}
	c := l.call(i.CallKey)
	l.tally.intents++
	switch {
	case l.cancelled:
		l.broken("after the cancel no call begins: %s", keyName(i.CallKey))
	case l.shown != nil:
		l.broken("once the status shows an end no call begins: %s", keyName(i.CallKey))
	case i.PolicyVersion != int64(l.w.pg.versions):
		l.broken("a call begins only under the newest policy: %s under %d of %d", keyName(i.CallKey), i.PolicyVersion, l.w.pg.versions)
	case c.result != nil:
		l.broken("a settled call does not begin again: %s", keyName(i.CallKey))
	case len(c.generations) > 0 && (c.intent.Digest != i.Digest || c.intent.Key != i.Key):
		l.broken("a call begins again only with the same arguments and the same key: %s", keyName(i.CallKey))
	}
	l.allowed(p, i)
	c.intent = i
	if !slices.Contains(c.generations, p.claim.Generation) {
		c.generations = append(c.generations, p.claim.Generation)
	}
	l.inOrder(i.CallKey)
	return nil
}

// inOrder holds an intent against the calls before it, and against how many there may be.
func (l *laws) inOrder(k segment.CallKey) {
	begun := 0
	for _, c := range l.order {
		if len(c.generations) > 0 {
			begun++
		}
	}
	if most := int(l.w.agent.snapshot.Agent.Limits.ToolCalls); begun > most {
		l.broken("there are no more calls than limits.toolCalls: %d of %d", begun, most)
	}
	for i := range k.Index {
		if c := l.calls[segment.CallKey{Turn: k.Turn, Index: i}]; c == nil || c.result == nil {
			l.broken("calls of a turn are made in their order: %s before %d.%d", keyName(k), k.Turn, i)
		}
	}
}

// allowed holds an intent against the policy and against what people have said.
func (l *laws) allowed(p *process, i segment.Intent) {
	for _, d := range p.claim.Inbox {
		if d.Turn == i.Turn && d.Index == i.Index && d.Digest == i.Digest && d.Phase == v1alpha1.ApprovalDenied {
			l.broken("a denied call is never made: %s", keyName(i.CallKey))
		}
	}
	action := policies[l.w.projected[i.PolicyVersion]].action[i.Tool]
	doubtful := i.Effect != v1alpha1.EffectRead && l.doubtful(i)
	switch {
	case action == v1alpha1.PolicyDeny:
		l.broken("what the policy denies is never made: %s", keyName(i.CallKey))
	case action == v1alpha1.PolicyAllow && !doubtful:
		return
	case len(i.Approvals) == 0:
		l.broken("what people have to approve is not made without: %s", keyName(i.CallKey))
	}
	l.tally.approved++
	var who []string
	for _, r := range i.Approvals {
		d := l.decisions[string(r)]
		if d.verdict != v1alpha1.VerdictApproved || d.digest != i.Digest || !d.inTime || slices.Contains(who, d.by) {
			l.broken("each approval is of these arguments, in time and of another person: %s by %q", keyName(i.CallKey), d.by)
		}
		who = append(who, d.by)
	}
}

// doubtful reports whether nobody knows what another call of the tool has done.
func (l *laws) doubtful(i segment.Intent) bool {
	return slices.ContainsFunc(l.order, func(c *called) bool {
		return c.key != i.CallKey && c.intent.Tool == i.Tool && c.result != nil && c.result.Kind == segment.ResultIndeterminate
	})
}

// executed is a call that the tool carries out.
func (l *laws) executed(p *process, permit gate.Permit, done bool) {
	k := segment.CallKey{Turn: permit.Turn(), Index: permit.Index()}
	c, g := l.call(k), p.claim.Generation
	stale := g != l.newest || !l.live || l.final
	switch {
	case !slices.Contains(c.generations, g) || c.intent.Digest != permit.Digest() || c.intent.Key != permit.Key():
		l.broken("nothing is sent before its intent is committed: %s", keyName(k))
	case c.result != nil && (!stale || !c.repeatable() && c.result.Kind != segment.ResultIndeterminate):
		// A zombie may still send the one call whose intent it had committed.
		l.broken("a settled call is never executed again: %s", keyName(k))
	}
	if done {
		c.executed++
		l.tally.executions++
	}
	if c.executed > 1 && !c.repeatable() {
		l.broken("a call that is neither Read nor idempotent by Key is executed at most once: %s", keyName(k))
	}
}

func (l *laws) heard(p *process, permit gate.Permit) {
	l.call(segment.CallKey{Turn: permit.Turn(), Index: permit.Index()}).heard = p.claim.Generation
}

// settled is a result.
func (l *laws) settled(p *process, s segment.Settlement, err error) error {
	if l.accepted(p, err, "settle") != nil {
		return err
	}
	c, g, kind := l.call(s.CallKey), p.claim.Generation, s.Result.Kind
	if c.result != nil { // a repetition: it changes nothing, which check sees
		return nil
	}
	others := slices.ContainsFunc(c.generations, func(o int64) bool { return o != g })
	switch {
	case kind == segment.ResultAnswered && c.heard != g:
		l.broken("a call is answered only if its tool has answered: %s", keyName(s.CallKey))
	case s.Effect != v1alpha1.EffectRead && kind != segment.ResultIndeterminate && c.heard != g && (c.executed > 0 || others):
		l.broken("a call that may have been sent and was not heard of is indeterminate: %s is %s", keyName(s.CallKey), kind)
	}
	c.result = &s.Result
	if kind == segment.ResultIndeterminate {
		l.tally.indeterminate++
	}
	if c.intent.Tool == "" {
		c.intent.Tool, c.intent.Effect = s.Tool, s.Effect
	}
	return nil
}

// yielded is an outcome.
func (l *laws) yielded(p *process, o contract.Outcome, err error) {
	there, again := l.outcomes[p.claim.Segment]
	switch {
	case err != nil:
		_ = l.accepted(p, err, "yield")
	case again && there == (outcome{p.claim.Generation, o.Yield}): // a repetition
	case again:
		l.broken("a segment has one outcome: %d", p.claim.Segment)
	default:
		_ = l.accepted(p, err, "yield")
		l.tally.segments++
		if o.Yield == contract.YieldWaiting {
			l.tally.waits++
		}
		l.outcomes[p.claim.Segment] = outcome{p.claim.Generation, o.Yield}
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

// check holds the tables against what was witnessed. It comes after every step.
func (l *laws) check() {
	row, admitted := l.w.pg.store.Row(runUID)
	if !admitted {
		return
	}
	switch {
	case row.Generation < l.generation:
		l.broken("generations only rise: %d after %d", row.Generation, l.generation)
	case l.cancelled && !row.Cancelled || l.final && !row.Final:
		l.broken("a cancel and an end stand")
	case row.Entries != l.entries:
		l.broken("the transcript holds what was appended: %d entries and not %d", row.Entries, l.entries)
	case row.Outcomes != len(l.outcomes):
		l.broken("there is an outcome for each that was left: %d and not %d", row.Outcomes, len(l.outcomes))
	}
	l.generation, l.cancelled, l.final = row.Generation, row.Cancelled, row.Final
	l.live = l.live && !row.Final
	for _, c := range l.order {
		stored, _ := l.w.pg.store.Call(runUID, c.key)
		if (c.result == nil) != (stored.Result == nil) || c.result != nil && *c.result != *stored.Result {
			l.broken("what is settled stays as it is: %s", keyName(c.key))
		}
	}
	l.checkEnd()
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
	for _, c := range l.order {
		if c.result == nil && shown != nil && shown.Code == v1alpha1.ReasonCompleted {
			l.broken("a run completes only once its calls are settled: %s", keyName(c.key))
		}
	}
}
