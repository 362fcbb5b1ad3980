package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/model/openai"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

// key is a canary: it must not occur in anything that leaves a client.
const key = "sk-canary-0123456789abcdef"

// endpoint is a valid spec for a local server.
func endpoint(url string, mods ...func(*v1alpha1.ModelEndpointSpec)) v1alpha1.ModelEndpointSpec {
	e := v1alpha1.ModelEndpointSpec{
		Protocol: v1alpha1.OpenAIChat, URL: url, Model: "test-model",
		Credentials: v1alpha1.Credentials{SecretRef: v1alpha1.KeyReference{Name: "model", Key: "key"}},
		Egress:      v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}},
	}
	for _, m := range mods {
		m(&e)
	}
	return e
}

func client(t testing.TB, url string, mods ...func(*v1alpha1.ModelEndpointSpec)) *openai.Client {
	t.Helper()
	c, err := openai.New(endpoint(url, mods...), v1alpha1.Sampling{MaxOutputTokens: 1000}, key+"\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// task is the prompt of most tests. Its request is 200 bytes long or so.
func task(text string) prompt.Prompt {
	return prompt.Prompt{System: "Be brief.", Conversation: []prompt.Message{{Role: prompt.User, Text: text}}}
}

// sse makes the pieces of a stream, one event each.
func sse(events ...string) []string {
	out := make([]string, 0, len(events))
	for _, e := range events {
		out = append(out, "data: "+e+"\n\n")
	}
	return out
}

// delta is a chunk with a delta, such as `"content":"hi"`.
func delta(fields string) string {
	return `{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{` + fields + `},"finish_reason":null}]}`
}

// finish is a chunk with a finish reason.
func finish(reason string) string {
	return `{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const done = "[DONE]"

// asked is what one request gave, and what the client said while it came.
type asked struct {
	answer  segment.Answer
	err     error
	emitted string
	server  *modelserver.Server
}

// ask plays one step to one request, and checks that it was exactly one.
func ask(t *testing.T, step modelserver.Step) asked {
	t.Helper()
	srv := modelserver.Start(t, modelserver.One(step))
	var emitted strings.Builder
	a, err := client(t, srv.URL).Answer(t.Context(), task("Say hello."), func(s string) { emitted.WriteString(s) })
	if n := srv.Report().Total; n != 1 {
		t.Errorf("the server saw %d requests, want 1", n)
	}
	if err != nil && strings.Contains(err.Error(), key[3:]) {
		t.Errorf("the error tells the key: %v", err)
	}
	return asked{a, err, emitted.String(), srv}
}

// raw asserts that an assistant message can be replayed: the next request with it passes the validator.
func replayable(t *testing.T, a segment.Answer) {
	t.Helper()
	conversation := []any{map[string]string{"role": "user", "content": "hi"}, a.Raw}
	var m struct {
		ToolCalls []struct{ ID string } `json:"tool_calls"`
	}
	if err := json.Unmarshal(a.Raw, &m); err != nil {
		t.Fatalf("raw does not parse: %v: %s", err, a.Raw)
	}
	for _, c := range m.ToolCalls {
		conversation = append(conversation, map[string]string{"role": "tool", "tool_call_id": c.ID, "content": "ok"})
	}
	if len(m.ToolCalls) == 0 {
		conversation = append(conversation, map[string]string{"role": "user", "content": prompt.Continue})
	}
	body, err := json.Marshal(map[string]any{"model": "m", "messages": conversation})
	if err != nil {
		t.Fatal(err)
	}
	if err := modelserver.Validate(body); err != nil {
		t.Errorf("the answer cannot be replayed: %v: %s", err, a.Raw)
	}
}
