package sim

import (
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/store/memory"
)

// mutants are the bugs that the laws have to see, each with what the law that sees it says, of those that may be the first.
var mutants = map[string]struct {
	bugs Bugs
	laws []string
}{
	"the fence is skipped": {
		Bugs{Bugs: memory.Bugs{NoFence: true}}, []string{"no write of a stale claim is accepted"},
	},
	"a generation is used again": {
		Bugs{Bugs: memory.Bugs{SameGeneration: true}}, []string{"a claim has a new generation"},
	},
	"a live lease is taken over": {
		Bugs{Bugs: memory.Bugs{LiveLease: true}}, []string{"a live lease is not taken over"},
	},
	"a segment that has its outcome is worked on again": {
		Bugs{Bugs: memory.Bugs{SecondOutcome: true}}, []string{"nothing is claimed that is cancelled or over", "a segment has one outcome"},
	},
	"an intent does not see the cancel": {
		Bugs{Bugs: memory.Bugs{CancelUnseen: true}}, []string{"after the cancel no call begins"},
	},
	"an intent does not see the newest policy": {
		Bugs{Bugs: memory.Bugs{PolicyUnseen: true}}, []string{"a call begins only under the newest policy"},
	},
	"a call is settled before it is made": {
		Bugs{SettleFirst: true}, []string{"a call is answered only if its tool has answered"},
	},
	"a call is sent without its intent": {
		Bugs{NoIntent: true}, []string{"nothing is sent before its intent is committed"},
	},
	"a call that must not be repeated is sent again": {
		Bugs{SendTwice: true}, []string{"a call that must not be repeated is executed once"},
	},
	"the Job controller tries again beside the manager": {
		Bugs{RetryTwice: true}, []string{"nothing but the manager tries again"},
	},
	"a process asks the model again by itself": {
		Bugs{AskTwice: true}, []string{"the model is asked again only once the try before is in the transcript"},
	},
	"a run is ended twice": {
		Bugs{FinishTwice: true}, []string{"the end of a run is written once"},
	},
	"a wait says that it has seen one delivery more": {
		Bugs{CursorAhead: true}, []string{"all that is met was written by this version"},
	},
	"a Job is made before its attempt is written down": {
		Bugs{JobFirst: true}, []string{"no attempt works unknown to the ledger"},
	},
	"a decision counts although it came after the end of its request": {
		Bugs{LateCounts: true}, []string{"what is delivered is what a person has said in time"},
	},
	"a process is taken for gone because it is silent": {
		Bugs{Bugs: memory.Bugs{AllGone: true}}, []string{"a call is made again only once whoever made it sends nothing of it any more"},
	},
	"a word of a person has a call made again twice": {
		Bugs{Bugs: memory.Bugs{WordsUnkept: true}}, []string{
			"a call that must not be repeated is begun again only by a word that is not used up", "where people are to be asked no call is given up before they were",
		},
	},
	"a probe that cannot tell is taken for one that says no": {
		Bugs{ProbeGuesses: true}, []string{"a call that must not be repeated is begun again only by a word that is not used up"},
	},
	"a word is delivered as another": {
		Bugs{WordsTwisted: true}, []string{"what the model is told is what a person or a probe has said"},
	},
	"people are not asked where they are to be": {
		Bugs{RuleUnread: v1alpha1.IndeterminateAsk}, []string{"where people are to be asked no call is given up before they were"},
	},
	"a run goes on that is to fail": {
		Bugs{RuleUnread: v1alpha1.IndeterminateFailRun}, []string{"a run with FailRun"},
	},
	"a run that waits goes on at once": {
		Bugs{WaitForgotten: true}, []string{"a run that waits goes on only once the first of its calls is decided"},
	},
	"a run ends with another reason than its segment has left": {
		Bugs{OtherReason: true}, []string{"a run that its segment has failed ends with the reason of that"},
	},
}

// within is how many schedules a mutant may live.
const within = 4000

// TestMutants plants each bug and plays until a law is broken: laws that see no bug see nothing.
func TestMutants(t *testing.T) {
	t.Parallel()
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(within) {
				law, so := play(Seeded(seed), m.bugs, nil)
				if law == "" {
					continue
				}
				t.Logf("after %d schedules, %d steps into the last: %s", seed+1, so.steps, law)
				for _, want := range m.laws {
					if strings.HasPrefix(law, want) {
						return
					}
				}
				t.Fatalf("seed %d broke another law than %q: %s", seed, m.laws, law)
			}
			t.Errorf("none of %d schedules broke a law", within)
		})
	}
}
