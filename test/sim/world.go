package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/policy"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/memory"
)

// Bugs are faults planted in the model and in the stores, never in the code under test.
type Bugs struct {
	memory.Bugs
	// SettleFirst settles a call before it is sent, NoIntent sends it without an intent, SendTwice sends again what must not be.
	SettleFirst, NoIntent, SendTwice bool
	// RetryTwice lets the Job controller try again beside the manager, AskTwice a process ask the model again by itself.
	RetryTwice, AskTwice bool
	// FinishTwice lets the last end of a run count, and not the first.
	FinishTwice bool
	// CursorAhead has each wait say that it has seen one delivery more than it has.
	CursorAhead bool
	// JobFirst makes a Job before its attempt is written down.
	JobFirst bool
	// LateCounts takes up decisions though the request has expired.
	LateCounts bool
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is one history of one run.
type world struct {
	d    draws
	now  time.Time // the ledger's
	step int
	turn int // of whom it is, in a fair order

	agent  *agent
	script script
	// asked is how often the model was asked, so that no two of its answers are the same.
	asked int
	// people says that somebody looks at requests.
	people bool
	// fair says that nothing bad happens any more.
	fair bool

	queued  time.Time
	defined bool
	pg      *postgres
	cluster cluster
	// projected is which of policies each version is.
	projected map[int64]int
	replicas  [2]*replica
	processes []*process
	laws      *laws
	bugs      Bugs

	acts []act
	// trace is what has happened, in sentences; nil if nobody reads it.
	trace *strings.Builder
}

type act struct {
	what string
	do   func()
}

// maxFair is how many steps a run may take to come to rest once nothing bad happens any more.
const maxFair = 4000

// play lives through a schedule and tells the law that it broke, or nothing, and how much has happened.
func play(s Schedule, bugs Bugs, trace *strings.Builder) (broken string, _ tally) {
	w := newWorld(s.Setting, bugs, trace)
	defer w.drop()
	w.play(s)
	w.laws.tally.steps = w.step
	return w.laws.law, w.laws.tally
}

func (w *world) play(s Schedule) {
	for i, number := range s.Steps {
		if i%16 == 15 && w.atRest() {
			break
		}
		if w.take(number); w.laws.law != "" {
			return
		}
	}
	w.calm()
	for n := 0; !w.atRest(); n++ {
		if n == maxFair {
			w.laws.broken("every run comes to rest once nothing bad happens: %s", w.restless())
		}
		if w.take(0); w.laws.law != "" {
			return
		}
	}
	w.laws.atTheEnd()
}

func newWorld(setting uint64, bugs Bugs, trace *strings.Builder) *world {
	w := &world{now: start, queued: start, bugs: bugs, trace: trace, projected: map[int64]int{}, d: draws{setting}}
	w.pg = newPostgres(func() time.Time { return w.now })
	w.pg.store.Break(bugs.Bugs)
	w.pg.twice = bugs.FinishTwice
	if bugs.CursorAhead {
		w.pg.cursor = 1
	}
	w.agent, w.script = &agents[w.d.n(len(agents))], scripts[w.d.n(len(scripts))]
	w.people, w.defined = w.d.n(5) > 0 || setting == 0, w.d.n(16) > 0 || setting == 0
	w.cluster.duplicates = map[types.UID]int{}
	w.cluster.run = run{version: 1}
	if w.d.once(3) {
		w.cluster.run.ttl = time.Minute
	}
	w.cluster.policy, w.cluster.edits = 1, 1 // one under which much is done
	if w.d.once(2) {
		w.cluster.policy = w.d.n(len(policies))
	}
	w.laws = newLaws(w)
	for i := range w.replicas {
		w.replicas[i] = &replica{w: w, name: "manager " + itoa(i)}
		w.replicas[i].crash()
	}
	return w
}

// drop lets go of all routines.
func (w *world) drop() {
	for _, r := range w.replicas {
		for i := range r.workers {
			if k := r.workers[i].routine; k != nil {
				k.stop()
			}
		}
	}
	for _, p := range w.processes {
		p.routine.stop()
	}
}

func (w *world) tell(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%4d %8.1fs  ", w.step, w.now.Sub(start).Seconds())
		fmt.Fprintf(w.trace, format, args...)
		w.trace.WriteByte('\n')
	}
}

// take is one step.
func (w *world) take(number uint64) {
	w.step++
	w.d = draws{number}
	switch class := w.d.n(20); {
	case class >= 16 && w.strike():
	case class >= 18:
		w.fault()
	case class >= 15:
		w.pass(durations[w.d.n(len(durations))])
	default:
		w.one()
	}
	w.laws.check()
}

var durations = []time.Duration{time.Second, 3 * time.Second, 11 * time.Second, 31 * time.Second, 41 * time.Second, 95 * time.Second, 310 * time.Second}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.tell("%v pass", d)
}

// one lets somebody do one thing. If nobody has anything to do, time passes until somebody has.
func (w *world) one() {
	w.acts = w.acts[:0]
	w.gather()
	if len(w.acts) == 0 {
		w.pass(max(w.next().Sub(w.now), 0))
		return
	}
	a := w.acts[(w.turn+w.d.n(len(w.acts)))%len(w.acts)]
	w.turn++
	if w.trace != nil {
		w.tell("%s", a.what)
	}
	a.do()
}

func (w *world) add(what string, do func()) { w.acts = append(w.acts, act{what, do}) }

// say is a sentence, if anybody reads it.
func (w *world) say(words ...string) string {
	if w.trace == nil {
		return ""
	}
	return strings.Join(words, "")
}

// gather lists what could happen now, in a fixed order.
func (w *world) gather() {
	for _, r := range w.replicas {
		for kind := range kinds {
			if r.cache.version[kind] != w.cluster.version[kind] {
				w.add(w.say(r.name, " hears of ", kindNames[kind]), func() { r.sync(kind) })
			}
		}
		for i := range r.workers {
			if k := &r.workers[i]; k.ready(w.now) {
				what := "looks"
				if k.busy {
					what = k.doing
				}
				w.add(w.say(r.name, ", ", workerNames[i], ": ", what), func() { r.work(i) })
			}
		}
	}
	w.chores(w.add)
	for _, p := range w.processes {
		if p.frozen && w.fair && p.exit == nil && !p.thaw.After(w.now) {
			w.add(w.say(p.name, " wakes up"), func() { p.frozen = false })
		}
		if p.exit != nil || p.frozen {
			continue
		}
		if !p.wake.After(w.now) {
			w.add(w.say(p.name, ": ", p.doing), func() { p.resume() })
		}
		if !p.beatAt.IsZero() && !p.beatAt.After(w.now) {
			w.add(w.say(p.name, ": beats"), p.beat)
		}
	}
	if !w.people {
		return
	}
	for _, q := range w.cluster.requests {
		if q.Spec.Decision.Verdict == "" && q.Status.Phase == "" {
			w.add(w.say("somebody decides on ", q.Name), func() { w.decide(q) })
		}
	}
}

// next is when somebody has something to do next.
func (w *world) next() time.Time {
	var at time.Time
	consider := func(t time.Time) {
		if !t.IsZero() && t.After(w.now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, r := range w.replicas {
		for i := range r.workers {
			consider(r.workers[i].again)
		}
	}
	for _, p := range w.processes {
		switch {
		case p.exit != nil:
		case p.frozen:
			consider(p.thaw)
		default:
			consider(p.wake)
			consider(p.beatAt)
		}
	}
	for _, h := range w.cluster.hosted {
		if !h.lost {
			consider(h.killAt)
		}
	}
	if at.IsZero() {
		return w.now.Add(10 * time.Second)
	}
	return at
}

// write is one read or write of somebody whose answer may be lost, before it is carried out or after.
func (w *world) write(who, what string, f func() error) error {
	lost := 0
	if w.d.once(10) {
		lost = 1 + w.d.n(2)
	}
	if lost == 1 {
		w.tell("   lost before it was carried out: %s, %s", who, what)
		return segment.ErrUnavailable
	}
	err := f()
	if w.trace != nil && err != nil {
		w.tell("   %s: %v", what, err)
	}
	w.note()
	if lost == 2 && err == nil {
		w.tell("   carried out, and the answer lost: %s, %s", who, what)
		return segment.ErrUnavailable
	}
	return err
}

// note keeps in mind which policy a new version is.
func (w *world) note() {
	if v := int64(w.pg.versions); len(w.projected) < w.pg.versions {
		all := w.pg.Policies(namespaceUID)
		newest := all[len(all)-1]
		w.projected[v] = slices.IndexFunc(policies, func(r rules) bool { return same(r.set, newest) })
	}
}

func same(a, b contract.PolicySet) bool {
	return slices.EqualFunc(a.Sources[0].Rules, b.Sources[0].Rules, func(x, y v1alpha1.PolicyRule) bool {
		return x.Action == y.Action && slices.Equal(x.Match.Tools, y.Match.Tools)
	})
}

// compiled is policy.Compile of one of policies, or of none.
func (w *world) compiled(set contract.PolicySet) *policy.Rules {
	if len(set.Sources) == 0 {
		return nil
	}
	for _, r := range policies {
		if same(r.set, set) {
			return r.rules
		}
	}
	return policy.Compile(set)
}

// reply is what the model answers, and when.
type reply struct {
	at     time.Time
	answer segment.Answered
	fault  *segment.CallError
}

// ask is one request to the model. It never answers the same twice: the calls of a turn are others when it is asked again.
func (w *world) ask(p *process, t segment.Think) reply {
	w.laws.asked(p)
	w.asked++
	r := reply{at: w.now.Add(time.Duration(1+w.d.n(3)) * time.Second)}
	if w.d.once(12) {
		r.at = w.now.Add(100 * time.Second)
	}
	switch {
	case w.d.once(7):
		r.fault = &segment.CallError{Retryable: true, Code: "Overloaded"}
	case w.d.once(12):
		r.fault = &segment.CallError{Retryable: true, Code: "RateLimited", RetryAfter: time.Duration(1+w.d.n(140)) * time.Second}
	case w.d.once(60):
		r.fault = &segment.CallError{Code: v1alpha1.ReasonRequestRefused}
	}
	r.answer = segment.Answered{Turn: t.Turn, Try: t.Try, Raw: []byte(`{"n":` + itoa(w.asked) + `}`), Finish: segment.FinishStop, Text: "done"}
	if t.Turn < len(w.script) {
		r.answer.Finish, r.answer.Text = segment.FinishCalls, ""
		for i := range w.script[t.Turn] {
			tool := (t.Turn + i + w.d.n(len(tools))) % len(tools)
			r.answer.Calls = append(r.answer.Calls, proposal(tool, w.asked*8+i))
		}
	}
	return r
}

// What a tool may do with a call.
const (
	toolAnswers = iota
	toolFails
	toolRefuses // it is not carried out, and says so
	toolSilent  // it is carried out, and nobody hears of it
)

type toolAnswer struct {
	at   time.Time
	kind int
}

// execute is a call that reaches its tool.
func (w *world) execute(p *process, permit gate.Permit) toolAnswer {
	a := toolAnswer{at: w.now.Add(time.Duration(w.d.n(4)) * time.Second)}
	if w.d.once(3) {
		a.kind = 1 + w.d.n(3)
	}
	if w.d.once(15) {
		a.at = w.now.Add(70 * time.Second) // later than its timeout
	}
	w.tell("   %s is sent %s: %s", permit.Tool().Name, permit.Arguments(), [...]string{"done", "fails", "refuses", "done, without an answer"}[a.kind])
	w.laws.executed(p, permit, a.kind != toolRefuses)
	return a
}

// decide is a person who answers a request, perhaps too late.
func (w *world) decide(q *v1alpha1.ApprovalRequest) {
	verdict := v1alpha1.VerdictApproved
	if w.d.once(4) {
		verdict = v1alpha1.VerdictDenied
	}
	by := [...]string{"alice", "bob", "carol"}[(len(w.cluster.requests)+w.d.n(3))%3] // asked again, it is another's turn
	for i, live := range w.cluster.requests {
		if live.UID != q.UID {
			continue
		}
		changed := *live
		changed.Spec.Decision.Verdict, changed.Spec.Decision.By = verdict, by
		if w.bugs.LateCounts {
			changed.Spec.ExpiresAt = metav1.NewTime(w.now.Add(time.Hour))
		}
		w.cluster.requests[i] = &changed
		w.cluster.changed(ofRequests)
		w.laws.decisions[string(q.UID)] = decision{verdict: verdict, by: by, digest: q.Spec.Call.Digest, inTime: w.now.Before(q.Spec.ExpiresAt.Time)}
		w.tell("   %s by %s", verdict, by)
	}
}

// deleteRun is the API server's: a run that is held stays until it is let go.
func (w *world) deleteRun() {
	r := &w.cluster.run
	if r.gone || r.deleting {
		return
	}
	r.deleting = true
	r.version++
	w.cluster.changed(ofRun)
	w.released()
}

func (w *world) released() {
	if r := &w.cluster.run; r.deleting && !r.held {
		r.gone = true
		for i, other := range w.replicas {
			other.workers[sweeper].again = w.now.Add(time.Duration(20+20*i) * time.Second)
		}
	}
}

func (w *world) kill(p *process) {
	if p.exit == nil {
		p.routine.stop()
		p.exit = &exit{code: 137}
	}
}

// settling reports whether Jobs that have ended may go already.
func (w *world) settling() bool { return w.fair || w.d.once(3) }

// calm ends what is bad, but for nodes that are lost for good.
func (w *world) calm() {
	w.fair, w.defined, w.cluster.full = true, true, false
	for i, p := range w.processes { // some wake up long after others have taken over
		p.thaw = w.now.Add(time.Duration(i%3) * 70 * time.Second)
	}
	w.tell("from here on nothing bad happens")
}

// atRest reports whether nothing is left to do.
func (w *world) atRest() bool { return w.restless() == "" }

// restless says what is left to do.
func (w *world) restless() string {
	r := w.cluster.run
	row, admitted := w.pg.store.Row(runUID)
	switch {
	case !r.gone && (r.ended == nil || r.deleting || r.ttl > 0):
		return "the run has not ended, or stays although it is to go"
	case admitted && !row.Final:
		return "the ledger has no end"
	}
	for _, p := range w.processes {
		if p.exit == nil {
			return p.name + " lives"
		}
	}
	for _, q := range w.cluster.requests {
		if q.Status.Phase == "" {
			return q.Name + " is open"
		}
	}
	all := w.pg.Every(runUID)
	for _, a := range all {
		// One that a stale leader has begun at an earlier segment is looked at by nobody: its process finds nothing to do.
		if a.EndedAt.IsZero() && a.Segment == all[len(all)-1].Segment && !r.gone {
			return "attempt " + nameOf(a.AttemptKey) + " is open"
		}
	}
	return ""
}

// fault is something bad.
func (w *world) fault() {
	c := &w.cluster
	switch w.d.n(18) {
	case 0, 1:
		r := w.replicas[w.d.n(len(w.replicas))]
		w.tell("%s crashes", r.name)
		r.crash()
	case 2, 3, 4:
		if p := w.process(); p != nil {
			w.tell("%s is killed", p.name)
			w.kill(p)
		}
	case 5, 6:
		if p := w.process(); p != nil {
			p.frozen = !p.frozen
			w.tell("%s is stopped: %v", p.name, p.frozen)
		}
	case 7:
		if h := w.host(); h != nil {
			w.tell("%s is evicted", h.uid)
			c.change(h.uid, func(p *corev1.Pod) {
				p.Status.Conditions = append(slices.Clone(p.Status.Conditions), corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
			})
			w.told(h)
		}
	case 8:
		if len(c.jobs) > 0 {
			j := c.jobs[w.d.n(len(c.jobs))]
			w.tell("Job %s is deleted by hand", j.Name)
			c.deleteJob(j.Name)
		}
	case 9:
		if h := w.host(); h != nil {
			w.tell("%s is deleted by hand", h.uid)
			w.told(h)
		}
	case 10:
		w.loseNode()
	case 11:
		if len(c.jobs) > 0 {
			j := c.jobs[w.d.n(len(c.jobs))]
			w.tell("Job %s makes another pod", j.Name)
			c.duplicates[j.UID]++
			c.createPod(j)
		}
	case 12:
		w.stopRun()
	case 13, 14:
		c.policy = w.d.n(len(policies))
		c.edits++
		c.changed(ofPolicy)
		w.tell("the policy is changed to %d", c.policy)
	case 15:
		w.skew()
	case 16:
		c.full = !c.full
		w.defined = true
		w.tell("the quota is used up: %v", c.full)
	case 17:
		if n := len(c.requests); n > 0 {
			q := c.requests[w.d.n(n)]
			w.tell("%s is deleted by hand", q.Name)
			c.requests = slices.DeleteFunc(c.requests, func(other *v1alpha1.ApprovalRequest) bool { return other == q })
			c.changed(ofRequests)
		}
	}
}

// strike hits a process where it hurts, if there is one: at a write or before a call is sent.
func (w *world) strike() bool {
	for _, p := range w.processes {
		word, _, _ := strings.Cut(p.doing, " ")
		if p.exit != nil || p.frozen || word != sore[w.d.n(len(sore))] {
			continue
		}
		p.frozen = w.d.n(2) == 0
		w.tell("%s is hit where it %s; it will wake up: %v", p.name, p.doing, p.frozen)
		if !p.frozen {
			w.kill(p)
		}
		return true
	}
	return false
}

var sore = []string{"intent", "sends", "waits", "settle"}

// stopRun cancels the run, or deletes it.
func (w *world) stopRun() {
	r := &w.cluster.run
	if w.d.once(3) {
		w.tell("the run is deleted")
		w.deleteRun()
		return
	}
	if !r.gone && !r.cancel {
		r.cancel = true
		r.version++
		w.cluster.changed(ofRun)
		w.tell("the run is cancelled")
	}
}

// loseNode loses a node for good: its kubelet is not heard of any more. What ran there is gone, or goes on cut off from the cluster.
func (w *world) loseNode() {
	h := w.host()
	if h == nil || h.process == nil {
		return
	}
	h.lost = true
	w.tell("the node of %s is lost", h.uid)
	switch w.d.n(3) {
	case 0:
		w.kill(h.process)
	case 1:
		h.process.frozen = true
	}
	if w.d.once(2) { // and the cluster notices
		w.cluster.change(h.uid, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses = nil
			p.Status.Conditions = append(slices.Clone(p.Status.Conditions), corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
		})
	}
}

// skew makes a clock jump.
func (w *world) skew() {
	to := offsets[w.d.n(len(offsets))]
	if p := w.process(); p != nil && w.d.n(3) > 0 {
		p.offset = to
		w.tell("the clock of %s jumps to %v", p.name, to)
		return
	}
	r := w.replicas[w.d.n(len(w.replicas))]
	r.offset = to
	w.tell("the clock of %s jumps to %v", r.name, to)
}

// process draws one that has not ended, or nil.
func (w *world) process() *process {
	var live []*process
	for _, p := range w.processes {
		if p.exit == nil {
			live = append(live, p)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return live[w.d.n(len(live))]
}

// host draws a pod whose node is there, or nil.
func (w *world) host() *pod {
	var there []*pod
	for _, h := range w.cluster.hosted {
		if !h.lost && w.cluster.pod(h.uid) != nil {
			there = append(there, h)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return there[w.d.n(len(there))]
}
