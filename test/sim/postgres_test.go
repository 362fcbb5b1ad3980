package sim

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/ledger/ledgertest"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/memory"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
)

// TestJoined holds the two ports onto one database to the laws of both.
func TestJoined(t *testing.T) {
	t.Parallel()
	t.Run("as a ledger", func(t *testing.T) { t.Parallel(); ledgertest.Run(t, asLedger) })
	t.Run("as a store", func(t *testing.T) { t.Parallel(); storetest.Run(t, asStore) })
}

func asLedger(t *testing.T) ledgertest.Fixture {
	t.Helper()
	var skew time.Duration
	p := newPostgres(func() time.Time { return time.Now().Add(skew) })
	held := map[types.UID]segment.Session{}
	hold := func(run types.UID, k ledger.AttemptKey) segment.Session {
		if _, s, _ := p.store.Claim(context.Background(), segment.Ask{Run: run, Segment: k.Segment, Attempt: k.Attempt, Holder: string(ledgertest.Holder)}); s != nil {
			held[run] = s
		}
		return held[run]
	}
	return ledgertest.Fixture{
		Ledger: p,
		Hold:   func(run types.UID, k ledger.AttemptKey) { hold(run, k) },
		Lapse: func(run types.UID, ago time.Duration) {
			row, _ := p.store.Row(run)
			skew += row.LeaseUntil.Sub(p.now()) + ago
		},
		Held: func(run types.UID) bool {
			row, _ := p.store.Row(run)
			return row.Held
		},
		Yield: func(run contract.Identity, number int, o contract.Outcome) {
			stored := record.Outcome{Yield: string(o.Yield), Code: o.Code, Message: o.Message, Result: o.Result}
			if o.Wait != nil {
				body, err := json.Marshal(o.Wait)
				if err != nil {
					t.Fatal(err)
				}
				text := string(body)
				stored.Wait = &text
			}
			p.store.Leave(run.UID, number, stored)
		},
		Append: func(run contract.Identity, entries int) {
			for range entries {
				p.store.Plant(run.UID, record.Record{Kind: "Started", Schema: 1, Body: "{}"})
			}
		},
		SettleCall: func(run contract.Identity, turn, index int) {
			s := hold(run.UID, ledger.AttemptKey{})
			if _, err := s.Settle(context.Background(), segment.Settlement{CallKey: segment.CallKey{Turn: turn, Index: index}}); err != nil {
				t.Error(err)
			}
		},
		Versions: func(namespace types.UID) int { return len(p.Policies(namespace)) },
	}
}

func asStore(*testing.T) storetest.Fixture {
	base := time.Now()
	var skew time.Duration
	p := newPostgres(func() time.Time { return base.Add(skew) })
	namespace, ctx := types.UID(uuid.NewString()), context.Background()
	look := func(run types.UID) memory.Run { r, _ := p.store.Look(run); return r }
	return storetest.Fixture{
		Store: p.store, Namespace: namespace,
		Admit: func(t testing.TB, s contract.Snapshot) {
			t.Helper()
			if err := p.Admit(ctx, ledger.Admission{Snapshot: s}); err != nil {
				t.Fatal(err)
			}
		},
		Terminated: func(_ testing.TB, run types.UID) { p.store.Terminated(run) },
		Cancel:     func(_ testing.TB, run types.UID) { _ = p.Cancel(ctx, run) },
		Finish:     func(_ testing.TB, run types.UID) { _, _ = p.Finish(ctx, run, ledger.End{}) },
		Pass:       func(_ testing.TB, _ types.UID, d time.Duration) { skew += d },
		Plant:      func(_ testing.TB, run types.UID, _ int, stored record.Record) { p.store.Plant(run, stored) },
		Replace: func(_ testing.TB, run types.UID, body string) {
			p.store.Replace(run, []byte(body))
		},
		Decide:  func(_ testing.TB, run types.UID, d contract.Delivery) { p.store.Decide(run, d) },
		Policy:  func(_ testing.TB, set contract.PolicySet) { p.store.Policy(set) },
		Outcome: func(_ testing.TB, run types.UID, number int) contract.Outcome { return look(run).Outcomes[number] },
		Count: func(_ testing.TB, run types.UID) storetest.Count {
			r := look(run)
			return storetest.Count{Entries: len(r.Transcript), Usage: len(r.Usage), Calls: len(r.Journal), Outcomes: len(r.Outcomes)}
		},
	}
}
