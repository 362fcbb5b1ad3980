package record

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

func TestWhatIsStoredIsReadBack(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]segment.Entry{
		"an answer": segment.Answered{
			Turn: 2, Try: 1, Text: "5 < 6 & é 🙂", Finish: segment.FinishCalls,
			Raw:   json.RawMessage("{ \"content\":  \"5 < 6 \\u0026 \\u0000 \\ud800\" }\n"),
			Calls: []segment.ProposedCall{{Tool: "search", Arguments: `{"q": "\u0000"`}},
		},
		"an answer without a raw form": segment.Answered{Try: 1, Text: "yes", Finish: segment.FinishStop},
		"a failed try": segment.AttemptFailed{
			Turn: 1, Try: 3, Retryable: true, Code: "Overloaded", Message: "529", NotBefore: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC),
		},
		"a failed try with nothing to wait for": segment.AttemptFailed{Try: 1, Code: "RequestRefused", Message: "400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e, got); diff != "" {
				t.Errorf("-stored +read\n%s", diff)
			}
		})
	}
}

func TestWhatIsUnknownIsNotGuessed(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Record{
		"a kind of a later version":   {Kind: "Compacted", Schema: 1, Body: "{}"},
		"a schema of a later version": {Kind: KindAnswered, Schema: 2, Body: "{}"},
		"a body that does not parse":  {Kind: KindAnswered, Schema: 1, Body: "{"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Decode(r); !errors.Is(err, contract.ErrSchema) {
				t.Errorf("got %v, want ErrSchema", err)
			}
		})
	}
}
