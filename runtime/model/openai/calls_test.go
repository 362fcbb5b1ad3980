package openai_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

func TestRawCalls(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		given []string
		want  string
	}{
		"a call keeps what belongs to it": {
			sse(calls(`{"index":0,"id":"a","type":"function","extra_content":{"google":{"thought_signature":"S"}},"function":{"name":"f","arguments":"{}"}}`), finish("tool_calls")),
			`{"content":null,"role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"S"}},"function":{"arguments":"{}","name":"f"},"id":"a","type":"function"}]}`,
		},
		"text beside calls is kept": {
			sse(delta(`"content":"Let me see."`), calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), finish("tool_calls")),
			`{"content":"Let me see.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"a","type":"function"}]}`,
		},
		"reasoning beside calls is kept": {
			sse(delta(`"reasoning_content":"hm"`), calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), finish("tool_calls")),
			`{"content":null,"reasoning_content":"hm","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"a","type":"function"}]}`,
		},
		"arguments that are no JSON are replayed as JSON": {
			sse(calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{x"}}`), finish("tool_calls")),
			`{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"malformed\":\"{x\"}","name":"f"},"id":"a","type":"function"}]}`,
		},
		"an id that is missing or taken is made from the call": {
			sse(calls(`{"index":0,"id":"a","function":{"name":"f"}}`, `{"index":1,"id":"a","function":{"name":"f"}}`, `{"index":2,"function":{"name":"f"}}`), finish("tool_calls")),
			`{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"a","type":"function"},{"function":{"arguments":"{}","name":"f"},"id":"3fc811a3e","type":"function"},{"function":{"arguments":"{}","name":"f"},"id":"72679fc09","type":"function"}]}`,
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, modelserver.Step{Raw: row.given})
			if got.err != nil {
				t.Fatal(got.err)
			}
			if diff := cmp.Diff(row.want, string(got.answer.Raw)); diff != "" {
				t.Error(diff)
			}
			replayable(t, got.answer)
			// The same stream gives the same bytes, ids included.
			again := ask(t, modelserver.Step{Raw: row.given})
			if diff := cmp.Diff(string(got.answer.Raw), string(again.answer.Raw)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestArgumentsThatWereCutAreNotMadeWhole(t *testing.T) {
	t.Parallel()
	for _, given := range []string{"", `{\"x\":`} {
		got := ask(t, modelserver.Step{Raw: sse(calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"`+given+`"}}`), finish("length"))})
		want := said{Calls: []segment.ProposedCall{call("f", map[string]string{"": "", `{\"x\":`: `{"x":`}[given])}, Finish: segment.FinishLength}
		if diff := cmp.Diff(want, said{Calls: got.answer.Calls, Finish: got.answer.Finish}); diff != "" {
			t.Error(diff)
		}
		replayable(t, got.answer)
	}
}

// The server's own shapes of calls, in case it is them that are wrong.
func TestScriptedCalls(t *testing.T) {
	t.Parallel()
	list := []modelserver.Call{{Name: "search", Arguments: `{"query":"naïve 😀"}`}, {Name: "now"}, {Name: "search", Arguments: `{"query":"b"}`}}
	rows := map[string]modelserver.Calls{
		"whole":                       {},
		"in pieces":                   {Pieces: 4},
		"together":                    {Together: true},
		"together in pieces":          {Together: true, Pieces: 3},
		"without index":               {Index: "absent"},
		"without index, in pieces":    {Index: "absent", Pieces: 4},
		"index 0":                     {Index: "zero"},
		"index 0, in pieces":          {Index: "zero", Pieces: 4},
		"without id":                  {NoID: true},
		"without id and index":        {NoID: true, Index: "absent"},
		"without id, index 0, as one": {NoID: true, Index: "zero", Together: true},
	}
	want := []segment.ProposedCall{call("search", `{"query":"naïve 😀"}`), call("now", "{}"), call("search", `{"query":"b"}`)}
	for name, c := range rows {
		for _, whole := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", not streamed", false: ""}[whole], func(t *testing.T) {
				t.Parallel()
				c := c
				c.List = list
				got := ask(t, modelserver.Step{Calls: &c, Whole: whole})
				if got.err != nil {
					t.Fatal(got.err)
				}
				if diff := cmp.Diff(want, got.answer.Calls); diff != "" {
					t.Errorf("%s\n%s", diff, got.answer.Raw)
				}
				replayable(t, got.answer)
			})
		}
	}
}
