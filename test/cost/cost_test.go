package cost

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
	"github.com/ekiden-dev/ekiden/test/bare"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestTransactionsOfARun holds the loop itself, and not only the methods of the store, to what is promised: at most two
// transactions a turn and two a call. It takes one and two, two to claim and load, one to yield.
func TestTransactionsOfARun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		calls []string
		turns int
	}{
		"turns without calls":                  {turns: 5},
		"turns with one call each":             {turns: 5, calls: []string{"order"}},
		"turns with several calls":             {turns: 3, calls: []string{"order", "look", "order"}},
		"a call that reads costs like another": {turns: 1, calls: []string{"look"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := admitted(t)
			var script []segmenttest.Reply
			for range tc.turns {
				if len(tc.calls) == 0 {
					script = append(script, segmenttest.Cut("and on "))
					continue
				}
				script = append(script, bare.Calls(tc.calls...))
			}
			begun := time.Now()
			r.Segment(t, ledger.AttemptKey{}, segmenttest.Script(append(script, segmenttest.Says("done"))...), nil)
			beats := int(time.Since(begun) / contract.BeatEvery) // of a machine that is busy with something else
			if o := r.Look(t).Outcome; o == nil || o.Yield != contract.YieldCompleted {
				t.Fatalf("the segment left %+v", o)
			}
			turns, calls := tc.turns+1, tc.turns*len(tc.calls)
			got, want := r.Proxy.Transactions(), 2+turns+2*calls+1
			if got < want || got > want+beats {
				t.Errorf("%d turns and %d calls took %d transactions, want %d", turns, calls, got, want)
			}
		})
	}
}

// TestFiveHundredTurnsGrowLinearly says that there is no wall of history: what a turn writes is what it adds, however much was said
// before. The conversation has about 400,000 tokens at its end, four bytes each, in twenty-five segments.
func TestFiveHundredTurnsGrowLinearly(t *testing.T) {
	t.Parallel()
	const (
		turns, every = 500, 20
		said         = 4 * 800
		// around is what is written besides what is said: the entry's form, the usage, the fence.
		around = 3 << 10
	)
	r := admitted(t)
	word := strings.Repeat("word ", said/5)
	var first int64
	for done := 0; done < turns; done += every {
		var script []segmenttest.Reply
		for range every {
			c := segmenttest.Cut(word)
			c.Answer.Raw = nil // what a provider sends is kept beside the words, and would only count twice
			script = append(script, c)
		}
		before := r.Proxy.Sent()
		stop := make(chan struct{})
		r.Segment(t, ledger.AttemptKey{Segment: done / every}, &stopping{segmenttest.Script(script...), every, stop}, stop)
		spent := r.Proxy.Sent() - before
		if first == 0 {
			first = spent
		}
		if most := int64(every * (said + around)); spent > most {
			t.Fatalf("turns %d to %d wrote %d bytes, at most %d are promised", done, done+every, spent, most)
		}
		if spent > first+first/50 {
			t.Fatalf("turns %d to %d wrote %d bytes, the first ones %d: a turn costs more for what was said before", done, done+every, spent, first)
		}
	}
	var entries int
	var bytes int64
	r.Query(t, `SELECT count(*), sum(octet_length(body)) FROM ekiden.transcript WHERE run_uid = $1`, &entries, &bytes)
	if entries != turns || bytes < turns*said || bytes > turns*(said+around) {
		t.Errorf("%d entries of %d bytes are stored, want %d of about %d", entries, bytes, turns, turns*said)
	}
	t.Logf("%d turns: %d bytes sent for each block of %d, %d bytes stored", turns, first, every, bytes)
}

func admitted(t *testing.T) *bare.Run {
	t.Helper()
	r := bare.Open(t)
	r.Admit(t, r.Snapshot(), bare.Allow())
	return r
}

// stopping has the segment hand the run over after so many answers.
type stopping struct {
	segment.Model
	left int
	stop chan<- struct{}
}

func (s *stopping) Answer(ctx context.Context, p prompt.Prompt, emit func(string)) (segment.Answer, error) {
	if s.left--; s.left == 0 {
		close(s.stop)
	}
	return s.Model.Answer(ctx, p, emit)
}
