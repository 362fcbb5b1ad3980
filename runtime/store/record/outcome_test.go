package record

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

func TestAnOutcomeIsReadBack(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]contract.Outcome{
		"an answer": {Yield: contract.YieldCompleted, Code: "Completed", Message: "m", Result: "5 < 6 & é"},
		"one that waits": {Yield: contract.YieldWaiting, Wait: &contract.Wait{Cursor: 3, Asks: []contract.Ask{{
			Turn: 1, Index: 2, Tool: "shop/order", Arguments: "{\"q\":\"<\x00>\"}", Digest: "d", Pool: "finance", Seats: 2,
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, err := EncodeOutcome(o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := stored.Decode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(o, got); diff != "" {
				t.Errorf("-stored +read\n%s", diff)
			}
		})
	}
}

func TestAWaitThatDoesNotParseIsNotGuessed(t *testing.T) {
	t.Parallel()
	broken := `{"asks":7}`
	if _, err := (Outcome{Yield: "waiting", Wait: &broken}).Decode(); !errors.Is(err, contract.ErrSchema) {
		t.Errorf("got %v, want ErrSchema", err)
	}
}
