package sim

import (
	"testing"

	"github.com/ekiden-dev/ekiden/runtime/store/memory"
)

// mutants are the bugs that the laws have to see.
var mutants = map[string]Bugs{
	"the fence is skipped":                                       {Bugs: memory.Bugs{NoFence: true}},
	"a generation is used again":                                 {Bugs: memory.Bugs{SameGeneration: true}},
	"a live lease is taken over":                                 {Bugs: memory.Bugs{LiveLease: true}},
	"a segment that has its outcome is worked on again":          {Bugs: memory.Bugs{SecondOutcome: true}},
	"an intent does not see the cancel":                          {Bugs: memory.Bugs{CancelUnseen: true}},
	"an intent does not see the newest policy":                   {Bugs: memory.Bugs{PolicyUnseen: true}},
	"a call is settled before it is made":                        {SettleFirst: true},
	"a call is sent without its intent":                          {NoIntent: true},
	"a call that must not be repeated is sent again":             {SendTwice: true},
	"the Job controller tries again beside the manager":          {RetryTwice: true},
	"a process asks the model again by itself":                   {AskTwice: true},
	"a run is ended twice":                                       {FinishTwice: true},
	"a wait says that it has seen one delivery more":             {CursorAhead: true},
	"a Job is made before its attempt is written down":           {JobFirst: true},
	"a decision counts although it came after the request's end": {LateCounts: true},
}

// within is how many schedules a mutant may live. Each was seen to die within a tenth of it.
const within = 4000

// TestMutants plants each bug and plays until a law is broken: laws that see no bug see nothing.
func TestMutants(t *testing.T) {
	t.Parallel()
	for name, bugs := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(within) {
				if law, steps := play(Seeded(seed), bugs, nil); law != "" {
					t.Logf("after %d schedules, %d steps into the last: %s", seed+1, steps, law)
					return
				}
			}
			t.Errorf("none of %d schedules broke a law", within)
		})
	}
}
