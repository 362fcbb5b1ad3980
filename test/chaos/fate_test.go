package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/test/chaos/judge"
)

// TestASeedGivesTheSameFaults: what is drawn depends on the seed and on who is hit, not on the order in which it is drawn.
func TestASeedGivesTheSameFaults(t *testing.T) {
	t.Parallel()
	o := Options{Seed: 42, Zombies: 5}
	first := o.fateOf("run-0001", 2, 3)
	for range 10 {
		o.fateOf("run-0002", 0, 0)
	}
	if again := o.fateOf("run-0001", 2, 3); again != first {
		t.Errorf("%+v, and then %+v", first, again)
	}
	if diff := cmp.Diff(planned(42), planned(42), cmp.AllowUnexported(plan{})); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(planned(42), planned(43), cmp.AllowUnexported(plan{})) {
		t.Error("another seed gives the same plans")
	}
}

// TestFatesReachEveryPointAndKnowMercy draws many.
func TestFatesReachEveryPointAndKnowMercy(t *testing.T) {
	t.Parallel()
	o, seen, kinds := Options{Seed: 1, Zombies: 5}, map[string]int{}, map[fateKind]int{}
	for run := range 40 {
		for attempt := range mercy {
			f := o.fateOf(string(rune('a'+run)), 0, attempt)
			kinds[f.kind]++
			if f.kind == killed {
				seen[f.point]++
			}
			if f.kind != spared && (f.nth < 1 || f.delay > 3*time.Second || f.kind == halting && (f.stopped <= 0 || f.stopped > 25*time.Second)) {
				t.Errorf("%+v", f)
			}
		}
		if f := o.fateOf(string(rune('a'+run)), 0, mercy); f.kind != spared {
			t.Errorf("after %d attempts: %+v", mercy, f)
		}
	}
	for _, p := range points {
		if seen[p.name] == 0 {
			t.Errorf("nobody is killed at %s", p.name)
		}
	}
	if kinds[zombie] == 0 || kinds[halting] == 0 || kinds[killed] < kinds[spared] {
		t.Errorf("fates: %v", kinds)
	}
}

func TestPlansUseEveryTool(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range planned(1) {
		for _, s := range p.steps {
			if s.Calls != nil {
				for _, c := range s.Calls.List {
					used[c.Name] = true
				}
			}
		}
	}
	if len(used) != len(tools) {
		t.Errorf("used are %v", used)
	}
}

func TestTheScheduleSpreadsWhatIsOrdered(t *testing.T) {
	t.Parallel()
	o := Options{Kills: 100, PostgresRestarts: 2, APIRestarts: 1, ManagerKills: 4, Removals: 7}
	counts := map[string]int{}
	last := 0.0
	for _, d := range o.schedule() {
		counts[d.name]++
		if d.after < last || d.after > 100 {
			t.Errorf("%s after %.1f kills, the one before after %.1f", d.name, d.after, last)
		}
		last = d.after
	}
	want := map[string]int{judge.PostgresRestart: 2, apiBlow.name: 1, managerBlow.name: 4}
	for i, b := range removals {
		want[b.name] = 1
		if i < 2 {
			want[b.name] = 2
		}
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
}

// TestWhatWasNotTriedIsMissing takes one thing after another out of a report that has all.
func TestWhatWasNotTriedIsMissing(t *testing.T) {
	t.Parallel()
	whole := func() judge.Report {
		r := judge.Report{Faults: map[string]int{judge.PostgresRestart: 3, apiBlow.name: 3, managerBlow.name: 20, judge.Zombie: 1}, KillsAt: map[string]int{}, StaleTried: 1000, Ahead: 3 * time.Minute, Behind: 3 * time.Minute}
		for _, b := range removals {
			r.Faults[b.name] = 4
		}
		for _, p := range points {
			r.KillsAt["kill "+p.name] = 1
		}
		return r
	}
	if said := Sample.missing(whole()); len(said) != 0 {
		t.Errorf("missing: %v", said)
	}
	for want, take := range map[string]func(*judge.Report){
		"postgres restart: 2 of 3":                  func(r *judge.Report) { r.Faults[judge.PostgresRestart] = 2 },
		"pod evicted: 3 of 4":                       func(r *judge.Report) { r.Faults["pod evicted"] = 3 },
		"stale writes tried: 9 of 1000":             func(r *judge.Report) { r.StaleTried = 9 },
		"seconds that a clock was behind: 9 of 150": func(r *judge.Report) { r.Behind = 9 * time.Second },
		"zombies: 0 of 1":                           func(r *judge.Report) { delete(r.Faults, judge.Zombie) },
	} {
		r := whole()
		take(&r)
		if said := Sample.missing(r); !slices.Equal(said, []string{want}) {
			t.Errorf("missing: %v, want %s", said, want)
		}
	}
	r := whole() // a sample may miss a point, but not most of them
	delete(r.KillsAt, "kill CallStarted")
	if said := Sample.missing(r); len(said) != 0 {
		t.Errorf("missing: %v", said)
	}
	if said := Full.missing(r); !slices.Contains(said, "kills at CallStarted: 0 of 1") {
		t.Errorf("missing: %v", said)
	}
	r.KillsAt = map[string]int{"kill CallStarted": 1}
	if said := Sample.missing(r); len(said) != 1 {
		t.Errorf("missing: %v", said)
	}
}

func TestALongerRunBreaksMoreOfEverything(t *testing.T) {
	t.Parallel()
	o := Sample
	o.Kills = 1000
	got := o.grown(Sample.Kills)
	want := Options{Kills: 1000, PostgresRestarts: 30, APIRestarts: 30, ManagerKills: 200, Removals: 200, Zombies: 7, Clocks: Sample.Clocks, Parallel: 12, Within: Full.Within}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
