package judge

import (
	"fmt"
	"time"
)

// Laws that may be broken. Each has a row in the tests that breaks it.
const (
	Lost        = "a run was lost"
	EndedTwice  = "a run ended twice"
	EndsDiffer  = "API server and ledger tell different ends"
	WrongEnd    = "a run ended badly though nothing but the chaos happened to it"
	MissingCall = "a run has other calls than its model asked for"
	Twice       = "a call that must not be repeated was carried out twice"
	OnceTwice   = "a call with an Idempotency-Key had two effects"
	AfterResult = "a call was carried out again after its result was known"
	NoIntent    = "something was sent before its intent, or without one"
	NoEffect    = "a call was answered that nobody carried out"
	OpenCall    = "a call of a run that has succeeded is open"
	Resettled   = "a result was changed"
	BegunTwice  = "a call that must not be repeated was begun twice"
	Guessed     = "an orphan that must not be repeated has a result that nobody can know"
	StaleWrite  = "a stale generation has written"
	Backwards   = "the generations of a run went back"
	Stuck       = "a run stood still for too long"
	BadWire     = "a request broke the protocol of the model"
)

// Violation is a law that was broken, and the evidence.
type Violation struct {
	Law      string    `json:"law"`
	Run      string    `json:"run,omitempty"`
	At       time.Time `json:"at"`
	Evidence string    `json:"evidence"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: run %s at %s: %s", v.Law, v.Run, v.At.Format("15:04:05.000"), v.Evidence)
}

// Judge looks for broken laws.
func Judge(b Books) []Violation {
	var found []Violation
	tell := func(law, run string, at time.Time, format string, args ...any) {
		found = append(found, Violation{Law: law, Run: run, At: at, Evidence: fmt.Sprintf(format, args...)})
	}
	marks := b.of()
	runs(b, marks, tell)
	calls(b, marks, tell)
	fence(b, marks, tell)
	still(b, marks, tell)
	if b.BadRequests > 0 {
		tell(BadWire, "", b.Over, "%d requests", b.BadRequests)
	}
	return found
}

type teller func(law, run string, at time.Time, format string, args ...any)

// runs judges the ends.
func runs(b Books, marks map[string][]Mark, tell teller) {
	ends := map[string]End{}
	for _, e := range b.Ends {
		ends[e.Run] = e
	}
	made := map[string]int{}
	for _, c := range b.Calls {
		made[c.Run]++
	}
	for _, r := range b.Runs {
		first := -1
		for i, p := range r.Phases {
			if p.Final && first < 0 {
				first = i
			}
			if first >= 0 && i > first && (!p.Final || p.Phase != r.Phases[first].Phase || p.Reason != r.Phases[first].Reason || p.Result != r.Phases[first].Result) {
				tell(EndedTwice, r.UID, p.At, "%s: %s (%s) and later %s (%s)", r.Name, r.Phases[first].Phase, r.Phases[first].Reason, p.Phase, p.Reason)
				break
			}
		}
		if n := count(marks[r.UID], Ending); n > 1 {
			tell(EndedTwice, r.UID, b.Over, "%s: the ledger was told of %d ends", r.Name, n)
		}
		if n := count(marks[r.UID], Final); n > 1 {
			tell(EndedTwice, r.UID, b.Over, "%s: its fence was shut %d times", r.Name, n)
		}
		e, ended := ends[r.UID]
		if first < 0 || !ended {
			tell(Lost, r.UID, b.Over, "%s: last seen %s, ended in the ledger: %t (%s)", r.Name, last(r.Phases), ended, e.Phase)
			continue
		}
		p := r.Phases[first]
		if e.Phase != p.Phase || e.Code != p.Reason {
			tell(EndsDiffer, r.UID, p.At, "%s: %s (%s) and %s (%s)", r.Name, p.Phase, p.Reason, e.Phase, e.Code)
		}
		if p.Phase != "Succeeded" || p.Reason != "Completed" {
			tell(WrongEnd, r.UID, p.At, "%s: %s (%s): %s", r.Name, p.Phase, p.Reason, p.Result)
		} else if made[r.UID] != r.Calls {
			tell(MissingCall, r.UID, p.At, "%s: %d calls, not %d", r.Name, made[r.UID], r.Calls)
		}
	}
}

func last(phases []Phase) string {
	if len(phases) == 0 {
		return "never"
	}
	p := phases[len(phases)-1]
	return fmt.Sprintf("%s (%s) at %s", p.Phase, p.Reason, p.At.Format("15:04:05"))
}

func count(marks []Mark, what What) (n int) {
	for _, m := range marks {
		if m.What == what {
			n++
		}
	}
	return n
}

// calls judges the journal by what the tool server saw.
func calls(b Books, marks map[string][]Mark, tell teller) {
	effects := map[string][]Effect{}
	for _, e := range b.Effects {
		effects[e.Key] = append(effects[e.Key], e)
	}
	woken := map[string][]time.Time{}
	for _, f := range b.Faults {
		if !f.Woken.IsZero() {
			woken[f.Run] = append(woken[f.Run], f.Woken)
		}
	}
	succeeded := map[string]bool{}
	for _, e := range b.Ends {
		succeeded[e.Run] = e.Phase == "Succeeded"
	}
	known := map[string]bool{}
	for _, c := range b.Calls {
		if c.began() {
			known[c.Idempotency] = true
		}
		trial{c, of(marks[c.Run], c.Key), effects[c.Idempotency], woken[c.Run], tell}.judge(b.Over, succeeded[c.Run])
	}
	for key, e := range effects {
		if !known[key] {
			tell(NoIntent, "", e[0].At, "%s with the key %s is in no journal", e[0].Tool, key)
		}
	}
}

func of(marks []Mark, k Key) []Mark {
	var own []Mark
	for _, m := range marks {
		if (m.What == Begun || m.What == Settled || m.What == Altered) && m.Turn == k.Turn && m.Index == k.Index {
			own = append(own, m)
		}
	}
	return own
}

// trial is one call and all that is known of it.
type trial struct {
	call    Call
	marks   []Mark
	effects []Effect
	// woken are the times at which zombies of the run went on.
	woken []time.Time
	tell  teller
}

func (t trial) judge(over time.Time, succeeded bool) {
	var begun, settled []Mark
	for _, m := range t.marks {
		switch m.What {
		case Begun:
			begun = append(begun, m)
		case Settled:
			settled = append(settled, m)
		case Altered:
			t.broken(Resettled, m.At, "generation %d", m.Generation)
		case Claimed, Entered, Yielded, Final, Ending, Told, Tried: // not about calls
		}
	}
	if len(settled) > 1 {
		t.broken(Resettled, settled[1].At, "settled %d times", len(settled))
	}
	if t.call.Kind == "" && succeeded {
		t.broken(OpenCall, over, "begun by %d claims", len(begun))
	}
	if !t.call.Repeatable && len(begun) > 1 {
		t.broken(BegunTwice, begun[1].At, "by the generations %d and %d", begun[0].Generation, begun[1].Generation)
	}
	if !t.call.Repeatable && len(begun) > 0 && len(settled) > 0 && begun[0].Generation != settled[0].Generation && settled[0].Kind != "indeterminate" {
		t.broken(Guessed, settled[0].At, "begun by generation %d, %s by generation %d", begun[0].Generation, settled[0].Kind, settled[0].Generation)
	}
	t.carriedOut(begun, settled)
}

// carriedOut judges what the tool server did for the call.
func (t trial) carriedOut(begun, settled []Mark) {
	done := 0
	for _, e := range t.effects {
		if !e.Again {
			done++
		}
		if len(begun) == 0 || e.At.Before(begun[0].At) {
			t.broken(NoIntent, e.At, "%d claims have begun it", len(begun))
		}
		if len(settled) > 0 && e.At.After(settled[0].At) && !t.excused(e, settled[0]) {
			t.broken(AfterResult, e.At, "it was %s at %s", settled[0].Kind, settled[0].At.Format("15:04:05.000"))
		}
	}
	switch {
	case done > 1 && !t.call.Repeatable:
		t.broken(Twice, t.effects[1].At, "%d times, the first at %s; begun %v", done, t.effects[0].At.Format("15:04:05.000"), begun)
	case done > 1 && t.call.Once:
		t.broken(OnceTwice, t.effects[1].At, "%d times", done)
	case len(t.effects) == 0 && t.call.Kind == "answered":
		t.broken(NoEffect, earliest(settled), "begun %d times", len(begun))
	}
}

// excused reports whether something may reach the tool server after the result is written: a zombie that wakes up sends what it
// was about to send. Its call is indeterminate, or repeating it is harmless.
func (t trial) excused(e Effect, settled Mark) bool {
	if settled.Kind == "indeterminate" {
		return true
	}
	for _, w := range t.woken {
		if t.call.Repeatable && e.At.After(w) && e.At.Before(w.Add(wakes)) {
			return true
		}
	}
	return false
}

// wakes is how long a zombie may take to find out that it is one.
const wakes = 5 * time.Second

func earliest(marks []Mark) (at time.Time) {
	if len(marks) > 0 {
		at = marks[0].At
	}
	return at
}

func (t trial) broken(law string, at time.Time, format string, args ...any) {
	t.tell(law, t.call.Run, at, "call %d/%d of %s, key %s: %s", t.call.Turn, t.call.Index, t.call.Tool, t.call.Idempotency, fmt.Sprintf(format, args...))
}

// fence judges who wrote.
func fence(b Books, marks map[string][]Mark, tell teller) {
	for _, f := range b.Faults {
		if f.Accepted > 0 {
			tell(StaleWrite, f.Run, f.At, "%d of %d writes of a ghost were accepted", f.Accepted, f.Tried)
		}
	}
	for run, own := range marks {
		newest := int64(0)
		for _, m := range own {
			switch m.What {
			case Entered, Begun, Settled, Altered, Yielded:
				if m.Generation != m.Current || m.Over {
					tell(StaleWrite, run, m.At, "%s by generation %d while %d is current, ended: %t", m.What, m.Generation, m.Current, m.Over)
				}
			case Claimed, Final:
				if m.Generation <= newest {
					tell(Backwards, run, m.At, "%s under generation %d after %d", m.What, m.Generation, newest)
				}
				newest = max(newest, m.Generation)
			case Ending, Told, Tried: // under no generation
			}
		}
	}
}

// still judges how long runs stood still between two marks. The time in which Postgres, the API server or the manager comes back
// does not count, nor what came before: nobody takes over a lease before Postgres has been up for one.
func still(b Books, marks map[string][]Mark, tell teller) {
	for _, r := range b.Runs {
		before, what := r.Created, "its creation"
		for _, m := range marks[r.UID] {
			if gap := m.At.Sub(b.since(before, m.At)); gap > b.Grace {
				tell(Stuck, r.UID, before, "%s: %s between %s and %s; %s", r.Name, m.At.Sub(before).Round(time.Millisecond), what, m.What, b.around(r.UID, before, m.At))
			}
			before, what = m.At, string(m.What)
		}
	}
}

// since is from when on somebody could have done something.
func (b Books) since(from, to time.Time) time.Time {
	for _, f := range b.Faults {
		if !f.At.Before(to) {
			continue
		}
		shared := f.Kind == PostgresRestart || f.Kind == APIRestart || f.Kind == ManagerKill
		if up := f.At.Add(f.Took); shared && up.After(from) {
			from = minTime(up, to)
		}
	}
	return from
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// around tells what was done to a run, and to what all share, in a stretch of time.
func (b Books) around(run string, from, to time.Time) (told string) {
	for _, f := range b.Faults {
		if (f.Run == run || f.Run == "") && f.At.After(from.Add(-time.Second)) && f.At.Before(to) {
			told += fmt.Sprintf("%s %s %s pid %d; ", f.At.Format("15:04:05.000"), f.Kind, f.Point, f.Pid)
		}
	}
	return told
}
