package record

import (
	"errors"
	"strings"
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

func TestAnOutcomeKeepsToItsBounds(t *testing.T) {
	t.Parallel()
	stored, err := EncodeOutcome(contract.Outcome{
		Yield: contract.YieldFailed, Code: strings.Repeat("c", 100), Message: strings.Repeat("é", 5000), Result: strings.Repeat("r", MaxResult+1),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(stored.Code) != MaxCode || len(stored.Message) != contract.MaxMessage || len(stored.Result) != MaxResult {
		t.Errorf("code %d, message %d, result %d bytes", len(stored.Code), len(stored.Message), len(stored.Result))
	}
}

func TestAsksThatAreTooManyAreLeftForLater(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		n, arguments, want int
	}{
		"as many as are promised": {contract.MaxAsks, 0, contract.MaxAsks},
		"one more":                {contract.MaxAsks + 1, 0, contract.MaxAsks},
		"far more":                {10000, 10, contract.MaxAsks},
		"as large as they can be": {contract.MaxAsks, contract.MaxShownArguments, 21},
		"the largest one":         {1, contract.MaxShownArguments, 1},
	} {
		w := contract.Wait{Cursor: 3}
		for i := range tc.n {
			w.Asks = append(w.Asks, contract.Ask{Index: i, Arguments: strings.Repeat("<", tc.arguments)})
		}
		stored, err := EncodeOutcome(contract.Outcome{Yield: contract.YieldWaiting, Wait: &w})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := stored.Decode()
		if err != nil || len(*stored.Wait) > contract.MaxWait || len(got.Wait.Asks) != tc.want || len(w.Asks) != tc.n {
			t.Errorf("%s: %d bytes, %d asks, want %d: %v", name, len(*stored.Wait), len(got.Wait.Asks), tc.want, err)
		}
		if diff := cmp.Diff(w.Asks[:len(got.Wait.Asks)], got.Wait.Asks); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	whole := contract.Wait{Asks: []contract.Ask{{Arguments: strings.Repeat("x", contract.MaxWait)}}}
	if _, err := EncodeOutcome(contract.Outcome{Yield: contract.YieldWaiting, Wait: &whole}); err == nil {
		t.Error("one ask that finds no room was stored")
	}
}
