package memory_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/store/memory"
	"github.com/ekiden-dev/ekiden/runtime/store/record"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Fixture {
		var mu sync.Mutex
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		s := memory.New(func() time.Time { mu.Lock(); defer mu.Unlock(); return now })
		return storetest.Fixture{
			Store: s, Namespace: types.UID(uuid.NewString()),
			Admit: func(t testing.TB, snapshot contract.Snapshot) {
				t.Helper()
				if err := s.Admit(snapshot); err != nil {
					t.Fatal(err)
				}
			},
			Cancel: func(_ testing.TB, run types.UID) { s.Cancel(run) },
			Finish: func(_ testing.TB, run types.UID) { s.Finish(run) },
			Pass: func(_ testing.TB, run types.UID, d time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				now = now.Add(d)
			},
			Terminated: func(_ testing.TB, run types.UID) { s.Terminated(run) },
			Plant:      func(_ testing.TB, run types.UID, _ int, stored record.Record) { s.Plant(run, stored) },
			Replace:    func(_ testing.TB, run types.UID, body string) { s.Replace(run, []byte(body)) },
			Decide:     func(_ testing.TB, run types.UID, d contract.Delivery) { s.Decide(run, d) },
			Policy:     func(_ testing.TB, set contract.PolicySet) { s.Policy(set) },
			Outcome: func(_ testing.TB, run types.UID, segment int) contract.Outcome {
				r, _ := s.Look(run)
				return r.Outcomes[segment]
			},
			Count: func(_ testing.TB, run types.UID) storetest.Count {
				r, _ := s.Look(run)
				return storetest.Count{Entries: len(r.Transcript), Usage: len(r.Usage), Calls: len(r.Journal), Outcomes: len(r.Outcomes)}
			},
		}
	})
}
