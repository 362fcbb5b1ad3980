// Package chaos kills anything while many runs work, and then asks whether anything was lost or repeated.
//
//	load ──► runs on the development cluster: pods, manager, API server and Postgres are processes of this machine
//	hunt ──► SIGKILL and SIGSTOP for segments, at random instants and at points seen from outside
//	storm ─► what all share: Postgres, the API server, the manager, Jobs and pods
//	books ─► what the tool server, Postgres and the API server have written down; package judge compares them
//
// All decisions come from a seed, so that the same faults can be ordered again. The machine's timing is its own.
package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// Options say how much is broken.
type Options struct {
	Seed uint64
	// Kills is how many segments die by SIGKILL before no new run is started.
	Kills int
	// PostgresRestarts, APIRestarts, ManagerKills and Removals are spread evenly over the kills. Removals take Jobs and pods away.
	PostgresRestarts, APIRestarts, ManagerKills, Removals int
	// Zombies is how many processes of a hundred are stopped for longer than their lease.
	Zombies int
	// Clocks is by how much the wall clocks of segments and managers may be wrong. Zero leaves them alone.
	Clocks time.Duration
	// Mutant is a bug of hack/mutants that segments and managers have. Empty plants none.
	Mutant string
	// Parallel is how many runs are under way at once.
	Parallel int
	// Within bounds the load. What is not reached by then is missing in the report.
	Within time.Duration
	// Report is the file of the report, as JSON. Empty writes none.
	Report string
}

// Sample is what every test run breaks, Full what the promises ask for.
var (
	Sample = Options{Kills: 100, PostgresRestarts: 3, APIRestarts: 3, ManagerKills: 20, Removals: 20, Zombies: 7, Clocks: 5 * time.Minute, Parallel: 12, Within: 20 * time.Minute}
	Full   = Options{Kills: 1000, PostgresRestarts: 50, APIRestarts: 50, ManagerKills: 200, Removals: 200, Zombies: 5, Clocks: 5 * time.Minute, Parallel: 16, Within: 80 * time.Minute}
)

// FromEnvironment are the options that the environment asks for: a sample, or in full with EKIDEN_GATES=full, changed by KILLS
// and its like. A long KILLS alone leaves the other counts in proportion.
func FromEnvironment() (Options, error) {
	o := Sample
	if os.Getenv("EKIDEN_GATES") == "full" {
		o = Full
	}
	o.Seed = rand.Uint64() >> 12
	var err error
	number := func(name string, into *int) {
		if v := os.Getenv(name); v != "" && err == nil {
			if *into, err = strconv.Atoi(v); err != nil || *into < 0 {
				err = fmt.Errorf("%s is a count, not %q", name, v)
			}
		}
	}
	before := o.Kills
	number("KILLS", &o.Kills)
	if o.Kills > before {
		o = o.grown(before)
	}
	number("PG_RESTARTS", &o.PostgresRestarts)
	number("API_RESTARTS", &o.APIRestarts)
	number("MANAGER_KILLS", &o.ManagerKills)
	number("REMOVALS", &o.Removals)
	number("ZOMBIES", &o.Zombies)
	number("PARALLEL", &o.Parallel)
	clocks := int(o.Clocks / time.Second)
	number("CLOCKS", &clocks)
	o.Clocks = time.Duration(clocks) * time.Second
	if v := os.Getenv("SEED"); v != "" && err == nil {
		o.Seed, err = strconv.ParseUint(v, 10, 64)
	}
	o.Mutant, o.Report = os.Getenv("MUTANT"), os.Getenv("REPORT")
	return o, err
}

// grown has the other counts grow with the kills, up to those of Full.
func (o Options) grown(before int) Options {
	grow := func(n, most int) int { return max(n, min(n*o.Kills/before, most)) }
	o.PostgresRestarts, o.APIRestarts = grow(o.PostgresRestarts, Full.PostgresRestarts), grow(o.APIRestarts, Full.APIRestarts)
	o.ManagerKills, o.Removals = grow(o.ManagerKills, Full.ManagerKills), grow(o.Removals, Full.Removals)
	o.Within = max(o.Within, Full.Within)
	return o
}

func (o Options) String() string {
	said := fmt.Sprintf("SEED=%d KILLS=%d PG_RESTARTS=%d API_RESTARTS=%d MANAGER_KILLS=%d REMOVALS=%d ZOMBIES=%d PARALLEL=%d CLOCKS=%d",
		o.Seed, o.Kills, o.PostgresRestarts, o.APIRestarts, o.ManagerKills, o.Removals, o.Zombies, o.Parallel, int(o.Clocks/time.Second))
	if o.Mutant != "" {
		said += " MUTANT=" + o.Mutant
	}
	return said
}
