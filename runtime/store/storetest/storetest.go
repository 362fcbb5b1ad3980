// Package storetest is the laws of a segment.Store, one test a sentence. Every store passes them.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
)

// Fixture is a store and the hands that a test needs behind its back. Every function is required but Lose.
type Fixture struct {
	Store segment.Store
	// Namespace is the namespace whose runs the store may work on.
	Namespace types.UID

	Admit  func(t testing.TB, s contract.Snapshot)
	Cancel func(t testing.TB, run types.UID)
	Finish func(t testing.TB, run types.UID)
	// Pass makes it so that d has passed for the run's claim.
	Pass func(t testing.TB, run types.UID, d time.Duration)
	// Plant adds a stored entry at position at, as another version may have written it.
	Plant func(t testing.TB, run types.UID, at int, stored record.Record)
	// Replace puts another body in the place of the snapshot's.
	Replace func(t testing.TB, run types.UID, body string)
	// Terminated says that the process of the run's newest claim was seen to end, and gives the claim back.
	Terminated func(t testing.TB, run types.UID)
	// Decide puts what was decided on a seat into the run's inbox.
	Decide func(t testing.TB, run types.UID, d contract.Delivery)
	// Policy makes the set a new version of the policy of the namespace.
	Policy func(t testing.TB, set contract.PolicySet)
	// Outcome reads an outcome as whoever decides about the run does.
	Outcome func(t testing.TB, run types.UID, segment int) contract.Outcome
	// Count tells what is stored.
	Count func(t testing.TB, run types.UID) Count
	// Lose lets a transaction be carried out without an answer, after so many that are answered. Nil where answers
	// cannot be lost.
	Lose func(after int)
}

// Count is how many rows a run has.
type Count struct{ Entries, Usage, Calls, Outcomes int }

// Snapshot is a snapshot of a new run.
func Snapshot(namespace types.UID) contract.Snapshot {
	uid := types.UID(uuid.NewString())
	return contract.Snapshot{
		Schema: contract.SnapshotSchema, Revision: "writer-1", Task: "Say <hello> & \u00e9 \u2028.",
		Run:       contract.Identity{Namespace: "team", NamespaceUID: namespace, Name: "run-" + string(uid[:8]), UID: uid, RootUID: uid},
		Agent:     v1alpha1.CompiledAgent{Instructions: "Be brief.", Limits: v1alpha1.Limits{Segments: 20, Turns: 40, ActiveSeconds: 1800}},
		Principal: v1alpha1.Principal{User: "jane"},
	}
}

// Answer is an answer of the model at a turn.
func Answer(turn int, text string) segment.Answered {
	raw, err := json.Marshal(map[string]string{"role": "assistant", "content": text})
	if err != nil {
		panic(err) // strings marshal
	}
	return segment.Answered{Turn: turn, Try: 1, Raw: raw, Text: text, Finish: segment.FinishStop}
}

// Spent is what a try has used.
func Spent(turn, try int) []segment.Usage {
	return []segment.Usage{{Turn: turn, Try: try, Tokens: budget.Tokens{Input: 100, CacheRead: 10, Output: 20}, Cost: 7}}
}

var completed = contract.Outcome{Yield: contract.YieldCompleted, Result: "done"}

// Run holds the store to the laws. make is called once a law.
func Run(t *testing.T, make func(t *testing.T) Fixture) {
	laws := map[string]func(*testing.T, Fixture){
		"a claim reads the snapshot and the transcript":                                            claimReads,
		"a run that was never admitted cannot be claimed":                                          claimUnknown,
		"of two claims one works, and the other is told that the run is busy":                      twoClaims,
		"of many claims at once one works":                                                         manyClaims,
		"each claim has a higher generation":                                                       generations,
		"a stale generation can neither append, begin, settle, beat, yield nor release":            stale,
		"a lapsed lease can be taken over, a live one cannot":                                      takeover,
		"a beat, an append and a claim each give the lease a whole TTL":                            renewal,
		"a holder may renew a lapsed lease while its generation stands":                            lateRenewal,
		"a released run can be claimed at once":                                                    release,
		"nothing is written under a claim that was given back":                                     afterRelease,
		"a cancel is seen by the next pulse of every kind":                                         cancelSeen,
		"a cancelled run cannot be claimed, and its holder may still yield":                        cancelClaim,
		"a final run refuses everything":                                                           final,
		"a segment that has its outcome cannot be claimed again":                                   outcomeOnce,
		"the newest segment is the one after the last outcome":                                     newest,
		"a repeated append adds nothing":                                                           repeatedAppend,
		"an append at a taken position is refused, whoever wrote what is there":                    conflictingAppend,
		"an append beyond the end is refused":                                                      gap,
		"an append of usage alone adds no entry":                                                   usageAlone,
		"a try that is made again under a later claim costs again":                                 usageAgain,
		"a repeated yield succeeds, also after another segment has begun or the run has ended":     repeatedYield,
		"a second, other yield is refused":                                                         otherYield,
		"a repeated release adds nothing":                                                          repeatedRelease,
		"active time adds up from beat to beat, at most a TTL each, and does not run while parked": active,
		"entries come back in order and whole":                                                     order,
		"what Postgres cannot hold is cleaned":                                                     cleaned,
		"an entry of an unknown kind or schema stops the load, and the claim stands":               unknownEntry,
		"a snapshot of an unknown schema stops the load, and the claim stands":                     unknownSnapshot,
		"appends and beats at the same time do not hurt each other":                                concurrent,
		"a context that has ended is told as such":                                                 ended,
		"of thousands of stale writes none is accepted":                                            staleStorm,
		"an append, a yield and a release whose answer was lost can be repeated":                   lostAnswers,
		"a claim whose answer was lost can be repeated without waiting for the lease":              lostClaim,
	}
	maps.Copy(laws, lawsOfCalls)
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(t, make(t))
		})
	}
}

func (f Fixture) admitted(t *testing.T) types.UID {
	t.Helper()
	s := Snapshot(f.Namespace)
	f.Admit(t, s)
	return s.Run.UID
}

func (f Fixture) claim(t *testing.T, run types.UID, number int) (segment.Claim, segment.Session) {
	t.Helper()
	c, s, err := f.Store.Claim(t.Context(), segment.Ask{Run: run, Segment: number, Holder: "test"})
	if err != nil {
		t.Fatalf("claiming: %v", err)
	}
	return c, s
}

func (f Fixture) refused(t *testing.T, run types.UID, number int, want error) {
	t.Helper()
	_, s, err := f.Store.Claim(t.Context(), segment.Ask{Run: run, Segment: number, Holder: "test"})
	if !errors.Is(err, want) || s != nil {
		t.Errorf("claiming segment %d: session %v, error %v; want error %v", number, s, err, want)
	}
}

func (f Fixture) counts(t *testing.T, run types.UID, want Count) {
	t.Helper()
	if got := f.Count(t, run); got != want {
		t.Errorf("stored: %+v, want %+v", got, want)
	}
}

func (f Fixture) lapse(t *testing.T, run types.UID) {
	t.Helper()
	f.Pass(t, run, contract.LeaseTTL+time.Second)
}

func entries(es ...segment.Entry) []segment.Entry { return es }

func appended(t *testing.T, s segment.Session, at int, e segment.Entry, u []segment.Usage) segment.Pulse {
	t.Helper()
	p, err := s.Append(t.Context(), at, entries(e), u)
	if err != nil {
		t.Fatalf("appending: %v", err)
	}
	return p
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func claimReads(t *testing.T, f Fixture) {
	want := Snapshot(f.Namespace)
	f.Admit(t, want)
	c, s := f.claim(t, want.Run.UID, 0)
	same(t, c.Snapshot, want)
	same(t, len(c.Transcript), 0)
	same(t, c.Segment, 0)
	a := Answer(0, "hello")
	appended(t, s, 0, a, nil)
	ok(t, s.Release(t.Context(), nil))

	c, _ = f.claim(t, want.Run.UID, 0)
	same(t, c.Snapshot, want)
	same(t, c.Transcript, segment.Transcript{a})
}

func claimUnknown(t *testing.T, f Fixture) {
	f.refused(t, types.UID(uuid.NewString()), 0, segment.ErrNotAdmitted)
	f.refused(t, "not a UID", segment.Newest, segment.ErrNotAdmitted)
}

func twoClaims(t *testing.T, f Fixture) {
	run := f.admitted(t)
	f.claim(t, run, 0)
	f.refused(t, run, 0, segment.ErrBusy)
	f.refused(t, run, segment.Newest, segment.ErrBusy)
}

func manyClaims(t *testing.T, f Fixture) {
	run := f.admitted(t)
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() { _, _, errs[i] = f.Store.Claim(t.Context(), segment.Ask{Run: run, Holder: "test"}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			is(t, err, segment.ErrBusy)
		}
	}
	same(t, won, 1)
}

func generations(t *testing.T, f Fixture) {
	run := f.admitted(t)
	last := int64(-1)
	for range 3 {
		c, s := f.claim(t, run, 0)
		if c.Generation <= last {
			t.Errorf("generation %d after %d", c.Generation, last)
		}
		last = c.Generation
		ok(t, s.Release(t.Context(), nil))
	}
}

func allFenced(t *testing.T, s segment.Session) {
	t.Helper()
	ctx := t.Context()
	for _, at := range []int{0, 1} {
		_, err := s.Append(ctx, at, entries(Answer(at, "late")), Spent(at, 1))
		is(t, err, segment.ErrFenced)
	}
	_, err := s.Append(ctx, 0, nil, Spent(0, 1))
	is(t, err, segment.ErrFenced)
	_, err = s.Begin(ctx, Intent(0, 0))
	is(t, err, segment.ErrFenced)
	_, err = s.Settle(ctx, Settlement(0, 0, segment.ResultRefused))
	is(t, err, segment.ErrFenced)
	_, err = s.Beat(ctx)
	is(t, err, segment.ErrFenced)
	is(t, s.Yield(ctx, completed, Spent(0, 1)), segment.ErrFenced)
	is(t, s.Release(ctx, Spent(0, 1)), segment.ErrFenced)
}

func stale(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, old := f.claim(t, run, 0)
	f.lapse(t, run)
	_, s := f.claim(t, run, 0)
	allFenced(t, old)
	f.counts(t, run, Count{})
	appended(t, s, 0, Answer(0, "hello"), nil)
	allFenced(t, old)
	f.counts(t, run, Count{Entries: 1})
	ok(t, s.Release(t.Context(), nil))
	allFenced(t, old)
	f.counts(t, run, Count{Entries: 1})
}

func takeover(t *testing.T, f Fixture) {
	run := f.admitted(t)
	f.claim(t, run, 0)
	f.Pass(t, run, contract.LeaseTTL-5*time.Second)
	f.refused(t, run, 0, segment.ErrBusy)
	f.Pass(t, run, contract.LeaseTTL+time.Second)
	f.claim(t, run, 0)
	f.refused(t, run, 0, segment.ErrBusy)
}

func renewal(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	almost := contract.LeaseTTL - 5*time.Second
	for _, renew := range []func() error{
		func() error { _, err := s.Beat(t.Context()); return err },
		func() error { _, err := s.Append(t.Context(), 0, entries(Answer(0, "x")), nil); return err },
		func() error { _, err := s.Append(t.Context(), 1, nil, Spent(1, 1)); return err },
	} {
		f.Pass(t, run, almost)
		f.refused(t, run, 0, segment.ErrBusy)
		ok(t, renew())
	}
	f.Pass(t, run, almost)
	f.refused(t, run, 0, segment.ErrBusy)
}

func lateRenewal(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	f.lapse(t, run)
	_, err := s.Beat(t.Context())
	ok(t, err)
	f.refused(t, run, 0, segment.ErrBusy)
	f.lapse(t, run)
	appended(t, s, 0, Answer(0, "x"), nil)
	f.lapse(t, run)
	ok(t, s.Yield(t.Context(), completed, nil))
}

func release(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	ok(t, s.Release(t.Context(), Spent(0, 1)))
	c, _ := f.claim(t, run, segment.Newest)
	same(t, c.Segment, 0)
	f.counts(t, run, Count{Usage: 1})
}

func afterRelease(t *testing.T, f Fixture) {
	for _, give := range []func(segment.Session) error{
		func(s segment.Session) error { return s.Release(t.Context(), nil) },
		func(s segment.Session) error { return s.Yield(t.Context(), completed, nil) },
	} {
		run := f.admitted(t)
		_, s := f.claim(t, run, 0)
		ok(t, give(s))
		before := f.Count(t, run)
		_, err := s.Beat(t.Context())
		is(t, err, segment.ErrFenced)
		_, err = s.Append(t.Context(), 0, entries(Answer(0, "late")), Spent(0, 1))
		is(t, err, segment.ErrFenced)
		_, err = s.Begin(t.Context(), Intent(0, 0))
		is(t, err, segment.ErrFenced)
		_, err = s.Settle(t.Context(), Settlement(0, 0, segment.ResultRefused))
		is(t, err, segment.ErrFenced)
		is(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCheckpoint}, Spent(0, 1)), segment.ErrFenced)
		f.counts(t, run, before)
	}
}

func cancelSeen(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	p, err := s.Beat(t.Context())
	ok(t, err)
	same(t, p.Cancelled, false)
	f.Cancel(t, run)
	p, err = s.Beat(t.Context())
	ok(t, err)
	same(t, p.Cancelled, true)
	same(t, appended(t, s, 0, Answer(0, "x"), nil).Cancelled, true)
	same(t, appended(t, s, 0, Answer(0, "x"), nil).Cancelled, true) // a repetition
}

func cancelClaim(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	f.Cancel(t, run)
	f.refused(t, run, 0, segment.ErrOver)
	f.lapse(t, run)
	f.refused(t, run, 0, segment.ErrOver)
	ok(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCancelled}, nil))
	f.refused(t, run, segment.Newest, segment.ErrOver)

	fresh := f.admitted(t)
	f.Cancel(t, fresh)
	f.refused(t, fresh, 0, segment.ErrOver)
	f.counts(t, fresh, Count{})
}

func final(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	f.Finish(t, run)
	allFenced(t, s)
	f.refused(t, run, 0, segment.ErrOver)
	f.refused(t, run, segment.Newest, segment.ErrOver)
	f.Cancel(t, run)
	f.Finish(t, run)
	allFenced(t, s)
	f.counts(t, run, Count{})
}

func outcomeOnce(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	ok(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCheckpoint}, nil))
	f.refused(t, run, 0, segment.ErrOver)
	c, _ := f.claim(t, run, 1)
	same(t, c.Segment, 1)
	f.refused(t, run, 0, segment.ErrOver) // over, though also busy
	f.counts(t, run, Count{Outcomes: 1})
}

func newest(t *testing.T, f Fixture) {
	run := f.admitted(t)
	for want := range 3 {
		c, s := f.claim(t, run, segment.Newest)
		same(t, c.Segment, want)
		ok(t, s.Release(t.Context(), nil))
		c, s = f.claim(t, run, segment.Newest)
		same(t, c.Segment, want)
		ok(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCheckpoint}, nil))
	}
	f.counts(t, run, Count{Outcomes: 3})
}

func repeatedAppend(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	both := entries(segment.AttemptFailed{Try: 1, Retryable: true, Code: "Overloaded", NotBefore: time.Unix(1700000000, 123456789)}, Answer(0, "x"))
	for range 3 {
		_, err := s.Append(t.Context(), 0, both, Spent(0, 1))
		ok(t, err)
	}
	f.counts(t, run, Count{Entries: 2, Usage: 1})
	appended(t, s, 2, Answer(1, "y"), nil)
	_, err := s.Append(t.Context(), 0, both, Spent(0, 1))
	ok(t, err)
	f.counts(t, run, Count{Entries: 3, Usage: 1})
}

func conflictingAppend(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, old := f.claim(t, run, 0)
	appended(t, old, 0, Answer(0, "x"), nil)
	_, err := old.Append(t.Context(), 0, entries(Answer(0, "y")), Spent(9, 1))
	is(t, err, segment.ErrFenced)
	_, err = old.Append(t.Context(), 0, entries(Answer(0, "x"), Answer(1, "z")), Spent(9, 1)) // half of it is there
	is(t, err, segment.ErrFenced)
	ok(t, old.Release(t.Context(), nil))

	_, s := f.claim(t, run, 0)
	_, err = s.Append(t.Context(), 0, entries(Answer(0, "x")), Spent(9, 1)) // the same words, of another claim
	is(t, err, segment.ErrFenced)
	f.counts(t, run, Count{Entries: 1})
	appended(t, s, 1, Answer(1, "y"), nil)
}

func gap(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	if _, err := s.Append(t.Context(), 1, entries(Answer(1, "x")), nil); err == nil {
		t.Error("an append at position 1 of an empty transcript was accepted")
	}
	f.counts(t, run, Count{})
}

func usageAlone(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	for range 2 {
		_, err := s.Append(t.Context(), 0, nil, Spent(0, 1))
		ok(t, err)
	}
	f.counts(t, run, Count{Usage: 1})
}

func usageAgain(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	ok(t, s.Release(t.Context(), Spent(0, 1)))
	_, s = f.claim(t, run, 0)
	appended(t, s, 0, Answer(0, "x"), append(Spent(0, 1), Spent(0, 2)...))
	ok(t, s.Yield(t.Context(), completed, Spent(1, 1)))
	f.counts(t, run, Count{Entries: 1, Usage: 4, Outcomes: 1})
}

func repeatedYield(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	o := contract.Outcome{Yield: contract.YieldCheckpoint, Code: "c", Message: "m\x00", Result: "r"}
	again := func() { t.Helper(); ok(t, s.Yield(t.Context(), o, Spent(0, 1))) }
	again()
	again()
	f.counts(t, run, Count{Outcomes: 1, Usage: 1})
	f.claim(t, run, 1)
	again()
	f.refused(t, run, 1, segment.ErrBusy) // the other claim was left alone
	f.Finish(t, run)
	again()
	f.counts(t, run, Count{Outcomes: 1, Usage: 1})
}

func otherYield(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	ok(t, s.Yield(t.Context(), completed, nil))
	is(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCompleted, Result: "other"}, nil), segment.ErrFenced)
	f.counts(t, run, Count{Outcomes: 1})
}

func repeatedRelease(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	for range 3 {
		ok(t, s.Release(t.Context(), Spent(0, 1)))
	}
	f.counts(t, run, Count{Usage: 1})
	f.claim(t, run, 0)
	is(t, s.Release(t.Context(), Spent(0, 1)), segment.ErrFenced)
	f.refused(t, run, 0, segment.ErrBusy)
}

func active(t *testing.T, f Fixture) {
	run := f.admitted(t)
	about := func(got, want time.Duration) {
		t.Helper()
		if got < want || got > want+5*time.Second {
			t.Errorf("active %s, want %s", got, want)
		}
	}
	c, s := f.claim(t, run, 0)
	about(c.Active, 0)
	f.Pass(t, run, 10*time.Second)
	p, err := s.Beat(t.Context())
	ok(t, err)
	about(p.Active, 10*time.Second)
	f.Pass(t, run, 7*time.Second)
	about(appended(t, s, 0, Answer(0, "x"), nil).Active, 17*time.Second)
	f.Pass(t, run, 10*time.Minute)
	p, err = s.Beat(t.Context())
	ok(t, err)
	about(p.Active, 17*time.Second+contract.LeaseTTL)
	f.Pass(t, run, 3*time.Second)
	ok(t, s.Release(t.Context(), nil))
	ok(t, s.Release(t.Context(), nil))
	f.Pass(t, run, time.Hour) // parked
	c, s = f.claim(t, run, 0)
	about(c.Active, 50*time.Second)
	f.Pass(t, run, 5*time.Second)
	ok(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCheckpoint}, nil))
	f.Pass(t, run, time.Hour)
	c, _ = f.claim(t, run, 1)
	about(c.Active, 55*time.Second)
}

func order(t *testing.T, f Fixture) {
	run := f.admitted(t)
	var want segment.Transcript
	for number := range 3 {
		_, s := f.claim(t, run, number)
		for range 6 {
			turn := len(want)
			more := entries(
				segment.AttemptFailed{Turn: turn, Try: 1, Retryable: true, Code: "Overloaded", Message: "try later", NotBefore: time.Date(2026, 5, 6, 7, 8, 9, 987654321, time.UTC)},
				segment.Answered{
					Turn: turn, Try: 2, Text: fmt.Sprint("text ", turn), Finish: segment.FinishCalls,
					Raw:   json.RawMessage(fmt.Sprintf("{ \"n\": %d, \"html\": \"<b>&\", \"nul\": \"\\u0000\", \"half\": \"\\ud800\" }", turn)),
					Calls: []segment.ProposedCall{{Tool: "a", Arguments: `{"x": 1`}, {Tool: "b", Arguments: `{"nul": "\u0000"}`}},
				})
			_, err := s.Append(t.Context(), len(want), more, nil)
			ok(t, err)
			want = append(want, more...)
		}
		ok(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCheckpoint}, nil))
	}
	c, _ := f.claim(t, run, segment.Newest)
	same(t, c.Transcript, want)
}

func cleaned(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	for range 2 { // the repetition is recognised
		appended(t, s, 0, segment.Answered{Try: 1, Text: "a\x00b\xffc", Finish: segment.FinishStop, Raw: json.RawMessage("\"\xff\""), Calls: []segment.ProposedCall{{Tool: "\x00", Arguments: "\xfe"}}}, nil)
		appended(t, s, 1, segment.AttemptFailed{Turn: 1, Try: 1, Code: "\x00", Message: "\xc3\x28"}, nil)
	}
	for range 2 {
		ok(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCheckpoint, Code: "\x00", Message: "\xff", Result: "\x00\xff"}, nil))
	}
	c, _ := f.claim(t, run, 1)
	same(t, c.Transcript, segment.Transcript{
		segment.Answered{Try: 1, Text: "a\uFFFDb\uFFFDc", Finish: segment.FinishStop, Raw: json.RawMessage("\"\uFFFD\""), Calls: []segment.ProposedCall{{Tool: "\uFFFD", Arguments: "\uFFFD"}}},
		segment.AttemptFailed{Turn: 1, Try: 1, Code: "\uFFFD", Message: "\uFFFD("},
	})
}

func standsThough(t *testing.T, f Fixture, run types.UID) {
	t.Helper()
	c, s, err := f.Store.Claim(t.Context(), segment.Ask{Run: run, Segment: segment.Newest, Holder: "test"})
	is(t, err, contract.ErrSchema)
	if s == nil {
		t.Fatal("there is no session to write the outcome with")
	}
	same(t, c.Segment, 0)
	f.refused(t, run, 0, segment.ErrBusy)
	ok(t, s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldFailed, Code: v1alpha1.ReasonIncompatibleSession}, nil))
	f.refused(t, run, 0, segment.ErrOver)
}

func unknownEntry(t *testing.T, f Fixture) {
	for _, stored := range []record.Record{
		{Kind: "Compacted", Schema: 1, Body: "{}"}, {Kind: record.KindAnswered, Schema: 99, Body: "{}"}, {Kind: record.KindAnswered, Schema: 1, Body: "{"},
	} {
		run := f.admitted(t)
		_, s := f.claim(t, run, 0)
		appended(t, s, 0, Answer(0, "x"), nil)
		ok(t, s.Release(t.Context(), nil))
		f.Plant(t, run, 1, stored)
		standsThough(t, f, run)
	}
}

func unknownSnapshot(t *testing.T, f Fixture) {
	for _, body := range []string{`{"schema": 99}`, `{`, ``} {
		run := f.admitted(t)
		f.Replace(t, run, body)
		standsThough(t, f, run)
	}
}

func concurrent(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	var (
		wg   sync.WaitGroup
		over atomic.Bool
	)
	for range 3 {
		wg.Go(func() {
			last := time.Duration(-1)
			for !over.Load() {
				p, err := s.Beat(t.Context())
				if err != nil {
					t.Errorf("beating: %v", err)
					return
				}
				if p.Active < last {
					t.Errorf("active time fell from %s to %s", last, p.Active)
				}
				last = p.Active
			}
		})
	}
	for i := range 50 {
		appended(t, s, i, Answer(i, "x"), Spent(i, 1))
	}
	over.Store(true)
	wg.Wait()
	f.counts(t, run, Count{Entries: 50, Usage: 50})
}

func ended(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Beat(ctx)
	is(t, err, context.Canceled)
	_, err = s.Append(ctx, 0, entries(Answer(0, "x")), nil)
	is(t, err, context.Canceled)
	_, err = s.Begin(ctx, Intent(0, 0))
	is(t, err, context.Canceled)
	_, err = s.Settle(ctx, Settlement(0, 0, segment.ResultRefused))
	is(t, err, context.Canceled)
	_, err = s.Policy(ctx)
	is(t, err, context.Canceled)
	is(t, s.Yield(ctx, completed, nil), context.Canceled)
	is(t, s.Release(ctx, nil), context.Canceled)
	_, _, err = f.Store.Claim(ctx, segment.Ask{Run: run, Holder: "test"})
	is(t, err, context.Canceled)
	_, err = s.Beat(t.Context())
	ok(t, err)
	f.counts(t, run, Count{})
}

func staleStorm(t *testing.T, f Fixture) {
	run := f.admitted(t)
	_, old := f.claim(t, run, 0)
	f.lapse(t, run)
	_, s := f.claim(t, run, 0)
	appended(t, s, 0, Answer(0, "x"), nil)
	n := 10_000
	if testing.Short() {
		n = 500
	}
	late, spent := entries(Answer(1, "late")), Spent(1, 1)
	for i := range n {
		var err error
		switch i % 6 {
		case 0:
			_, err = old.Append(t.Context(), 1, late, spent)
		case 1:
			_, err = old.Beat(t.Context())
		case 2:
			err = old.Yield(t.Context(), completed, spent)
		case 3:
			err = old.Release(t.Context(), spent)
		case 4:
			_, err = old.Begin(t.Context(), Intent(0, 0))
		case 5:
			_, err = old.Settle(t.Context(), Settlement(0, 0, segment.ResultAnswered))
		}
		if !errors.Is(err, segment.ErrFenced) {
			t.Fatalf("stale write %d: got error %v, want ErrFenced", i, err)
		}
	}
	f.counts(t, run, Count{Entries: 1})
	_, err := s.Beat(t.Context())
	ok(t, err)
}

// unavailableOnce repeats what gave ErrUnavailable at first.
func unavailableOnce(t *testing.T, f Fixture, do func() error) {
	t.Helper()
	f.Lose(0)
	is(t, do(), segment.ErrUnavailable)
	ok(t, do())
	ok(t, do())
}

func lostAnswers(t *testing.T, f Fixture) {
	if f.Lose == nil {
		t.Log("this store loses no answers")
		return
	}
	run := f.admitted(t)
	_, s := f.claim(t, run, 0)
	unavailableOnce(t, f, func() error { _, err := s.Append(t.Context(), 0, entries(Answer(0, "x")), Spent(0, 1)); return err })
	unavailableOnce(t, f, func() error { _, err := s.Beat(t.Context()); return err })
	f.counts(t, run, Count{Entries: 1, Usage: 1})
	unavailableOnce(t, f, func() error { return s.Release(t.Context(), Spent(1, 1)) })
	f.counts(t, run, Count{Entries: 1, Usage: 2})
	_, s = f.claim(t, run, 0)
	unavailableOnce(t, f, func() error { return s.Yield(t.Context(), completed, Spent(1, 1)) })
	f.counts(t, run, Count{Entries: 1, Usage: 3, Outcomes: 1})
	f.refused(t, run, 0, segment.ErrOver)
}

func lostClaim(t *testing.T, f Fixture) {
	if f.Lose == nil {
		t.Log("this store loses no answers")
		return
	}
	for answered := range 2 { // the claim's own answer, then that of its load
		run := f.admitted(t)
		ask := segment.Ask{Run: run, Holder: "test"}
		f.Lose(answered)
		_, s, err := f.Store.Claim(t.Context(), ask)
		is(t, err, segment.ErrUnavailable)
		same(t, s == nil, true)
		_, s, err = f.Store.Claim(t.Context(), ask)
		ok(t, err)
		f.refused(t, run, 0, segment.ErrBusy)
		appended(t, s, 0, Answer(0, "x"), nil)
	}
}
