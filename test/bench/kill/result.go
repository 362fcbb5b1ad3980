package kill

import (
	"fmt"

	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// Result is what was counted of one engine.
type Result struct {
	Engine string `json:"engine"`
	Load   string `json:"loadAverage"`
	Kills  int    `json:"kills"`
	Runs   int    `json:"runs"`
	// Effects is how many were ordered, Executions how often one was done.
	Effects    int `json:"effects"`
	Executions int `json:"executions"`
	// InFlight is how many executions were going on when their process was killed.
	InFlight int `json:"inFlightAtKills"`
	// Extra is how many executions were more than one for their effect. A process that is killed between an effect's answer and
	// its own note of it makes one that was in flight nowhere, so there may be more of them than InFlight.
	Extra int `json:"extra"`
	// Unknown is how many effects the engine says it does not know the outcome of, UnknownDone how many of them had happened.
	Unknown     int `json:"indeterminate"`
	UnknownDone int `json:"indeterminateDone"`
	// Lost is how many effects were never done and the engine does not say so.
	Lost int `json:"lost"`
	// Unfinished is how many runs had not ended in time, Failed how many ended badly.
	Unfinished int `json:"unfinished"`
	Failed     int `json:"failed"`
	// Seconds is how long it all took, DrainSeconds how long from the last kill to the last end.
	Seconds      float64 `json:"seconds"`
	DrainSeconds float64 `json:"drainSeconds"`
	// Counts are all that was counted.
	Counts []world.Count `json:"counts"`
}

// judge compares what was ordered with what happened.
func (r *Result) judge(wanted []world.Effect, seen []world.Count, unknown []world.Effect) {
	counts := map[world.Effect]world.Count{}
	for _, c := range seen {
		counts[c.Effect] = c
		r.Executions += c.Executions
		r.InFlight += c.Abandoned
		r.Extra += max(c.Executions-1, 0)
	}
	open := map[world.Effect]bool{}
	for _, e := range unknown {
		open[e] = true
		r.Unknown++
		if counts[e].Executions > 0 {
			r.UnknownDone++
		}
	}
	r.Effects, r.Counts = len(wanted), seen
	for _, e := range wanted {
		if counts[e].Executions == 0 && !open[e] {
			r.Lost++
		}
	}
}

// Head are the columns of the table.
var Head = []string{"engine", "kills", "in flight", "extra", "extra/in flight", "indeterminate", "of them done", "lost", "unfinished", "failed", "runs", "effects", "drain s"}

// Row is the result as a row of it.
func (r Result) Row() []string {
	ratio := "-"
	if r.InFlight > 0 {
		ratio = fmt.Sprintf("%.2f", float64(r.Extra)/float64(r.InFlight))
	}
	return []string{
		r.Engine, fmt.Sprint(r.Kills), fmt.Sprint(r.InFlight), fmt.Sprint(r.Extra), ratio, fmt.Sprint(r.Unknown), fmt.Sprint(r.UnknownDone),
		fmt.Sprint(r.Lost), fmt.Sprint(r.Unfinished), fmt.Sprint(r.Failed), fmt.Sprint(r.Runs), fmt.Sprint(r.Effects), fmt.Sprintf("%.0f", r.DrainSeconds),
	}
}
