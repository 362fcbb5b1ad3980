package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// tool is one tool of the server: what it does to the world, and how often it is called.
type tool struct {
	name        string
	method      v1alpha1.HTTPMethod
	effect      v1alpha1.Effect
	idempotency v1alpha1.Idempotency
	weight      int
}

// asks is the tool whose calls people decide on.
const asks = "ask"

var tools = []tool{
	{name: "look", method: "GET", effect: v1alpha1.EffectRead, weight: 3},
	{name: "write", method: "POST", effect: v1alpha1.EffectWrite, weight: 3},
	{name: "send", method: "POST", effect: v1alpha1.EffectSend, weight: 3},
	{name: toolserver.OnceInBook, method: "POST", effect: v1alpha1.EffectSend, idempotency: v1alpha1.IdempotencyKey, weight: 2},
	{name: asks, method: "POST", effect: v1alpha1.EffectSend},
}

func toolNamed(name string) (t tool) {
	for _, t = range tools {
		if given.Tools+"/"+t.name == name {
			return t
		}
	}
	return tool{}
}

func (t tool) repeatable() bool {
	return t.effect == v1alpha1.EffectRead || t.idempotency == v1alpha1.IdempotencyKey
}

// plan is what the model does in one kind of run.
type plan struct {
	name  string
	steps []modelserver.Step
	// calls is how many calls it makes, widest how many at most in one turn.
	calls, widest int
}

const plans = 16

// planned makes the plans of a seed. One of three asks people once.
func planned(seed uint64) (all []plan) {
	for i := range plans {
		r := draw(seed, fmt.Sprintf("plan %d", i))
		p := plan{name: fmt.Sprintf("plan-%02d", i)}
		turns := 4 + r.IntN(3)
		for turn := range turns {
			calls := make([]modelserver.Call, 1+r.IntN(3))
			for j := range calls {
				calls[j] = call(r, drawn(r), turn, j)
			}
			if i%3 == 0 && turn == turns/2 {
				calls[0] = call(r, asks, turn, 0)
			}
			p.calls, p.widest = p.calls+len(calls), max(p.widest, len(calls))
			p.steps = append(p.steps, modelserver.Step{Delay: modelserver.Duration(jitter(r, 200)), Calls: &modelserver.Calls{List: calls}})
		}
		p.steps = append(p.steps, modelserver.Step{Delay: modelserver.Duration(jitter(r, 200)), Text: "Done, as planned."})
		all = append(all, p)
	}
	return all
}

func drawn(r *rand.Rand) string {
	total := 0
	for _, t := range tools {
		total += t.weight
	}
	at := r.IntN(total)
	for _, t := range tools {
		if at -= t.weight; at < 0 {
			return t.name
		}
	}
	panic("the weights do not add up")
}

// call takes up to half a second: with effects of a few milliseconds everything looks safe.
func call(r *rand.Rand, name string, turn, index int) modelserver.Call {
	return modelserver.Call{
		ID: fmt.Sprintf("call-%d-%d", turn, index), Name: given.Tools + "__" + name,
		Arguments: fmt.Sprintf(`{"n":"%d.%d","ms":"%d"}`, turn, index, jitter(r, 501)/time.Millisecond),
	}
}

// script has each conversation follow the plan that its task names. A request that is made again gets the same answer.
func script(all []plan) modelserver.Script {
	var s modelserver.Script
	for _, p := range all {
		s.Rules = append(s.Rules, modelserver.Rule{Name: p.name, When: modelserver.When{Task: p.name}, Steps: p.steps, ByTurn: true})
	}
	return s
}
