package openai_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

// said is what an answer says.
type said struct {
	Text   string
	Calls  []segment.ProposedCall
	Finish segment.Finish
	Raw    string
}

func call(tool, arguments string) segment.ProposedCall {
	return segment.ProposedCall{Tool: tool, Arguments: arguments}
}

// calls is a chunk with entries of tool_calls.
func calls(entries ...string) string {
	return delta(`"tool_calls":[` + strings.Join(entries, ",") + `]`)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	stop := finish("stop")
	text := func(s string) said {
		return said{Text: s, Finish: segment.FinishStop, Raw: `{"content":"` + s + `","role":"assistant"}`}
	}
	rows := map[string]struct {
		given []string
		want  said
	}{
		"text comes in pieces":                                  {sse(delta(`"role":"assistant","content":""`), delta(`"content":"He"`), delta(`"content":"llo."`), stop, done), text("Hello.")},
		"the role on every chunk is not concatenated":           {sse(delta(`"role":"assistant","content":"He"`), delta(`"role":"assistant","content":"llo."`), stop, done), text("Hello.")},
		"the reason to finish comes with the last text":         {sse(`{"choices":[{"index":0,"delta":{"content":"Hello."},"finish_reason":"stop"}]}`, done), text("Hello.")},
		"a stream with a reason to finish needs no end marker":  {sse(delta(`"content":"Hello."`), stop), text("Hello.")},
		"a stream with an end marker needs no reason to finish": {sse(delta(`"content":"Hello."`), done), text("Hello.")},
		"an empty reason to finish is none":                     {sse(`{"choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":""}]}`, delta(`"content":"lo."`), stop, done), text("Hello.")},
		"a choice without index is the first":                   {sse(`{"choices":[{"delta":{"content":"Hello."}}]}`, stop, done), text("Hello.")},
		"a second choice is left out":                           {sse(delta(`"content":"Hello."`), `{"choices":[{"index":1,"delta":{"content":"Bye."},"finish_reason":"stop"}]}`, stop, done), text("Hello.")},
		"an unknown reason to finish is an end":                 {sse(delta(`"content":"Hello."`), finish("eos_token"), done), text("Hello.")},
		"comments keep the connection alive and say nothing":    {[]string{": OPENROUTER PROCESSING\n\n", "data: " + delta(`"content":"Hello."`) + "\n\n", ":\n\n", "data: " + stop + "\n\n: bye\n\ndata: [DONE]\n\n"}, text("Hello.")},
		"lines end with both characters":                        {[]string{"data: " + delta(`"content":"Hello."`) + "\r\n\r\n", "data: " + stop + "\r\n\r\n", "data: [DONE]\r\n\r\n"}, text("Hello.")},
		"there is no space after data":                          {[]string{"data:" + delta(`"content":"Hello."`) + "\n\ndata:" + stop + "\n\ndata:[DONE]\n\n"}, text("Hello.")},
		"other fields of events are skipped":                    {[]string{"id: 7\nevent: message\nretry: 10\ndata: " + delta(`"content":"Hello."`) + "\n\ndata: " + stop + "\n\n"}, text("Hello.")},
		"events have no blank line between them":                {[]string{"data: " + delta(`"content":"Hel"`) + "\ndata: " + delta(`"content":"lo."`) + "\ndata: " + stop + "\ndata: [DONE]\n"}, text("Hello.")},
		"the last line has no end":                              {[]string{"data: " + delta(`"content":"Hello."`) + "\n\ndata: " + stop}, text("Hello.")},
		"an event comes in several data lines":                  {[]string{"data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"Hello.\"}}]}\n\ndata: " + stop + "\n\n"}, text("Hello.")},
		"a stream begins with a byte order mark":                {[]string{"\ufeffdata: " + delta(`"content":"Hello."`) + "\n\ndata: " + stop + "\n\n"}, text("Hello.")},
		"a chunk is cut anywhere on the wire":                   {strings.SplitAfter("data: "+delta(`"content":"Hello."`)+"\n\ndata: "+stop+"\n\ndata: [DONE]\n\n", "e"), text("Hello.")},
		"a character's bytes are cut on the wire":               {[]string{`data: {"choices":[{"index":0,"delta":{"content":"` + "\xf0\x9f", "\x98\x80\"}}]}\n\ndata: " + stop + "\n\n"}, text("😀")},
		"a character's bytes come in two chunks":                {sse(delta(`"content":"a`+"\xf0\x9f"+`"`), delta(`"content":"`+"\x98\x80"+`b"`), stop), text("a😀b")},
		"a surrogate pair comes in two chunks":                  {sse(delta(`"content":"a\ud83d"`), delta(`"content":"\ude00b"`), stop), text("a😀b")},
		"half of a surrogate pair is replaced":                  {sse(delta(`"content":"a\ud83d"`), delta(`"content":"b"`), stop), text("a\uFFFDb")},
		"half of a surrogate pair at the end is replaced":       {sse(delta(`"content":"a\ud83d"`), stop), text("a\uFFFD")},
		"invalid UTF-8 is replaced":                             {sse(delta(`"content":"a`+"\xff"+`b"`), stop), text("a\uFFFDb")},
		"NUL is replaced":                                       {sse(delta(`"content":"a\u0000b"`), stop), text("a\uFFFDb")},
		"an escaped backslash before u is no escape":            {sse(delta(`"content":"\\ud83d"`), delta(`"content":"x"`), stop), said{Text: `\ud83dx`, Finish: segment.FinishStop, Raw: `{"content":"\\ud83dx","role":"assistant"}`}},
		"null is no text":                                       {sse(delta(`"content":null`), delta(`"content":"Hello."`), delta(`"content":null`), stop), text("Hello.")},
		"no tool calls in a list are no calls":                  {sse(delta(`"content":"Hello.","tool_calls":[]`), stop), text("Hello.")},
		"tool calls of null are no calls":                       {sse(delta(`"content":"Hello.","tool_calls":null,"function_call":null,"refusal":null`), stop), text("Hello.")},
		"tool_calls as a reason without calls is an end":        {sse(delta(`"content":"Hello."`), finish("tool_calls")), text("Hello.")},
		"an answer of nothing":                                  {sse(delta(`"role":"assistant","content":""`), stop), text("")},
		"reasoning survives":                                    {sse(delta(`"reasoning_content":"hm"`), delta(`"reasoning_content":"m"`), delta(`"content":"Hello."`), stop), said{Text: "Hello.", Finish: segment.FinishStop, Raw: `{"content":"Hello.","reasoning_content":"hmm","role":"assistant"}`}},
		"lists of details survive":                              {sse(delta(`"reasoning_details":[{"type":"reasoning.text","text":"h"}]`), delta(`"reasoning_details":[{"type":"reasoning.text","text":"m","signature":"s"}]`), delta(`"content":"Hi"`), stop), said{Text: "Hi", Finish: segment.FinishStop, Raw: `{"content":"Hi","reasoning_details":[{"text":"h","type":"reasoning.text"},{"signature":"s","text":"m","type":"reasoning.text"}],"role":"assistant"}`}},
		"unknown objects survive, the last one wins":            {sse(delta(`"extra_content":{"google":{"thought_signature":"A<"}}`), delta(`"content":"Hi","extra_content":{"google":{"thought_signature":"B<","n":1.50}}`), stop), said{Text: "Hi", Finish: segment.FinishStop, Raw: `{"content":"Hi","extra_content":{"google":{"n":1.50,"thought_signature":"B<"}},"role":"assistant"}`}},
		"unknown fields are cleaned":                            {sse(delta(`"extra":{"k\u0000":["\ud800","a`+"\xff"+`"]},"content":"Hi"`), stop), said{Text: "Hi", Finish: segment.FinishStop, Raw: `{"content":"Hi","extra":{"k` + "\uFFFD" + `":["` + "\uFFFD" + `","a` + "\uFFFD" + `"]},"role":"assistant"}`}},
		"content comes in parts":                                {sse(delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]`), delta(`"content":[{"type":"text","text":"Hel"}]`), delta(`"content":"lo."`), stop), said{Text: "Hello.", Finish: segment.FinishStop, Raw: `{"content":[{"thinking":[{"text":"hm","type":"text"}],"type":"thinking"},{"text":"Hello.","type":"text"}],"role":"assistant"}`}},
		"a whole body in place of a stream":                     {[]string{`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello.","refusal":null,"annotations":[]},"finish_reason":"stop"}]}`}, text("Hello.")},
		"a whole body without a reason to finish":               {[]string{"\n {\"choices\":[{\"message\":{\"content\":\"Hello.\"}}]}"}, text("Hello.")},
		"a whole message in one event":                          {sse(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}`, done), text("Hello.")},
		"an answer cut at its bound":                            {sse(delta(`"content":"Hello"`), finish("length")), said{Text: "Hello", Finish: segment.FinishLength, Raw: `{"content":"Hello","role":"assistant"}`}},
		"an answer cut at its bound, in other words":            {sse(delta(`"content":"Hello"`), finish("MAX_TOKENS")), said{Text: "Hello", Finish: segment.FinishLength, Raw: `{"content":"Hello","role":"assistant"}`}},
		"a filter stopped the answer":                           {sse(delta(`"content":"Hel"`), finish("content_filter")), said{Text: "Hel", Finish: segment.FinishRefused, Raw: `{"content":"Hel","role":"assistant"}`}},
		"the model refused":                                     {sse(delta(`"refusal":"I can"`), delta(`"refusal":"not."`), stop), said{Finish: segment.FinishRefused, Raw: `{"content":"","refusal":"I cannot.","role":"assistant"}`}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, modelserver.Step{Raw: row.given})
			if got.err != nil {
				t.Fatal(got.err)
			}
			a := got.answer
			if diff := cmp.Diff(row.want, said{a.Text, a.Calls, a.Finish, string(a.Raw)}); diff != "" {
				t.Error(diff)
			}
			if got.emitted != a.Text {
				t.Errorf("emitted %q, the text is %q", got.emitted, a.Text)
			}
		})
	}
}

func TestToolCalls(t *testing.T) {
	t.Parallel()
	both := []segment.ProposedCall{call("f", `{"x":1}`), call("g", `{"y":2}`)}
	f, g := `"function":{"name":"f","arguments":"{\"x\":1}"}`, `"function":{"name":"g","arguments":"{\"y\":2}"}`
	args := func(s string) string { return `"function":{"arguments":"` + s + `"}` }
	rows := map[string]struct {
		given  []string
		finish string
		want   []segment.ProposedCall
	}{
		"parallel calls in two chunks":                      {given: []string{calls(`{"index":0,"id":"a","type":"function",` + f + `}`), calls(`{"index":1,"id":"b","type":"function",` + g + `}`)}, want: both},
		"parallel calls in one chunk":                       {given: []string{calls(`{"index":0,"id":"a",`+f+`}`, `{"index":1,"id":"b",`+g+`}`)}, want: both},
		"arguments split over chunks":                       {given: []string{calls(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`), calls(`{"index":0,` + args(`{\"x\"`) + `}`), calls(`{"index":0,` + args(`:1}`) + `}`), calls(`{"index":1,"id":"b",` + g + `}`)}, want: both},
		"calls that come interleaved":                       {given: []string{calls(`{"index":0,"id":"a","function":{"name":"f"}}`, `{"index":1,"id":"b","function":{"name":"g"}}`), calls(`{"index":1,`+args(`{\"y\"`)+`}`, `{"index":0,`+args(`{\"x\"`)+`}`), calls(`{"index":0,`+args(`:1}`)+`}`, `{"index":1,`+args(`:2}`)+`}`)}, want: both},
		"calls are ordered by their index":                  {given: []string{calls(`{"index":1,"id":"b",` + g + `}`), calls(`{"index":0,"id":"a",` + f + `}`)}, want: both},
		"no index, whole":                                   {given: []string{calls(`{"id":"a",`+f+`}`, `{"id":"b",`+g+`}`)}, want: both},
		"no index, in two chunks":                           {given: []string{calls(`{"id":"a",` + f + `}`), calls(`{"id":"b",` + g + `}`)}, want: both},
		"no index, split":                                   {given: []string{calls(`{"id":"a","function":{"name":"f"}}`), calls(`{` + args(`{\"x\":1}`) + `}`), calls(`{"id":"b","function":{"name":"g"}}`), calls(`{` + args(`{\"y\":2}`) + `}`)}, want: both},
		"no index, split, the id on each piece":             {given: []string{calls(`{"id":"a","function":{"name":"f"}}`), calls(`{"id":"b","function":{"name":"g"}}`), calls(`{"id":"a",` + args(`{\"x\":1}`) + `}`), calls(`{"id":"b",` + args(`{\"y\":2}`) + `}`)}, want: both},
		"index null":                                        {given: []string{calls(`{"index":null,"id":"a",`+f+`}`, `{"index":null,"id":"b",`+g+`}`)}, want: both},
		"neither index nor id":                              {given: []string{calls(`{`+f+`}`, `{`+g+`}`)}, want: both},
		"neither index nor id, in two chunks":               {given: []string{calls(`{` + f + `}`), calls(`{` + g + `}`)}, want: both},
		"neither index nor id, the name on each piece":      {given: []string{calls(`{"function":{"name":"f","arguments":"{\"x\""}}`), calls(`{"function":{"name":"f","arguments":":1}"}}`), calls(`{` + g + `}`)}, want: both},
		"neither index nor id, the same tool twice":         {given: []string{calls(`{` + f + `}`), calls(`{` + f + `}`)}, want: []segment.ProposedCall{both[0], both[0]}},
		"index 0 for all, with ids":                         {given: []string{calls(`{"index":0,"id":"a",` + f + `}`), calls(`{"index":0,"id":"b",` + g + `}`)}, want: both},
		"index 0 for all, with ids, split":                  {given: []string{calls(`{"index":0,"id":"a","function":{"name":"f"}}`), calls(`{"index":0,` + args(`{\"x\":1}`) + `}`), calls(`{"index":0,"id":"b","function":{"name":"g"}}`), calls(`{"index":0,` + args(`{\"y\":2}`) + `}`)}, want: both},
		"index 0 for all, in one chunk":                     {given: []string{calls(`{"index":0,"id":"a",`+f+`}`, `{"index":0,"id":"b",`+g+`}`)}, want: both},
		"index 0 for all, without ids":                      {given: []string{calls(`{"index":0,` + f + `}`), calls(`{"index":0,` + g + `}`)}, want: both},
		"index 0 for all, without ids, in one chunk":        {given: []string{calls(`{"index":0,`+f+`}`, `{"index":0,`+g+`}`)}, want: both},
		"index 0 for all, without ids, empty, in one chunk": {given: []string{calls(`{"index":0,"function":{"name":"f"}}`, `{"index":0,"function":{"name":"g"}}`)}, want: []segment.ProposedCall{call("f", "{}"), call("g", "{}")}},
		"index 0 for all, one id for all":                   {given: []string{calls(`{"index":0,"id":"a",` + f + `}`), calls(`{"index":0,"id":"a",` + g + `}`)}, want: both},
		"a new id for each piece":                           {given: []string{calls(`{"index":0,"id":"a1","function":{"name":"f"}}`), calls(`{"index":0,"id":"a2",` + args(`{\"x\":1}`) + `}`), calls(`{"index":1,"id":"b1",` + g + `}`)}, want: both},
		"a new id for each piece, without index":            {given: []string{calls(`{"id":"a1","function":{"name":"f"}}`), calls(`{"id":"a2",` + args(`{\"x\":1}`) + `}`), calls(`{"id":"b1",` + g + `}`)}, want: both},
		"id and name on each piece":                         {given: []string{calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}`), calls(`{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}`), calls(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`), calls(`{"index":1,"id":"b",` + g + `}`)}, want: both},
		"no ids":                                            {given: []string{calls(`{"index":0,"id":"",`+f+`}`, `{"index":1,"id":null,`+g+`}`)}, want: both},
		"one id for two calls":                              {given: []string{calls(`{"index":0,"id":"a",`+f+`}`, `{"index":1,"id":"a",`+g+`}`)}, want: both},
		"one id for two calls, without index":               {given: []string{calls(`{"id":"a",`+f+`}`, `{"id":"a",`+g+`}`)}, want: both},
		"indexes that begin at 1":                           {given: []string{calls(`{"index":1,"id":"a",`+f+`}`, `{"index":2,"id":"b",`+g+`}`)}, want: both},
		"indexes that are huge":                             {given: []string{calls(`{"index":1000000000,"id":"a",` + f + `}`)}, want: both[:1]},
		"the reason is stop":                                {given: []string{calls(`{"index":0,"id":"a",`+f+`}`, `{"index":1,"id":"b",`+g+`}`)}, finish: "stop", want: both},
		"the reason is function_call":                       {given: []string{calls(`{"index":0,"id":"a",` + f + `}`)}, finish: "function_call", want: both[:1]},
		"a function_call in pieces":                         {given: []string{delta(`"function_call":{"name":"f","arguments":""}`), delta(`"function_call":{"arguments":"{\"x\""}`), delta(`"function_call":{"arguments":":1}"}`)}, finish: "function_call", want: both[:1]},
		"empty arguments are an empty object":               {given: []string{calls(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`)}, want: []segment.ProposedCall{call("f", "{}")}},
		"missing arguments are an empty object":             {given: []string{calls(`{"index":0,"id":"a","function":{"name":"f"}}`)}, want: []segment.ProposedCall{call("f", "{}")}},
		"arguments of null are an empty object":             {given: []string{calls(`{"index":0,"id":"a","function":{"name":"f","arguments":null}}`)}, want: []segment.ProposedCall{call("f", "{}")}},
		"arguments as an object":                            {given: []string{calls(`{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1.50,"s":"<\u0000>"}}}`)}, want: []segment.ProposedCall{call("f", `{"s":"<`+"\uFFFD"+`>","x":1.50}`)}},
		"arguments that are no JSON stay as they are":       {given: []string{calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{x:1"}}`)}, want: []segment.ProposedCall{call("f", "{x:1")}},
		"arguments with a character in two chunks":          {given: []string{calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"\"\ud83d"}}`), calls(`{"index":0,"function":{"arguments":"\ude00\""}}`)}, want: []segment.ProposedCall{call("f", `"😀"`)}},
		"a name in two pieces":                              {given: []string{calls(`{"index":0,"id":"a","function":{"name":"get_"}}`), calls(`{"index":0,"function":{"name":"weather","arguments":"{}"}}`)}, want: []segment.ProposedCall{call("get_weather", "{}")}},
		"empty entries around the real ones":                {given: []string{calls(`{"index":0}`, `{"index":1,"id":"a",`+f+`}`, `{"index":2,"id":"z","function":{"name":"","arguments":""}}`)}, want: both[:1]},
		"a tool without a name":                             {given: []string{calls(`{"index":0,"id":"a",` + args("{}") + `}`)}, want: []segment.ProposedCall{call("", "{}")}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row.finish == "" {
				row.finish = "tool_calls"
			}
			got := ask(t, modelserver.Step{Raw: sse(append(row.given, finish(row.finish), done)...)})
			if got.err != nil {
				t.Fatal(got.err)
			}
			if diff := cmp.Diff(said{Calls: row.want, Finish: segment.FinishCalls}, said{Calls: got.answer.Calls, Finish: got.answer.Finish}); diff != "" {
				t.Errorf("%s\n%s", diff, got.answer.Raw)
			}
			if got.answer.Calls[0].Tool != "" {
				replayable(t, got.answer)
			}
		})
	}
}
