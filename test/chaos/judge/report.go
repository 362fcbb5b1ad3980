package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is what a chaos run has shown, in numbers.
type Report struct {
	Seed    uint64        `json:"seed"`
	Took    time.Duration `json:"took"`
	Runs    int           `json:"runs"`
	PerMin  float64       `json:"runsPerMinute"`
	Kills   int           `json:"kills"`
	KillMin float64       `json:"killsPerMinute"`
	// Faults counts all that was done, by kind, KillsAt kills and zombies by where they hit.
	Faults  map[string]int `json:"faults"`
	KillsAt map[string]int `json:"killsAt"`
	// Calls counts the journal by tool and end, Effects what the tool server carried out, Repeated what of it was a repetition
	// that is allowed, by tool.
	Calls    map[string]int `json:"calls"`
	Effects  map[string]int `json:"effects"`
	Repeated map[string]int `json:"repeated"`
	// Indeterminate calls, and how many of those had landed.
	Indeterminate int `json:"indeterminate"`
	Landed        int `json:"indeterminateLanded"`
	// InFlight is how many calls were under way when their process was hit.
	InFlight int `json:"inFlight"`
	// Duplicates, Lost, SecondEnds and Stuck count violations. All are in Violations.
	Duplicates int `json:"duplicates"`
	Lost       int `json:"lost"`
	SecondEnds int `json:"secondEnds"`
	StaleDone  int `json:"staleWritesAccepted"`
	Stuck      int `json:"stuck"`
	// Refused counts stale processes that told of being refused when they went on, StaleTried the stale writes of ghosts.
	Refused    int `json:"staleProcessesRefused"`
	StaleTried int `json:"staleWritesTried"`
	// Recovery is from a kill to the next claim or the end, in Postgres time.
	Recovery Spread `json:"recovery"`
	// Slow counts how often a run stood still for longer than is promised, though not for so long that it is judged.
	Slow       int           `json:"slow"`
	Longest    time.Duration `json:"longestStandstill"`
	Violations []Violation   `json:"violations"`
	// Ahead and Behind are by how much the clocks of segments were off.
	Ahead  time.Duration `json:"clocksAhead"`
	Behind time.Duration `json:"clocksBehind"`
}

// Spread are quantiles.
type Spread struct {
	N   int           `json:"n"`
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// Summarize judges and counts.
func Summarize(seed uint64, b Books) Report {
	r := Report{
		Seed: seed, Took: b.Over.Sub(b.Began).Round(time.Second), Runs: len(b.Runs), Faults: map[string]int{}, KillsAt: map[string]int{},
		Calls: map[string]int{}, Effects: map[string]int{}, Repeated: map[string]int{}, Violations: Judge(b),
		Ahead: b.Ahead.Round(time.Second), Behind: b.Behind.Round(time.Second),
	}
	for _, f := range b.Faults {
		r.Faults[f.Kind]++
		if f.Kind == Kill {
			r.Kills++
		}
		if f.Kind == Kill || f.Kind == Zombie {
			r.KillsAt[f.Kind+" "+f.Point]++
		}
		r.StaleTried += f.Tried
		if f.Fenced {
			r.Refused++
		}
	}
	if minutes := r.Took.Minutes(); minutes > 0 {
		r.PerMin, r.KillMin = float64(r.Runs)/minutes, float64(r.Kills)/minutes
	}
	for _, v := range r.Violations {
		switch v.Law {
		case Twice, OnceTwice, AfterResult, BegunTwice:
			r.Duplicates++
		case Lost:
			r.Lost++
		case EndedTwice, EndsDiffer:
			r.SecondEnds++
		case StaleWrite, Backwards:
			r.StaleDone++
		case Stuck:
			r.Stuck++
		}
	}
	r.count(b)
	r.Recovery = recovery(b)
	r.Longest, r.Slow = standstill(b)
	return r
}

// count counts calls and effects.
func (r *Report) count(b Books) {
	times := map[string]int{}
	for _, e := range b.Effects {
		times[e.Key]++
		if e.Again || times[e.Key] > 1 {
			r.Repeated[e.Tool]++
		}
		if !e.Again {
			r.Effects[e.Tool]++
		}
	}
	hands := map[Key]map[int64]bool{}
	for _, m := range b.Marks {
		if m.What == Begun || m.What == Settled {
			k := Key{m.Run, m.Turn, m.Index}
			if hands[k] == nil {
				hands[k] = map[int64]bool{}
			}
			hands[k][m.Generation] = true
		}
	}
	for _, c := range b.Calls {
		r.Calls[c.Tool+" "+cmp.Or(c.Kind, "open")]++
		if len(hands[c.Key]) > 1 {
			r.InFlight++
		}
		if c.Kind == "indeterminate" {
			r.Indeterminate++
			if times[c.Idempotency] > 0 {
				r.Landed++
			}
		}
	}
}

// recovery is how long it took from each kill until the run was taken up again, or ended. A kill of a process that had left its
// outcome already has nothing to recover from.
func recovery(b Books) Spread {
	marks := b.of()
	var took []time.Duration
	for _, f := range b.Faults {
		if f.Kind != Kill {
			continue
		}
		own := marks[f.Run]
		after := func(m Mark) bool { return m.At.After(f.At) }
		if slices.ContainsFunc(own, func(m Mark) bool { return m.What == Yielded && m.Segment == f.Segment && !after(m) }) {
			continue
		}
		i := slices.IndexFunc(own, func(m Mark) bool {
			return after(m) && (m.What == Claimed && !strings.HasPrefix(m.Holder, Ghost) || m.What == Ending)
		})
		if i >= 0 {
			took = append(took, own[i].At.Sub(f.At))
		}
	}
	return spread(took)
}

func spread(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(time.Millisecond) }
	return Spread{N: len(all), P50: at(0.5), P99: at(0.99), Max: at(1)}
}

// standstill is the longest time in which nothing was written about a run although something could have been, and how often
// that was longer than promised.
func standstill(b Books) (longest time.Duration, slow int) {
	marks := b.of()
	for _, r := range b.Runs {
		before := r.Created
		for _, m := range marks[r.UID] {
			gap := m.At.Sub(b.since(before, m.At))
			if longest = max(longest, gap); gap > b.Promised && gap <= b.Grace {
				slow++
			}
			before = m.At
		}
	}
	return longest.Round(time.Millisecond), slow
}

// String is the report for people.
func (r Report) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("seed", "%d", r.Seed)
	line("took", "%s, %d runs (%.1f a minute), %d kills (%.1f a minute)", r.Took, r.Runs, r.PerMin, r.Kills, r.KillMin)
	line("faults", "%s", table(r.Faults))
	line("hit at", "%s", table(r.KillsAt))
	line("clocks", "up to %s ahead, %s behind", r.Ahead, r.Behind)
	line("calls", "%s", table(r.Calls))
	line("effects", "%s", table(r.Effects))
	line("repeated", "%s (allowed: they read, or carry a key)", table(r.Repeated))
	line("in flight", "%d calls had another claim settle or begin them", r.InFlight)
	line("indeterminate", "%d, of which %d had landed and %d had not", r.Indeterminate, r.Landed, r.Indeterminate-r.Landed)
	line("stale", "%d zombies told of being refused; ghosts tried %d writes, %d were accepted", r.Refused, r.StaleTried, r.StaleDone)
	line("recovery", "p50 %s, p99 %s, longest %s, of %d", r.Recovery.P50, r.Recovery.P99, r.Recovery.Max, r.Recovery.N)
	line("standstill", "longest %s; %d longer than a lease and ten seconds, %d for too long", r.Longest, r.Slow, r.Stuck)
	line("verdict", "%d duplicates, %d lost, %d second final writes, %d stale writes accepted, %d stuck, %d violations in all",
		r.Duplicates, r.Lost, r.SecondEnds, r.StaleDone, r.Stuck, len(r.Violations))
	for _, v := range r.Violations {
		line("VIOLATION", "%s", v)
	}
	return b.String()
}

func table(counts map[string]int) string {
	var cells []string
	for name, n := range counts {
		cells = append(cells, name+" "+strconv.Itoa(n))
	}
	if len(cells) == 0 {
		return "none"
	}
	slices.Sort(cells)
	return strings.Join(cells, ", ")
}
