package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

// Fold puts the rows of a session in the order in which things happened. What another version wrote is marked
// and passed over, so that the rest can still be read.
func Fold(r Rows) Session {
	s := Session{Run: r.Run, AdmittedAt: r.AdmittedAt, CancelledAt: r.CancelledAt, End: r.End, Start: start(r)}
	steps := map[int][]Step{}
	for _, e := range r.Entries {
		steps[e.Segment] = append(steps[e.Segment], e.step())
	}
	where := r.segments()
	for _, u := range r.Usage {
		s.Usage = s.Usage.plus(u.Usage)
		n := where(u.Generation)
		steps[n] = spend(steps[n], u)
	}
	outcomes := map[int]Outcome{}
	for _, o := range r.Outcomes {
		outcomes[o.Segment] = o.outcome()
		steps[o.Segment] = append([]Step{}, steps[o.Segment]...) // a segment without a step has a chapter too
	}
	settle(steps, r)
	for n, of := range steps {
		one := Segment{Number: n, Steps: of}
		if o, ended := outcomes[n]; ended {
			one.Outcome = &o
		}
		s.Segments = append(s.Segments, one)
	}
	slices.SortFunc(s.Segments, func(a, b Segment) int { return cmp.Compare(a.Number, b.Number) })
	return s
}

func start(r Rows) Start {
	snapshot, err := contract.DecodeSnapshot([]byte(r.Snapshot))
	if err != nil {
		return Start{Digest: r.Digest, Unreadable: err.Error()}
	}
	return Start{
		Digest: r.Digest, Revision: snapshot.Revision, Principal: snapshot.Principal.User,
		Endpoint: snapshot.Agent.Model.Name, Model: snapshot.Agent.Model.Endpoint.Model, Task: snapshot.Task,
	}
}

func (e EntryRow) step() Step {
	s := Step{At: e.At, Generation: e.Generation}
	switch entry, err := record.Decode(record.Record{Kind: e.Kind, Schema: e.Schema, Body: e.Body}); entry := entry.(type) {
	case segment.Answered:
		if len(entry.Raw) > 0 && !json.Valid(entry.Raw) {
			entry.Raw, _ = json.Marshal(string(entry.Raw)) // a string always has a form
		}
		s.Turn, s.Try, s.Answered = entry.Turn, entry.Try, &entry
	case segment.AttemptFailed:
		s.Turn, s.Try, s.Failed = entry.Turn, entry.Try, &entry
	default:
		s.Turn, s.Try, s.Unreadable = -1, -1, fmt.Sprintf("an entry %s of schema %d", e.Kind, e.Schema)
		if err != nil {
			s.Unreadable = err.Error()
		}
	}
	return s
}

// segments tells of a generation which segment it worked on. Usage does not say so itself. A generation that left
// neither entry nor outcome worked on the same segment as the next one that did: only an outcome moves a run on.
func (r Rows) segments() func(generation int64) int {
	known := map[int64]int{r.Generation: max(r.Segment, 0)}
	for _, e := range r.Entries {
		known[e.Generation] = e.Segment
	}
	for _, o := range r.Outcomes {
		known[o.Outcome.Generation] = o.Segment
	}
	var generations []int64
	for g := range known {
		generations = append(generations, g)
	}
	slices.Sort(generations)
	return func(generation int64) int {
		i, _ := slices.BinarySearch(generations, generation)
		return known[generations[min(i, len(generations)-1)]]
	}
}

// spend gives usage to the try that it is of, or makes it a try that was cut, before whatever came after it.
func spend(steps []Step, u UsageRow) []Step {
	for i := range steps {
		if s := &steps[i]; s.Turn == u.Turn && s.Try == u.Try && s.Generation == u.Generation && s.Usage == nil {
			s.Usage = &u.Usage
			return steps
		}
	}
	later := func(s Step) bool {
		return s.Turn >= 0 && cmp.Or(cmp.Compare(s.Turn, u.Turn), cmp.Compare(s.Try, u.Try), cmp.Compare(s.Generation, u.Generation)) > 0
	}
	at := slices.IndexFunc(steps, later)
	if at < 0 {
		at = len(steps)
	}
	return slices.Insert(steps, at, Step{At: u.At, Generation: u.Generation, Turn: u.Turn, Try: u.Try, Cut: true, Usage: &u.Usage})
}
