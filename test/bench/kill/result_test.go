package kill

import (
	"testing"

	"github.com/ekiden-dev/ekiden/test/bench/world"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	a, b := world.Effect{Run: "r", Step: "0"}, world.Effect{Run: "r", Step: "1"}
	type verdict struct{ executions, inFlight, extra, unknown, unknownDone, lost int }
	for name, c := range map[string]struct {
		seen    []world.Count
		unknown []world.Effect
		want    verdict
	}{
		"all was done once":                      {seen: []world.Count{{Effect: a, Executions: 1}, {Effect: b, Executions: 1}}, want: verdict{executions: 2}},
		"what was never done is lost":            {seen: []world.Count{{Effect: a, Executions: 1}}, want: verdict{executions: 1, lost: 1}},
		"what was done thrice is extra twice":    {seen: []world.Count{{Effect: a, Executions: 3, Abandoned: 2}, {Effect: b, Executions: 1}}, want: verdict{executions: 4, inFlight: 2, extra: 2}},
		"what is said to be unknown is not lost": {seen: []world.Count{{Effect: a, Executions: 1}}, unknown: []world.Effect{b}, want: verdict{executions: 1, unknown: 1}},
		"what is unknown may have happened": {
			seen: []world.Count{{Effect: a, Executions: 1, Abandoned: 1}, {Effect: b, Executions: 1}}, unknown: []world.Effect{a},
			want: verdict{executions: 2, inFlight: 1, unknown: 1, unknownDone: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r Result
			r.judge([]world.Effect{a, b}, c.seen, c.unknown)
			if got := (verdict{r.Executions, r.InFlight, r.Extra, r.Unknown, r.UnknownDone, r.Lost}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
