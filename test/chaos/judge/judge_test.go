package judge

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// told are books in which nothing is wrong: a run whose first claim was killed in a call of send. The second one settled it as
// indeterminate, and made one call of look twice, because a third took over.
func told() Books {
	send, look := Key{"r", 0, 0}, Key{"r", 1, 0}
	mark := func(second float64, what What, generation int64, change ...func(*Mark)) Mark {
		m := Mark{At: at(second), What: what, Run: "r", Generation: generation, Current: generation}
		for _, c := range change {
			c(&m)
		}
		return m
	}
	of := func(k Key, kind string) func(*Mark) {
		return func(m *Mark) { m.Turn, m.Index, m.Kind = k.Turn, k.Index, kind }
	}
	return Books{
		Grace: 40 * time.Second, Promised: 1500 * time.Millisecond, Began: noon, Over: at(60),
		Runs: []Run{{UID: "r", Name: "run", Created: noon, Calls: 2, Phases: []Phase{
			{At: at(1), Phase: "Running"}, {At: at(20), Phase: "Succeeded", Reason: "Completed", Result: "Done.", Final: true},
		}}},
		Ends: []End{{"r", "Succeeded", "Completed"}},
		Calls: []Call{
			{Key: send, Tool: "crm/send", Idempotency: "k1", Kind: "indeterminate"},
			{Key: look, Tool: "crm/look", Repeatable: true, Idempotency: "k2", Kind: "answered"},
		},
		Marks: []Mark{
			mark(1, Claimed, 1), mark(2, Entered, 1), mark(3, Begun, 1, of(send, "")),
			mark(5, Claimed, 2), mark(6, Settled, 2, of(send, "indeterminate")), mark(7, Entered, 2), mark(8, Begun, 2, of(look, "")),
			mark(10, Claimed, 3), mark(11, Begun, 3, of(look, "")), mark(12, Settled, 3, of(look, "answered")), mark(13, Entered, 3),
			mark(14, Yielded, 3), mark(15, Final, 4), mark(15, Ending, 0),
		},
		Effects: []Effect{{Key: "k1", Tool: "send", At: at(3.5)}, {Key: "k2", Tool: "look", At: at(9)}, {Key: "k2", Tool: "look", At: at(11.5)}},
		Faults:  []Fault{{At: at(4), Kind: Kill, Point: "ToolBegan", Run: "r"}, {At: at(9.5), Kind: Zombie, Point: "CallStarted", Run: "r", Woken: at(12.5), Fenced: true}},
	}
}

// TestJudge plants one bug per row, and wants it found and nothing else.
func TestJudge(t *testing.T) {
	t.Parallel()
	mark := func(second float64, what What, generation, current int64) Mark {
		return Mark{At: at(second), What: what, Run: "r", Generation: generation, Current: current}
	}
	for name, tc := range map[string]struct {
		plant func(*Books)
		want  []string
	}{
		"nothing is wrong":                           {plant: func(*Books) {}},
		"a run has no end":                           {plant: func(b *Books) { b.Runs[0].Phases = b.Runs[0].Phases[:1] }, want: []string{Lost}},
		"a run has no end in the ledger":             {plant: func(b *Books) { b.Ends = nil }, want: []string{Lost}},
		"a run was accepted and never seen again":    {plant: func(b *Books) { b.Runs = append(b.Runs, Run{UID: "s", Created: noon}) }, want: []string{Lost}},
		"the status is final, and then another":      {plant: func(b *Books) { b.again(Phase{Phase: "Failed", Reason: "PoisonSegment", Final: true}) }, want: []string{EndedTwice}},
		"the status is final, and then runs":         {plant: func(b *Books) { b.again(Phase{Phase: "Running"}) }, want: []string{EndedTwice}},
		"the result changes after the end":           {plant: func(b *Books) { b.again(Phase{Phase: "Succeeded", Reason: "Completed", Final: true}) }, want: []string{EndedTwice}},
		"the ledger is told of a second end":         {plant: func(b *Books) { b.Marks = append(b.Marks, mark(16, Ending, 0, 4)) }, want: []string{EndedTwice}},
		"the fence is shut twice":                    {plant: func(b *Books) { b.Marks = append(b.Marks, mark(16, Final, 5, 5)) }, want: []string{EndedTwice}},
		"the ledger has another end":                 {plant: func(b *Books) { b.Ends[0].Code = "LimitReached" }, want: []string{EndsDiffer}},
		"a run fails":                                {plant: (*Books).fail, want: []string{WrongEnd}},
		"a call is missing":                          {plant: func(b *Books) { b.Runs[0].Calls = 3 }, want: []string{MissingCall}},
		"a send is carried out twice":                {plant: func(b *Books) { b.effect("k1", 5) }, want: []string{Twice}},
		"a send is carried out twice by one process": {plant: func(b *Books) { b.effect("k1", 3.7) }, want: []string{Twice}},
		"a call with a key has two effects":          {plant: func(b *Books) { b.Calls[1].Once = true }, want: []string{OnceTwice}},
		"a look comes after its result":              {plant: func(b *Books) { b.Faults = nil; b.effect("k2", 12.6) }, want: []string{AfterResult}},
		"a look of a zombie comes after its result":  {plant: func(b *Books) { b.effect("k2", 12.6) }},
		"a look comes long after a zombie has woken": {plant: func(b *Books) { b.effect("k2", 18) }, want: []string{AfterResult}},
		"a zombie lands what nobody knows":           {plant: func(b *Books) { b.Effects[0].At = at(12.6) }},
		"a key that came again did nothing":          {plant: func(b *Books) { b.Calls[1].Once, b.Effects[2].Again = true, true }},
		"something is sent before its intent":        {plant: func(b *Books) { b.Effects[0].At = at(2.5) }, want: []string{NoIntent}},
		"something is sent that is in no journal":    {plant: func(b *Books) { b.effect("k9", 3) }, want: []string{NoIntent}},
		"an answer comes from nowhere":               {plant: func(b *Books) { b.Effects = b.Effects[:1] }, want: []string{NoEffect}},
		"a call stays open":                          {plant: func(b *Books) { b.Calls[1].Kind, b.Marks[9].What = "", Entered }, want: []string{OpenCall}},
		"a result is settled again":                  {plant: func(b *Books) { b.Marks[10] = with(b.Marks[9], 13) }, want: []string{Resettled}},
		"a result is changed":                        {plant: func(b *Books) { b.Marks[10] = with(b.Marks[9], 13); b.Marks[10].What = Altered }, want: []string{Resettled}},
		"a send is begun by two claims":              {plant: func(b *Books) { b.Marks[5] = with(b.Marks[2], 5.5); b.Marks[5].Generation, b.Marks[5].Current = 2, 2 }, want: []string{BegunTwice}},
		"an orphan is answered by somebody else":     {plant: func(b *Books) { b.Calls[0].Kind, b.Marks[4].Kind = "answered", "answered" }, want: []string{Guessed}},
		"a stale generation appends":                 {plant: func(b *Books) { b.Marks = append(b.Marks, mark(11, Entered, 2, 3)) }, want: []string{StaleWrite}},
		"somebody appends after the end": {plant: func(b *Books) {
			b.Marks = append(b.Marks, Mark{At: at(16), What: Entered, Run: "r", Generation: 4, Current: 4, Over: true})
		}, want: []string{StaleWrite}},
		"a write of a ghost is accepted": {plant: func(b *Books) {
			b.Faults = append(b.Faults, Fault{At: at(11), Kind: Ghost, Run: "r", Tried: 9, Accepted: 1})
		}, want: []string{StaleWrite}},
		"a generation is given twice": {plant: func(b *Books) { b.Marks[7].Generation, b.Marks[7].Current = 2, 2 }, want: []string{Backwards}},
		"a run stands still":          {plant: func(b *Books) { b.Runs[0].Created = at(-50) }, want: []string{Stuck}},
		"a run stands still while Postgres is up anew": {plant: func(b *Books) {
			b.Runs[0].Created = at(-50)
			b.Faults = append(b.Faults, Fault{At: at(-32), Kind: PostgresRestart, Took: 2 * time.Second})
		}},
		"a run stands still while no manager is there": {plant: func(b *Books) {
			b.Runs[0].Created = at(-50)
			b.Faults = append(b.Faults, Fault{At: at(-45), Kind: ManagerKill, Took: 60 * time.Second})
		}},
		"a run stands still before a manager is killed": {plant: func(b *Books) {
			b.Runs[0].Created = at(-50)
			b.Faults = append(b.Faults, Fault{At: at(2), Kind: ManagerKill, Took: 60 * time.Second})
		}, want: []string{Stuck}},
		"a run stands still while pods are taken away": {plant: func(b *Books) {
			b.Runs[0].Created = at(-50)
			b.Faults = append(b.Faults, Fault{At: at(-10), Kind: "pod deleted", Took: 2 * time.Second})
		}, want: []string{Stuck}},
		"a request breaks the protocol of the model": {plant: func(b *Books) { b.BadRequests = 1 }, want: []string{BadWire}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := told()
			tc.plant(&b)
			var laws []string
			for _, v := range Judge(b) {
				if len(laws) == 0 || laws[len(laws)-1] != v.Law {
					laws = append(laws, v.Law)
				}
			}
			if diff := cmp.Diff(tc.want, laws); diff != "" {
				t.Errorf("laws broken (-want +got):\n%s%v", diff, Judge(b))
			}
		})
	}
}

func (b *Books) again(p Phase) {
	p.At = at(21)
	b.Runs[0].Phases = append(b.Runs[0].Phases, p)
}

func (b *Books) fail() {
	p := &b.Runs[0].Phases[1]
	p.Phase, p.Reason, b.Ends[0] = "Failed", "PoisonSegment", End{"r", "Failed", "PoisonSegment"}
}

func (b *Books) effect(key string, second float64) {
	b.Effects = append(b.Effects, Effect{Key: key, Tool: "some", At: at(second)})
}

func with(m Mark, second float64) Mark {
	m.At = at(second)
	return m
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	b := told()
	b.effect("k1", 5) // one duplicate
	got := Summarize(7, b)
	got.Violations = nil
	want := Report{
		Seed: 7, Took: time.Minute, Runs: 1, PerMin: 1, Kills: 1, KillMin: 1,
		Faults: map[string]int{Kill: 1, Zombie: 1}, KillsAt: map[string]int{"kill ToolBegan": 1, "zombie CallStarted": 1},
		Calls: map[string]int{"crm/send indeterminate": 1, "crm/look answered": 1}, Effects: map[string]int{"send": 1, "look": 2, "some": 1},
		Repeated: map[string]int{"look": 1, "some": 1}, Indeterminate: 1, Landed: 1, InFlight: 2, Duplicates: 1, Refused: 1,
		Recovery: Spread{N: 1, P50: time.Second, P99: time.Second, Max: time.Second}, Longest: 2 * time.Second, Slow: 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
