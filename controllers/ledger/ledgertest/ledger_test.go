package ledgertest_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/ledger/ledgertest"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(*testing.T) ledgertest.Fixture {
		l := ledgertest.New(time.Now)
		return ledgertest.Fixture{
			Ledger:     l,
			Hold:       func(run types.UID, k ledger.AttemptKey) { l.Hold(run, k, ledgertest.Holder) },
			Lapse:      l.Lapse,
			Held:       l.Held,
			Yield:      func(run contract.Identity, segment int, o contract.Outcome) { l.Yield(run.UID, segment, o) },
			Append:     func(run contract.Identity, entries int) { l.Append(run.UID, entries) },
			SettleCall: func(run contract.Identity, turn, index int) { l.Settle(run.UID, turn, index) },
			Versions:   func(namespace types.UID) int { return len(l.Policies(namespace)) },
		}
	})
}
