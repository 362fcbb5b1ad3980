package cost

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	ledgerpg "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/segment/segmenttest"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
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
			w := admitted(t)
			var script []segmenttest.Reply
			for range tc.turns {
				if len(tc.calls) == 0 {
					script = append(script, segmenttest.Cut("and on "))
					continue
				}
				script = append(script, segmenttest.Calls(proposals(tc.calls)...))
			}
			begun := time.Now()
			o := w.segment(t, segmenttest.Script(append(script, segmenttest.Says("done"))...))
			beats := int(time.Since(begun) / contract.BeatEvery) // of a machine that is busy with something else
			if o.Yield != contract.YieldCompleted {
				t.Fatalf("the segment ended %+v", o)
			}
			turns, calls := tc.turns+1, tc.turns*len(tc.calls)
			got, want := w.proxy.Transactions(), 2+turns+2*calls+1
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
	w := admitted(t)
	word := strings.Repeat("word ", said/5)
	var first int64
	for done := 0; done < turns; done += every {
		var script []segmenttest.Reply
		for range every {
			r := segmenttest.Cut(word)
			r.Answer.Raw = nil // what a provider sends is kept beside the words, and would only count twice
			script = append(script, r)
		}
		before := w.proxy.Sent()
		w.upTo(t, segmenttest.Script(script...), every)
		spent := w.proxy.Sent() - before
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
	w.query(t, `SELECT count(*), sum(octet_length(body)) FROM ekiden.transcript WHERE run_uid = $1`, &entries, &bytes)
	if entries != turns || bytes < turns*said || bytes > turns*(said+around) {
		t.Errorf("%d entries of %d bytes are stored, want %d of about %d", entries, bytes, turns, turns*said)
	}
	t.Logf("%d turns: %d bytes sent for each block of %d, %d bytes stored", turns, first, every, bytes)
}

// world is one admitted run in a real Postgres, worked on with the login of its namespace, through a proxy that counts.
type world struct {
	db    *pgtest.Database
	proxy *pgtest.Proxy
	store *postgres.Store
	run   types.UID
	tools *segmenttest.Tools
}

func admitted(t *testing.T) *world {
	t.Helper()
	db, namespace := pgtest.Shared(t), types.UID(uuid.NewString())
	w := &world{db: db, proxy: pgtest.NewProxy(t, db.Tenant(t, namespace)), run: types.UID(uuid.NewString()), tools: &segmenttest.Tools{}}
	l, err := ledgerpg.Open(t.Context(), db.Manager)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	s := contract.Snapshot{
		Revision: "writer-1", Task: "Write.",
		Run: contract.Identity{Namespace: "team", NamespaceUID: namespace, Name: "counted", UID: w.run, RootUID: w.run},
		Agent: v1alpha1.CompiledAgent{
			Instructions: "Be brief.",
			Limits:       v1alpha1.Limits{Segments: 100, Turns: 600, ToolCalls: 600, ActiveSeconds: 36000},
			Segment:      v1alpha1.SegmentTimers{SoftSeconds: 600, HardSeconds: 900},
			Retry:        v1alpha1.Retry{MaxAttempts: 3, BaseSeconds: 1, CapSeconds: 60, MaxRetryAfterSeconds: 60},
		},
	}
	segmenttest.Offer(&s, map[string]v1alpha1.Effect{"look": v1alpha1.EffectRead, "order": v1alpha1.EffectSend})
	if err := l.Admit(t.Context(), ledger.Admission{Snapshot: s}); err != nil {
		t.Fatal(err)
	}
	allow := contract.PolicySet{Sources: []contract.PolicySource{{
		Namespace: "team", Name: "default", UID: "p", Generation: 1,
		Rules: []v1alpha1.PolicyRule{{Name: "all", Match: v1alpha1.PolicyMatch{Tools: []string{"crm/*"}}, Action: v1alpha1.PolicyAllow}},
	}}}
	if err := l.Project(t.Context(), namespace, allow); err != nil {
		t.Fatal(err)
	}
	if w.store, err = postgres.Open(t.Context(), w.proxy.DSN); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	return w
}

// segment carries one segment to its end and gives its outcome.
func (w *world) segment(t *testing.T, m segment.Model) contract.Outcome {
	t.Helper()
	w.work(t, m, nil)
	var o contract.Outcome
	w.query(t, `SELECT yield, code, message FROM ekiden.outcomes WHERE run_uid = $1 ORDER BY segment DESC LIMIT 1`, (*string)(&o.Yield), &o.Code, &o.Message)
	return o
}

// upTo carries one segment on until it has added so many turns, and has it hand the run over.
func (w *world) upTo(t *testing.T, m segment.Model, turns int) {
	t.Helper()
	stop, answers := make(chan struct{}), 0
	w.work(t, stopping{m, func() {
		if answers++; answers == turns {
			close(stop)
		}
	}}, stop)
}

// stopping tells of each answer before it is given.
type stopping struct {
	segment.Model
	answered func()
}

func (s stopping) Answer(ctx context.Context, p prompt.Prompt, emit func(string)) (segment.Answer, error) {
	s.answered()
	return s.Model.Answer(ctx, p, emit)
}

func (w *world) work(t *testing.T, m segment.Model, stop <-chan struct{}) {
	t.Helper()
	c, session, err := segment.Take(t.Context(), w.store, segment.Ask{Run: w.run, Segment: segment.Newest, Holder: "cost"})
	if err != nil {
		t.Fatal(err)
	}
	s := segment.Segment{Claim: c, Session: session, Model: m, Tools: w.tools, Stop: stop, Emit: func(segment.Event) {}}
	if fault, err := s.Run(t.Context()); fault != nil || err != nil {
		t.Fatalf("the segment left with %+v, %v", fault, err)
	}
}

func (w *world) query(t *testing.T, sql string, into ...any) {
	t.Helper()
	if err := pgtest.QueryRow(t.Context(), w.db.Superuser, sql, []any{w.run}, into...); err != nil {
		t.Fatal(err)
	}
}

func proposals(tools []string) []segment.ProposedCall {
	var out []segment.ProposedCall
	for i, tool := range tools {
		out = append(out, segmenttest.Call(tool, fmt.Sprintf(`{"n":%d}`, i)))
	}
	return out
}
