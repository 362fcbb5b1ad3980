package sim

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/runtime/contract"
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
	pod    types.UID // the newest holder

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
	// inbox is what of it was delivered, in its order.
	inbox []contract.Delivery
	tally tally
}

// outcome is what a segment has left. heard is how many deliveries it had seen.
type outcome struct {
	generation int64
	yield      contract.Yield
	code       string
	ask        *contract.Ask // the first, of one that waits
	heard      int
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
	p.heard = len(l.inbox)
	l.goesOn(p)
	l.newest, l.live, l.until, l.key, l.pod = g, true, l.w.now.Add(contract.LeaseTTL), p.pod.key, p.pod.uid
}

// freed is a claim that the store takes back from its own holder.
func (l *laws) freed(generation int64) {
	if l.newest == generation {
		l.live = false
	}
}

// terminated is a claim that the manager gives back, if one of those pods holds it.
func (l *laws) terminated(k lifecycle.AttemptKey, pods []types.UID) {
	if l.key == k && slices.Contains(pods, l.pod) {
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
	l.runsOn(p)
	if n := len(p.transcript); n > 0 {
		a, _ := p.transcript[n-1].(segment.Answered)
		for i := range a.Calls {
			if c := l.calls[segment.CallKey{Turn: a.Turn, Index: i}]; c == nil || c.result == nil {
				l.broken("the model is asked only once every call has its result: %s without %d.%d", p.name, a.Turn, i)
			}
		}
	}
}

func (l *laws) answered(p *process) { p.owes = true }

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
