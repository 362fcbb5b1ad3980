package openai_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

// bill is what a call has used and what it costs.
type bill struct {
	Tokens    budget.Tokens
	Estimated bool
	Cost      budget.Micros
}

// request is the request of these tests, which is reckonedInput tokens long at four bytes each.
const (
	request       = `{"model":"test-model","stream":true,"stream_options":{"include_usage":true},"max_tokens":1000,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Say hello."}]}`
	reckonedInput = (int64(len(request)) + 3) / 4
)

// used is a chunk without choices that reports usage.
func used(fields string) string { return `{"id":"c1","choices":[],"usage":{` + fields + `}}` }

// with is a chunk with a delta that reports usage.
func with(fields, usage string) string {
	return `{"id":"c1","choices":[{"index":0,"delta":{` + fields + `}}],"usage":{` + usage + `}}`
}

func whole(usage string) []string {
	return []string{`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]` + usage + `}`}
}

func TestTheBillIsRight(t *testing.T) {
	t.Parallel()
	text := delta(`"content":"Hello."`)
	stop := finish("stop")
	exact := func(input, cached, output int64) bill {
		return bill{Tokens: budget.Tokens{Input: input, CacheRead: cached, Output: output}}
	}
	reckoned := func(input, cached, output int64) bill {
		b := exact(input, cached, output)
		b.Estimated = true
		return b
	}
	rows := map[string]struct {
		given []string
		want  bill
	}{
		"usage comes in a last chunk without choices":            {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"total_tokens":103`), done), exact(100, 0, 3)},
		"usage comes in the chunk with the finish reason":        {sse(text, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":3}}`, done), exact(100, 0, 3)},
		"usage comes with the last text":                         {sse(with(`"content":"Hello."`, `"prompt_tokens":100,"completion_tokens":3`), stop, done), exact(100, 0, 3)},
		"usage comes before the text":                            {sse(used(`"prompt_tokens":100,"completion_tokens":3`), text, stop, done), exact(100, 0, 3)},
		"cumulative usage on each chunk is not summed":           {sse(with(`"content":"He"`, `"prompt_tokens":100,"completion_tokens":1`), with(`"content":"llo"`, `"prompt_tokens":100,"completion_tokens":2`), with(`"content":"."`, `"prompt_tokens":100,"completion_tokens":3`), stop, done), exact(100, 0, 3)},
		"cumulative usage and a final chunk are not summed":      {sse(with(`"content":"Hello"`, `"prompt_tokens":100,"completion_tokens":1`), with(`"content":"."`, `"prompt_tokens":100,"completion_tokens":2`), stop, used(`"prompt_tokens":100,"completion_tokens":3`), done), exact(100, 0, 3)},
		"delta usage on each chunk gives way to the final total": {sse(with(`"content":"Hello"`, `"prompt_tokens":100,"completion_tokens":1`), with(`"content":"."`, `"prompt_tokens":100,"completion_tokens":1`), stop, used(`"prompt_tokens":100,"completion_tokens":2`), done), exact(100, 0, 2)},
		"usage null on all chunks but the last":                  {sse(`{"choices":[{"index":0,"delta":{"content":"Hello."}}],"usage":null}`, stop, used(`"prompt_tokens":100,"completion_tokens":3`), done), exact(100, 0, 3)},
		"a corrected last report wins over an estimate before":   {sse(with(`"content":"Hello."`, `"prompt_tokens":120,"completion_tokens":9`), stop, used(`"prompt_tokens":100,"completion_tokens":3`), done), exact(100, 0, 3)},
		"a trailing report of zeros says nothing":                {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3`), used(`"prompt_tokens":0,"completion_tokens":0,"total_tokens":0`), done), exact(100, 0, 3)},
		"input at the start and output at the end are joined":    {sse(used(`"prompt_tokens":100,"completion_tokens":0,"total_tokens":100`), text, stop, used(`"prompt_tokens":0,"completion_tokens":3,"total_tokens":3`), done), exact(100, 0, 3)},
		"the final chunk has choices null":                       {sse(text, stop, `{"choices":null,"usage":{"prompt_tokens":100,"completion_tokens":3}}`, done), exact(100, 0, 3)},
		"the final chunk has no choices at all":                  {sse(text, stop, `{"usage":{"prompt_tokens":100,"completion_tokens":3}}`, done), exact(100, 0, 3)},
		"usage comes without an end marker":                      {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3`)), exact(100, 0, 3)},
		"usage comes within the choice":                          {sse(text, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":100,"completion_tokens":3}}]}`, done), exact(100, 0, 3)},
		"usage comes in the extension of Groq":                   {sse(text, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":100,"completion_tokens":3}}}`, done), exact(100, 0, 3)},

		"cached tokens are part of the prompt's":                    {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"total_tokens":103,"prompt_tokens_details":{"cached_tokens":80}`), done), exact(20, 80, 3)},
		"all of the prompt is cached":                               {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":100}`), done), exact(0, 100, 3)},
		"more cached tokens than the prompt has are clamped":        {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":150}`), done), exact(0, 100, 3)},
		"cached tokens of null are none":                            {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":null}`), done), exact(100, 0, 3)},
		"details of null are none":                                  {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"prompt_tokens_details":null`), done), exact(100, 0, 3)},
		"cached tokens by the name of DeepSeek":                     {sse(text, stop, used(`"prompt_tokens":100,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36,"completion_tokens":3,"total_tokens":103`), done), exact(36, 64, 3)},
		"cached tokens by the name of Moonshot":                     {sse(text, stop, used(`"prompt_tokens":100,"cached_tokens":64,"completion_tokens":3`), done), exact(36, 64, 3)},
		"cached tokens reported twice are counted once":             {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"total_tokens":103,"cache_read_input_tokens":64,"prompt_tokens_details":{"cached_tokens":64}`), done), exact(36, 64, 3)},
		"cached tokens beside the prompt's, as the total tells":     {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"total_tokens":403,"cache_read_input_tokens":300`), done), exact(100, 300, 3)},
		"cached tokens of another protocol are beside the input":    {sse(text, stop, used(`"input_tokens":100,"output_tokens":3,"cache_read_input_tokens":300`), done), exact(100, 300, 3)},
		"tokens written to a cache beside the input count as input": {sse(text, stop, used(`"input_tokens":100,"output_tokens":3,"cache_read_input_tokens":300,"cache_creation_input_tokens":50`), done), exact(150, 300, 3)},
		"tokens written to a cache within the prompt count once":    {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"total_tokens":103,"prompt_tokens_details":{"cached_tokens":20,"cache_write_tokens":50}`), done), exact(80, 20, 3)},
		"input by other names with its cached tokens in details":    {sse(text, stop, used(`"input_tokens":100,"output_tokens":3,"input_tokens_details":{"cached_tokens":80}`), done), exact(20, 80, 3)},
		"cumulative usage with cached tokens":                       {sse(with(`"content":"Hello"`, `"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":80}`), with(`"content":"."`, `"prompt_tokens":100,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":80}`), stop, done), exact(20, 80, 3)},
		"reasoning is part of the completion's":                     {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":53,"total_tokens":153,"completion_tokens_details":{"reasoning_tokens":50}`), done), exact(100, 0, 53)},
		"reasoning beside the completion's, as the total tells":     {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"total_tokens":153,"completion_tokens_details":{"reasoning_tokens":50}`), done), exact(100, 0, 53)},
		"reasoning that only the total tells":                       {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"total_tokens":153`), done), exact(100, 0, 53)},
		"a total that is too small is not believed":                 {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":3,"total_tokens":3`), done), exact(100, 0, 3)},
		"usage with numbers as floats":                              {sse(text, stop, used(`"prompt_tokens":100.0,"completion_tokens":3.0`), done), exact(100, 0, 3)},
		"usage with numbers as text":                                {sse(text, stop, used(`"prompt_tokens":"100","completion_tokens":"3"`), done), exact(100, 0, 3)},
		"usage of a whole body":                                     {whole(`,"usage":{"prompt_tokens":100,"completion_tokens":3,"total_tokens":103,"prompt_tokens_details":{"cached_tokens":80}}`), exact(20, 80, 3)},
		"usage of a refusal":                                        {sse(delta(`"refusal":"No."`), stop, used(`"prompt_tokens":100,"completion_tokens":3`), done), exact(100, 0, 3)},
		"usage of an answer cut at its bound":                       {sse(text, finish("length"), used(`"prompt_tokens":100,"completion_tokens":1000`), done), exact(100, 0, 1000)},
		"an answer of nothing uses no output":                       {sse(delta(`"role":"assistant","content":""`), stop, used(`"prompt_tokens":100,"completion_tokens":0`), done), exact(100, 0, 0)},
		"a second choice is not counted twice":                      {sse(text, `{"choices":[{"index":1,"delta":{"content":"Other."}}]}`, stop, used(`"prompt_tokens":100,"completion_tokens":3`), done), exact(100, 0, 3)},

		"usage is missing":                                 {sse(text, stop, done), reckoned(reckonedInput, 0, 2)},
		"usage is missing in a whole body":                 {whole(``), reckoned(reckonedInput, 0, 2)},
		"usage is missing and so is the text":              {sse(delta(`"role":"assistant","content":""`), stop, done), reckoned(reckonedInput, 0, 1)},
		"usage is all zeros":                               {sse(text, stop, used(`"prompt_tokens":0,"completion_tokens":0,"total_tokens":0`), done), reckoned(reckonedInput, 0, 2)},
		"usage is no object":                               {sse(text, stop, `{"choices":[],"usage":"unknown"}`, done), reckoned(reckonedInput, 0, 2)},
		"usage is negative":                                {sse(text, stop, used(`"prompt_tokens":-1,"completion_tokens":-1`), done), reckoned(reckonedInput, 0, 2)},
		"only the input is reported":                       {sse(text, stop, used(`"prompt_tokens":100,"completion_tokens":0`), done), reckoned(100, 0, 2)},
		"only the output is reported":                      {sse(text, stop, used(`"completion_tokens":3`), done), reckoned(reckonedInput, 0, 3)},
		"missing usage reckons reasoning too":              {sse(delta(`"reasoning_content":"12345678"`), text, stop, done), reckoned(reckonedInput, 0, 4)},
		"missing usage reckons arguments too":              {sse(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"k\":12345678}"}}]`), finish("tool_calls"), done), reckoned(reckonedInput, 0, 5)},
		"a stream cut after it began is reckoned":          {sse(text), reckoned(reckonedInput, 0, 2)},
		"a stream cut before it began is reckoned":         {[]string{": hello\n\n"}, reckoned(reckonedInput, 0, 0)},
		"a cut stream with cumulative usage keeps it":      {sse(with(`"content":"Hello."`, `"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":80}`)), reckoned(20, 80, 7)},
		"an in-band error within the answer is reckoned":   {sse(text, `{"error":{"type":"server_error"}}`), reckoned(reckonedInput, 0, 2)},
		"an in-band error before the answer costs nothing": {sse(`{"error":{"type":"overloaded_error"}}`), bill{}},
	}
	if len(rows) < 40 {
		t.Fatalf("%d rows, want 40", len(rows))
	}
	prices, err := budget.PriceOf(v1alpha1.Pricing{Currency: v1alpha1.USD, InputPerMTok: "1.25", CacheReadPerMTok: "0.125", OutputPerMTok: "10"})
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// In thousandths of a micro-dollar, rounded up once.
			k := row.want.Tokens
			row.want.Cost = budget.Micros((k.Input*1250 + k.CacheRead*125 + k.Output*10000 + 999) / 1000)

			got := ask(t, modelserver.Step{Raw: row.given})
			if diff := cmp.Diff(row.want, bill{got.answer.Tokens, got.answer.Estimated, prices.Cost(got.answer.Tokens)}); diff != "" {
				t.Errorf("%s\nerror: %v", diff, got.err)
			}
		})
	}
}

// The server's own shapes of usage, in case it is them that are wrong.
func TestTheBillIsRightForScriptedShapes(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"", "final", "last", "every"} {
		t.Run(fmt.Sprintf("shape %q", shape), func(t *testing.T) {
			t.Parallel()
			got := ask(t, modelserver.Step{Text: "Hello there, world.", Chunks: 5, Usage: &modelserver.Usage{Prompt: 120, Completion: 6, Cached: 20, Shape: shape}})
			want := bill{Tokens: budget.Tokens{Input: 100, CacheRead: 20, Output: 6}}
			if diff := cmp.Diff(want, bill{Tokens: got.answer.Tokens, Estimated: got.answer.Estimated}); diff != "" {
				t.Errorf("%s\nerror: %v", diff, got.err)
			}
		})
	}
}
