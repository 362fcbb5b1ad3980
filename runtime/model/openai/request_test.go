package openai_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/model/openai"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

func TestRequestBytes(t *testing.T) {
	t.Parallel()
	user := func(s string) prompt.Message { return prompt.Message{Role: prompt.User, Text: s} }
	rows := map[string]struct {
		given prompt.Prompt
		want  string // the messages
	}{
		"a system message comes first":                   {task("Say hello."), `[{"role":"system","content":"Be brief."},{"role":"user","content":"Say hello."}]`},
		"no instructions make no system message":         {prompt.Prompt{Conversation: []prompt.Message{user("hi")}}, `[{"role":"user","content":"hi"}]`},
		"an answer is replayed byte for byte":            {prompt.Prompt{Conversation: []prompt.Message{user("hi"), {Role: prompt.Assistant, Text: "other", Raw: json.RawMessage(`{"role": "assistant", "content":"<b>","z":1.50,"a":"\u2028"}`)}, user("go on")}}, `[{"role":"user","content":"hi"},{"role": "assistant", "content":"<b>","z":1.50,"a":"\u2028"},{"role":"user","content":"go on"}]`},
		"an answer without its raw form is sent as text": {prompt.Prompt{Conversation: []prompt.Message{user("hi"), {Role: prompt.Assistant, Text: "hello"}, user("go on")}}, `[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":"go on"}]`},
		"results follow the message with their calls, under its ids": {
			prompt.Prompt{Conversation: []prompt.Message{
				user("hi"),
				{Role: prompt.Assistant, Raw: json.RawMessage(`{"role":"assistant","content":null,"tool_calls":[{"id":"a1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b2","type":"function","function":{"name":"f","arguments":"{}"}}]}`)},
				{Role: prompt.Tool, Call: 0, Text: "<one>"},
				{Role: prompt.Tool, Call: 1, Text: "two\x00"},
			}},
			`[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"a1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b2","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a1","content":"<one>"},{"role":"tool","tool_call_id":"b2","content":"two` + "\uFFFD" + `"}]`,
		},
		"markup is not escaped":                              {prompt.Prompt{Conversation: []prompt.Message{user("<a> & b")}}, `[{"role":"user","content":"<a> & b"}]`},
		"NUL and invalid UTF-8 are replaced":                 {prompt.Prompt{Conversation: []prompt.Message{user("a\x00b\xffc")}}, `[{"role":"user","content":"a` + "\uFFFD" + `b` + "\uFFFD" + `c"}]`},
		"characters beyond the basic plane stay as they are": {prompt.Prompt{Conversation: []prompt.Message{user("😀")}}, `[{"role":"user","content":"😀"}]`},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "ok"}))
			if _, err := client(t, srv.URL).Answer(t.Context(), row.given, nil); err != nil {
				t.Fatal(err)
			}
			want := `{"model":"test-model","stream":true,"stream_options":{"include_usage":true},"max_tokens":1000,"messages":` + row.want + `}`
			if diff := cmp.Diff(want, string(srv.Bodies()[0])); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheToolsAreToldBeforeTheConversation(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "ok"}))
	p := prompt.Prompt{
		Tools:        []prompt.Offer{{Name: "crm__get", Description: "Reads <one>.", Schema: json.RawMessage(`{"type":"object"}`)}},
		Conversation: []prompt.Message{{Role: prompt.User, Text: "hi"}},
	}
	if _, err := client(t, srv.URL).Answer(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	want := `{"model":"test-model","stream":true,"stream_options":{"include_usage":true},"max_tokens":1000,` +
		`"tools":[{"type":"function","function":{"name":"crm__get","description":"Reads <one>.","parameters":{"type":"object"}}}],` +
		`"messages":[{"role":"user","content":"hi"}]}`
	if diff := cmp.Diff(want, string(srv.Bodies()[0])); diff != "" {
		t.Error(diff)
	}
}

func TestAResultWithoutItsCallIsNotSent(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "ok"}))
	p := prompt.Prompt{Conversation: []prompt.Message{{Role: prompt.User, Text: "hi"}, {Role: prompt.Tool, Call: 0, Text: "one"}}}
	if _, err := client(t, srv.URL).Answer(t.Context(), p, nil); err == nil || len(srv.Bodies()) != 0 {
		t.Errorf("error %v after %d requests", err, len(srv.Bodies()))
	}
}

func TestALongerConversationBeginsWithTheBytesOfTheShorterOne(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "First half,", Finish: "length"}, modelserver.Step{Text: "second half."}))
	p := task("Write a lot.")
	for range 3 {
		// A new client each time, as in a new pod.
		a, err := client(t, srv.URL).Answer(t.Context(), p, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Conversation = append(p.Conversation, prompt.Message{Role: prompt.Assistant, Raw: a.Raw}, prompt.Message{Role: prompt.User, Text: prompt.Continue})
	}
	bodies := srv.Bodies()
	for i := 1; i < len(bodies); i++ {
		shared := strings.TrimSuffix(string(bodies[i-1]), "]}")
		if !strings.HasPrefix(string(bodies[i]), shared) {
			t.Errorf("request %d does not begin with request %d:\n%s\n%s", i, i-1, bodies[i], shared)
		}
	}
}

func TestEqualPromptsGiveEqualBytes(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "ok"}))
	for range 20 {
		if _, err := client(t, srv.URL).Answer(t.Context(), task("Say hello."), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range srv.Bodies() {
		if diff := cmp.Diff(request, string(b)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// seen is a server that notes the headers of the last request.
func seen(t *testing.T) (url string, last func() *http.Request) {
	t.Helper()
	requests := make(chan *http.Request, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		_, _ = w.Write([]byte("data: " + finish("stop") + "\n\ndata: [DONE]\n\n"))
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() *http.Request { return <-requests }
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		given func(*v1alpha1.ModelEndpointSpec)
		want  map[string]string
	}{
		"the key goes into Authorization with Bearer": {func(*v1alpha1.ModelEndpointSpec) {}, map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json", "User-Agent": "ekiden"}},
		"another header gets the key alone":           {func(e *v1alpha1.ModelEndpointSpec) { e.Credentials.Header = "api-key" }, map[string]string{"Api-Key": key, "Authorization": ""}},
		"another header may have a prefix":            {func(e *v1alpha1.ModelEndpointSpec) { e.Credentials.Header, e.Credentials.Prefix = "X-Auth", "Token " }, map[string]string{"X-Auth": "Token " + key}},
		"Authorization may have another prefix":       {func(e *v1alpha1.ModelEndpointSpec) { e.Credentials.Prefix = "Basic " }, map[string]string{"Authorization": "Basic " + key}},
		"Authorization is recognised in any case":     {func(e *v1alpha1.ModelEndpointSpec) { e.Credentials.Header = "AUTHORIZATION" }, map[string]string{"Authorization": "Bearer " + key}},
		"no credentials send no key":                  {func(e *v1alpha1.ModelEndpointSpec) { e.Credentials = v1alpha1.Credentials{} }, map[string]string{"Authorization": ""}},
		"headers of the endpoint are sent":            {func(e *v1alpha1.ModelEndpointSpec) { e.Headers = []v1alpha1.Header{{Name: "x-team", Value: "a b"}} }, map[string]string{"X-Team": "a b"}},
		"headers of the endpoint do not replace the key or the type": {func(e *v1alpha1.ModelEndpointSpec) {
			e.Headers = []v1alpha1.Header{{Name: "authorization", Value: "x"}, {Name: "content-type", Value: "x"}}
		}, map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json"}},
		"no compression is asked for": {func(*v1alpha1.ModelEndpointSpec) {}, map[string]string{"Accept-Encoding": ""}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, last := seen(t)
			if _, err := client(t, url, row.given).Answer(t.Context(), task("hi"), nil); err != nil {
				t.Fatal(err)
			}
			r, got := last(), map[string]string{}
			for name := range row.want {
				got[name] = r.Header.Get(name)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"": "/chat/completions", "/": "/chat/completions", "/v1": "/v1/chat/completions", "/v1/": "/v1/chat/completions", "/openai/v1": "/openai/v1/chat/completions",
	} {
		url, last := seen(t)
		if _, err := client(t, url+given).Answer(t.Context(), task("hi"), nil); err != nil {
			t.Fatal(err)
		}
		if got := last().URL.Path; got != want {
			t.Errorf("%q leads to %q, want %q", given, got, want)
		}
	}
}

func TestTheEnvironmentChangesNothing(t *testing.T) {
	for name, value := range map[string]string{
		"OPENAI_API_KEY": "sk-env", "OPENAI_BASE_URL": "http://127.0.0.1:1/", "OPENAI_ORG_ID": "org", "OPENAI_PROJECT_ID": "project",
		"OPENAI_CUSTOM_HEADERS": "X-Env: 1", "HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
	url, last := seen(t)
	if _, err := client(t, url).Answer(t.Context(), task("hi"), nil); err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Accept": {"text/event-stream, application/json"}, "Authorization": {"Bearer " + key}, "Content-Type": {"application/json"},
		"User-Agent": {"ekiden"}, "Content-Length": {"176"},
	}
	got := last().Header
	got.Set("Content-Length", "176")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheBoundOfOutputTokens(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		url   string
		given int32
		want  string
	}{
		"no bound is sent if there is none":       {"http://llm.example/v1", 0, `"include_usage":true},"messages"`},
		"servers get the name that they all know": {"http://llm.example/v1", 7, `"max_tokens":7,"messages"`},
		"OpenAI gets its new name":                {"http://api.openai.com/v1", 7, `"max_completion_tokens":7,"messages"`},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "ok"}))
			c, err := openai.New(endpoint(row.url), v1alpha1.Sampling{MaxOutputTokens: row.given}, key, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.DialWith(dialTo(srv.URL))
			t.Cleanup(c.Close)
			if _, err := c.Answer(t.Context(), task("hi"), nil); err != nil {
				t.Fatal(err)
			}
			if body := string(srv.Bodies()[0]); !strings.Contains(body, row.want) {
				t.Errorf("%s is not in %s", row.want, body)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		given func(*v1alpha1.ModelEndpointSpec)
		key   string
	}{
		"a URL without a scheme":            {given: func(e *v1alpha1.ModelEndpointSpec) { e.URL = "llm.example/v1" }},
		"a URL of another scheme":           {given: func(e *v1alpha1.ModelEndpointSpec) { e.URL = "file:///etc/passwd" }},
		"a URL without a host":              {given: func(e *v1alpha1.ModelEndpointSpec) { e.URL = "https:///v1" }},
		"a URL with a user":                 {given: func(e *v1alpha1.ModelEndpointSpec) { e.URL = "https://" + key + "@llm.example/v1" }},
		"a URL with a query":                {given: func(e *v1alpha1.ModelEndpointSpec) { e.URL = "https://llm.example/v1?key=" + key }},
		"a URL that does not parse":         {given: func(e *v1alpha1.ModelEndpointSpec) { e.URL = "https://llm.example/%zz" + key }},
		"an egress range that is none":      {given: func(e *v1alpha1.ModelEndpointSpec) { e.Egress.Allow = []string{"all"} }},
		"a header with a line break":        {given: func(e *v1alpha1.ModelEndpointSpec) { e.Headers = []v1alpha1.Header{{Name: "a", Value: "b\r\nc: d"}} }},
		"an empty key where one is wanted":  {key: " \n"},
		"a key with a line break within it": {key: key + "\n" + key},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := endpoint("http://llm.example/v1")
			if row.given != nil {
				row.given(&e)
			}
			if row.key == "" {
				row.key = key
			}
			_, err := openai.New(e, v1alpha1.Sampling{}, row.key, nil)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if strings.Contains(err.Error(), key) {
				t.Errorf("the error tells the key: %v", err)
			}
		})
	}
}
