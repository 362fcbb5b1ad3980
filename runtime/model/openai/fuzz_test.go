package openai_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever a server sends, an answer is clean, can be stored and replayed, and says what was told.
func FuzzAnswers(f *testing.F) {
	for _, seed := range [][]string{
		sse(delta(`"role":"assistant","content":"He\ud83d"`), delta(`"content":"\ude00"`), finish("stop"), used(`"prompt_tokens":1,"completion_tokens":2`), done),
		sse(calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`), calls(`{"index":0,"function":{"arguments":"}"}}`), finish("tool_calls")),
		sse(delta(`"content":[{"type":"text","text":"a"},{"type":"x"}],"extra":{"k":[1.50,"\u0000"]},"refusal":"no"`), finish("length")),
		sse(delta(`"function_call":{"name":"f","arguments":{"a":1}}`), finish("function_call")),
		{`{"choices":[{"message":{"content":"whole","tool_calls":[null,{"function":null}]}}]}`},
		{`{"error":{"type":"overloaded_error","code":529}}`},
		{"<html>"},
		{"event: error\r\ndata: {}\r\n\r\n"},
	} {
		f.Add([]byte(strings.Join(seed, "")))
	}
	c := client(f, "http://llm.example/v1")
	f.Fuzz(func(t *testing.T, body []byte) {
		a, emitted, err := c.Read(body)
		if emitted != a.Text && err == nil {
			t.Errorf("told %q, the text is %q", emitted, a.Text)
		}
		if err != nil {
			return
		}
		if !json.Valid(a.Raw) || !utf8.Valid(a.Raw) || strings.Contains(string(a.Raw), `\u0000`) && !strings.Contains(string(a.Raw), `\\u0000`) {
			t.Errorf("raw cannot be stored: %q", a.Raw)
		}
		if a.Tokens.Input < 0 || a.Tokens.CacheRead < 0 || a.Tokens.Output < 0 || a.Tokens.Input+a.Tokens.CacheRead == 0 {
			t.Errorf("tokens %+v", a.Tokens)
		}
	})
}
