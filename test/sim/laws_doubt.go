package sim

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// doubt is what is known of a call that may have been sent and has no result.
type doubt struct {
	// by are the processes that have begun it. sent says that it was sent since it was last begun.
	by   map[int64]*process
	sent bool
	// used are the words of people by which it was begun again.
	used map[types.UID]bool
	// probed is what the probe has said to a generation since the call was last begun.
	probed map[int64]v1alpha1.Verdict
	// foundOut says that its result is what a person or a probe has said.
	foundOut bool
}

// delivered is what was put into the inbox.
func (l *laws) delivered(d contract.Delivery) {
	if slices.ContainsFunc(l.inbox, func(o contract.Delivery) bool { return o.Request == d.Request }) {
		return
	}
	l.inbox = append(l.inbox, d)
	said := l.decisions[string(d.Request)]
	switch {
	case d.Phase == v1alpha1.ApprovalExpired:
	case string(said.verdict) != string(d.Phase) || said.by != d.By || said.digest != d.Digest || !said.inTime:
		l.broken("what is delivered is what a person has said in time: %s of %s", d.Phase, d.Request)
	}
	if d.Type == v1alpha1.ApprovalIndeterminate {
		l.tally.words++
	}
}

// word is the newest that was said of a call when the process claimed the run, unless the call was begun by it.
func (l *laws) word(p *process, c *called) *contract.Delivery {
	for i := p.heard - 1; i >= 0; i-- {
		if d := &l.inbox[i]; d.Type == v1alpha1.ApprovalIndeterminate && d.Turn == c.key.Turn && d.Index == c.key.Index && d.Digest == c.intent.Digest {
			if c.used[d.Request] {
				return nil
			}
			return d
		}
	}
	return nil
}

// approval reports whether a request is about whether a call may be made, and not about what came of it.
func (l *laws) approval(r types.UID) bool {
	return l.decisions[string(r)].kind != v1alpha1.ApprovalIndeterminate
}

func (l *laws) found(p *process, k segment.CallKey, says v1alpha1.Verdict) {
	l.tally.probed++
	c := l.call(k)
	if c.probed == nil {
		c.probed = map[int64]v1alpha1.Verdict{}
	}
	c.probed[p.claim.Generation] = says
}

// again holds an intent of a call that was begun before against what makes it right to make it again.
func (l *laws) again(p *process, c *called, i segment.Intent) {
	g := p.claim.Generation
	n := len(c.generations)
	repeated := n > 0 && c.generations[n-1] == g && !c.sent // the answer to its first try was lost
	if repeated {
		return
	}
	if n > 0 {
		l.entitled(g, c, i)
	}
	if n > 0 && !c.repeatable() {
		l.tally.again++
		l.alone(p, c)
	}
	if c.by == nil {
		c.by = map[int64]*process{}
	}
	c.by[g], c.sent, c.probed = p, false, nil
}

// alone holds a call that is made again against what those do who have made it before.
func (l *laws) alone(p *process, c *called) {
	for _, q := range c.by {
		if q == p || q.exit != nil || q.sending == nil || *q.sending != c.key {
			continue
		}
		l.broken("a call is made again only once whoever made it sends nothing of it any more: %s, and %s may", keyName(c.key), q.name)
	}
}

// entitled is by a person's word, which is used up by it, or by a probe's no.
func (l *laws) entitled(g int64, c *called, i segment.Intent) {
	for _, r := range i.Approvals {
		said := l.decisions[string(r)]
		if l.approval(r) || c.used[r] {
			continue
		}
		if said.verdict != v1alpha1.VerdictRetry || said.digest != i.Digest || !said.inTime {
			l.broken("a call is made again by a person who said Retry: %s by %s", keyName(c.key), said.verdict)
		}
		if c.used == nil {
			c.used = map[types.UID]bool{}
		}
		c.used[r] = true
		return
	}
	if c.probed[g] != v1alpha1.VerdictNotHappened && !c.repeatable() {
		l.broken("a call that must not be repeated is begun again only by a word that is not used up, or by a probe's no: %s", keyName(c.key))
	}
}

// foundOut reports whether a call, of which its process has heard nothing, is settled by what was found out, and holds what the
// model is told against that.
func (l *laws) foundOut(p *process, c *called, s segment.Settlement) bool {
	g, kind := p.claim.Generation, s.Result.Kind
	word := l.word(p, c)
	if c.generations[len(c.generations)-1] == g { // it was made again since
		word = nil
	}
	var want segment.ResultKind
	var says string
	switch {
	case word != nil && word.Phase == v1alpha1.ApprovalHappened:
		want, says = segment.ResultAnswered, word.By+" says that it took effect"
	case word != nil && word.Phase == v1alpha1.ApprovalNotHappened:
		want, says = segment.ResultFailed, word.By+" says that it did not take effect"
	case word == nil && c.probed[g] == v1alpha1.VerdictHappened:
		want, says = segment.ResultAnswered, "It took effect"
	default:
		return false
	}
	if kind != want || !strings.Contains(s.Result.Text, says) {
		l.broken("what the model is told is what a person or a probe has said: %s is %s, and not %q", keyName(c.key), kind, says)
	}
	return true
}

// givenUp holds a call of which nobody is to find out more against the rule that people are asked.
func (l *laws) givenUp(p *process, c *called) {
	a := p.claim.Snapshot.Agent
	asked := l.word(p, c) != nil && c.generations[len(c.generations)-1] != p.claim.Generation
	// A probe that there is no time for in the last segment is not asked, and nobody else is.
	last := c.intent.Tool == "crm/post" && p.claim.Segment+1-p.claim.Waits >= int(a.Limits.Segments)
	if a.OnIndeterminate == v1alpha1.IndeterminateAsk && !asked && !l.cancelled && !last {
		l.broken("where people are to be asked no call is given up before they were: %s", keyName(c.key))
	}
}

// unknown is a call of which nobody knows what it has done, or nil.
func (l *laws) unknown() *called {
	for _, c := range l.order {
		if c.result != nil && c.result.Kind == segment.ResultIndeterminate {
			return c
		}
	}
	return nil
}

func (l *laws) failsRun() bool {
	return l.w.agent.snapshot.Agent.OnIndeterminate == v1alpha1.IndeterminateFailRun
}

// runsOn is anything that a run does which has not ended.
func (l *laws) runsOn(p *process) {
	if c := l.unknown(); l.failsRun() && c != nil && p.claim.Generation == l.newest {
		l.broken("a run with FailRun does nothing more once nobody knows what a call has done: %s", keyName(c.key))
	}
}

// leftInDoubt holds an outcome against the rule that the run fails.
func (l *laws) leftInDoubt(o contract.Outcome) {
	c := l.unknown()
	named := o.Yield == contract.YieldFailed && o.Code == v1alpha1.ReasonCallIndeterminate
	other := o.Yield == contract.YieldFailed && o.Code == v1alpha1.ReasonToolFailed && l.w.agent.snapshot.Agent.OnToolFailure == v1alpha1.ToolFailureFailRun
	switch fails := l.failsRun() && c != nil; {
	case fails && !named && !other && o.Yield != contract.YieldCancelled:
		l.broken("a run with FailRun ends with its reason once nobody knows what a call has done: %s, and it leaves %s %s", keyName(c.key), o.Yield, o.Code)
	case named && !fails:
		l.broken("a run ends because of a call that nobody knows only if there is one, and with FailRun")
	case named:
		l.tally.failedRun++
	}
	if o.Wait != nil && o.Wait.Asks[0].Type == v1alpha1.ApprovalIndeterminate {
		l.tally.asked++
	}
}

func firstAsk(o contract.Outcome) *contract.Ask {
	if o.Wait == nil {
		return nil
	}
	return &o.Wait.Asks[0]
}

// goesOn holds a claim against what the run has waited for.
func (l *laws) goesOn(p *process) {
	before := l.outcomes[p.claim.Segment-1]
	a := before.ask
	if a == nil {
		return
	}
	if !slices.ContainsFunc(l.inbox[before.heard:], func(d contract.Delivery) bool {
		return d.Turn == a.Turn && d.Index == a.Index && d.Digest == a.Digest && (d.Type == v1alpha1.ApprovalIndeterminate) == (a.Type == v1alpha1.ApprovalIndeterminate)
	}) {
		l.broken("a run that waits goes on only once the first of its calls is decided: %d.%d", a.Turn, a.Index)
	}
}
