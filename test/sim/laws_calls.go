package sim

import (
	"slices"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// called is what is known of one call.
type called struct {
	key         segment.CallKey
	intent      segment.Intent
	generations []int64 // those that wrote its intent
	executed    int
	heard       []int64 // the generations that had an answer of the tool
	result      *segment.CallResult
	doubt
}

func (c *called) repeatable() bool {
	return c.intent.Effect == v1alpha1.EffectRead || c.intent.Idempotency == v1alpha1.IdempotencyKey
}

// decision is what a person said, and when.
type decision struct {
	kind    v1alpha1.ApprovalType
	verdict v1alpha1.Verdict
	by      string
	digest  string
	inTime  bool
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
	l.again(p, c, i)
	c.intent = i
	if !slices.Contains(c.generations, p.claim.Generation) {
		c.generations = append(c.generations, p.claim.Generation)
	}
	l.inOrder(i.CallKey)
	l.runsOn(p)
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
	case !slices.ContainsFunc(i.Approvals, l.approval):
		l.broken("what people have to approve is not made without: %s", keyName(i.CallKey))
	}
	l.tally.approved++
	var who []string
	for _, r := range i.Approvals {
		d := l.decisions[string(r)]
		if !l.approval(r) {
			continue
		}
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
	case c.result != nil && (!stale || !c.repeatable() && c.result.Kind != segment.ResultIndeterminate && !c.foundOut):
		// A zombie may still send the one call whose intent it had committed.
		l.broken("a settled call is never executed again: %s", keyName(k))
	}
	c.sent = true
	if done {
		c.executed++
		l.tally.executions++
	}
	if c.executed > 1+len(c.used) && !c.repeatable() {
		l.broken("a call that must not be repeated is executed once, and once more for each person who said Retry: %s", keyName(k))
	}
}

func (l *laws) heard(p *process, permit gate.Permit) {
	c := l.call(segment.CallKey{Turn: permit.Turn(), Index: permit.Index()})
	c.heard = append(c.heard, p.claim.Generation)
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
	case len(c.generations) > 0 && s.Effect != v1alpha1.EffectRead && !slices.Contains(c.heard, g) && l.foundOut(p, c, s):
		c.foundOut = true
	case kind == segment.ResultAnswered && !slices.Contains(c.heard, g):
		l.broken("a call is answered only if its tool has answered: %s", keyName(s.CallKey))
	case s.Effect != v1alpha1.EffectRead && kind != segment.ResultIndeterminate && !slices.Contains(c.heard, g) && (c.executed > 0 || others):
		l.broken("a call that may have been sent and was not heard of is indeterminate: %s is %s", keyName(s.CallKey), kind)
	}
	c.result = &s.Result
	if kind == segment.ResultIndeterminate {
		l.tally.indeterminate++
		l.givenUp(p, c)
	}
	if c.intent.Tool == "" {
		c.intent.Tool, c.intent.Effect = s.Tool, s.Effect
	}
	return nil
}
