package sim

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is one history of one run.
type world struct {
	d    draws
	now  time.Time // the ledger's
	step int
	turn int // of whom it is, in a fair order

	setting
	// asked is how often the model was asked, so that no two of its answers are the same.
	asked int
	// asks is how often people were asked what came of a call.
	asks int
	// done are the calls that a tool has carried out.
	done map[segment.CallKey]bool
	// fair says that nothing bad happens any more.
	fair bool

	queued  time.Time
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

func newWorld(number uint64, bugs Bugs, trace *strings.Builder) *world {
	w := &world{
		now: start, setting: draw(number), queued: start, bugs: bugs, trace: trace, projected: map[int64]int{}, done: map[segment.CallKey]bool{},
	}
	w.pg = newPostgres(func() time.Time { return w.now })
	w.pg.store.Break(bugs.Bugs)
	w.pg.bugs = bugs
	w.cluster.duplicates = map[types.UID]int{}
	w.cluster.run = run{version: 1, ttl: w.ttl}
	w.cluster.policy, w.cluster.edits = w.policy, 1
	w.laws = newLaws(w)
	for i := range w.replicas {
		w.replicas[i] = &replica{w: w, name: "manager " + itoa(i)}
		w.replicas[i].crash()
	}
	return w
}

// looksAt is when somebody looks at a request, and zero if nobody will.
func (w *world) looksAt(q *v1alpha1.ApprovalRequest) time.Time {
	if !w.people || q.Spec.Decision.Verdict != "" || q.Status.Phase != "" {
		return time.Time{}
	}
	return q.CreationTimestamp.Add(w.slow)
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
		if r.asleep.After(w.now) {
			continue
		}
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
	for _, q := range w.cluster.requests {
		if at := w.looksAt(q); !at.IsZero() && !at.After(w.now) {
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
		consider(r.asleep)
		for i := range r.workers {
			if at := r.workers[i].again; r.asleep.Before(at) {
				consider(at)
			}
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
	for _, q := range w.cluster.requests {
		consider(w.looksAt(q))
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

// settling reports whether Jobs that have ended may go already.
func (w *world) settling() bool { return w.fair || w.d.once(3) }

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
