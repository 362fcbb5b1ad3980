package chaos

import (
	"fmt"

	"github.com/ekiden-dev/ekiden/test/chaos/judge"
)

// missing says what was ordered and did not happen: a point at which nobody was killed, a fault that is missing. What is not
// tried proves nothing.
func (o Options) missing(r judge.Report) (said []string) {
	want := func(name string, got, n int) {
		if got < n {
			said = append(said, fmt.Sprintf("%s: %d of %d", name, got, n))
		}
	}
	want(postgresBlow.name, r.Faults[postgresBlow.name], o.PostgresRestarts)
	want(apiBlow.name, r.Faults[apiBlow.name], o.APIRestarts)
	want(managerBlow.name, r.Faults[managerBlow.name], o.ManagerKills)
	for i, b := range removals {
		want(b.name, r.Faults[b.name], (o.Removals+len(removals)-1-i)/len(removals))
	}
	if o.Kills < Sample.Kills {
		return said
	}
	want("seconds that a clock was ahead", int(r.Ahead.Seconds()), int(o.Clocks.Seconds())/2)
	want("seconds that a clock was behind", int(r.Behind.Seconds()), int(o.Clocks.Seconds())/2)
	hit := 0
	for _, p := range points {
		n := r.KillsAt[string(killed)+" "+p.name]
		hit += min(n, 1)
		if o.Kills >= Full.Kills {
			want("kills at "+p.name, n, 1)
		}
	}
	want("points", hit, len(points)/2) // a sample may miss those that are rare
	if o.Zombies > 0 {
		want("zombies", r.Faults[judge.Zombie], 1)
		want("stale writes tried", r.StaleTried, 10*o.Kills)
	}
	return said
}
