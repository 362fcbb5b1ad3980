package ledger_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// TestAnAdmissionLeavesNothingOut: what the ledger tells and the state machine does not hear of decides nothing.
func TestAnAdmissionLeavesNothingOut(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := ledger.Record{
		SnapshotDigest: "d", Terms: contract.Terms{Schema: 1}, Unreadable: "why", CancelledAt: at, End: &ledger.End{Phase: v1alpha1.RunFailed},
		Attempts: []ledger.Attempt{{}}, Outcome: &contract.Outcome{}, OutcomeAt: at, Inbox: []contract.Delivery{{}}, Waits: 1, LapsesAt: at, SetBack: true,
	}
	a := reflect.ValueOf(*r.Admission("uid"))
	for i := range a.NumField() {
		if a.Field(i).IsZero() {
			t.Errorf("%s is left out", a.Type().Field(i).Name)
		}
	}
}
