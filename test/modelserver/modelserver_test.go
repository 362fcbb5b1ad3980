package modelserver_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/test/modelserver"
)

func load(t *testing.T, name string) modelserver.Script {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	s, err := modelserver.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// conversation is the body of a request with these messages, user and assistant in turn.
func conversation(texts ...string) string {
	var messages []map[string]string
	for i, s := range texts {
		messages = append(messages, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": s})
	}
	b, err := json.Marshal(map[string]any{"model": "small-1", "stream": true, "stream_options": map[string]bool{"include_usage": true}, "messages": messages})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// post is the status, the type and the body of an answer. The body is closed when the test ends.
func post(t *testing.T, url, key, body string) (status int, kind string, answer io.Reader) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res.StatusCode, res.Header.Get("Content-Type"), res.Body
}

// ask is the status and the text of an answer, or the whole body of one that is no stream.
func ask(t *testing.T, srv *modelserver.Server, key, body string) (int, string) {
	t.Helper()
	status, kind, answer := post(t, srv.URL+"/chat/completions", key, body)
	b, err := io.ReadAll(answer)
	if !strings.HasPrefix(kind, "text/event-stream") {
		return status, string(b)
	}
	said := text(string(b))
	if err != nil {
		said += " (cut)"
	}
	return status, said
}

func text(stream string) string {
	var out strings.Builder
	for line := range strings.Lines(stream) {
		var c struct {
			Choices []struct{ Delta struct{ Content string } }
			Error   map[string]string
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimSpace(line), "data: ")), &c) != nil {
			continue
		}
		for _, ch := range c.Choices {
			out.WriteString(ch.Delta.Content)
		}
		out.WriteString(c.Error["type"])
	}
	return out.String()
}

func TestConversationsDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, load(t, "faults.yaml"))
	want := []int{429, 429, 200, 200}
	var wg sync.WaitGroup
	for _, task := range []string{"rate limit a", "rate limit b", "rate limit c", "rate limit d"} {
		wg.Go(func() {
			var got []int
			for range want {
				code, _ := ask(t, srv, "secret", conversation(task))
				got = append(got, code)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", task, diff)
			}
		})
	}
	wg.Wait()
	r := srv.Report()
	r.Log = nil
	if diff := cmp.Diff(modelserver.Report{Total: 16, ByKey: map[string]int{"rate limit a": 4, "rate limit b": 4, "rate limit c": 4, "rate limit d": 4}}, r); diff != "" {
		t.Error(diff)
	}
}

// TestByTurn asks again in the middle of a conversation, as somebody does who was killed before the answer was kept.
func TestByTurn(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, modelserver.Script{Rules: []modelserver.Rule{{ByTurn: true, Steps: []modelserver.Step{{Text: "first"}, {Text: "second"}}}}})
	var said []string
	for _, c := range []string{conversation("task"), conversation("task"), conversation("task", "first", "and"), conversation("task"), conversation("task", "first", "and", "second", "and")} {
		_, text := ask(t, srv, "", c)
		said = append(said, text)
	}
	if diff := cmp.Diff([]string{"first", "first", "second", "first", "second"}, said); diff != "" {
		t.Error(diff)
	}
}

func TestScriptedAnswers(t *testing.T) {
	t.Parallel()
	type answer struct {
		Status int
		Text   string
	}
	rows := map[string]struct {
		script string
		given  [][]string
		want   []answer
	}{
		"an in-band error after the role":      {"faults.yaml", [][]string{{"overload"}, {"overload"}, {"overload"}, {"overload"}}, []answer{{500, ""}, {502, "<html><body>Bad Gateway</body></html>"}, {200, "overloaded_error"}, {200, "Recovered."}}},
		"a cut stream, then a whole one":       {"faults.yaml", [][]string{{"cut"}, {"cut"}}, []answer{{200, "This stre (cut)"}, {200, "Recovered."}}},
		"a script that is over":                {"faults.yaml", [][]string{{"over"}, {"over"}}, []answer{{200, "Only once."}, {500, `{"error":{"code":null,"message":"the script has no answer for this request","param":null,"type":"script_over"}}` + "\n"}}},
		"the second request of a conversation": {"conversation.yaml", [][]string{{"hi"}, {"hi", "Hello.", "and now?"}}, []answer{{200, "Hello."}, {200, "This is request 2 of small-1 about hi: and now?"}}},
		"an answer that is continued":          {"conversation.yaml", [][]string{{"long"}, {"long", "First half, ", "Continue"}}, []answer{{200, "First half, "}, {200, "second half."}}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := modelserver.Start(t, load(t, row.script))
			var got []answer
			for _, texts := range row.given {
				code, said := ask(t, srv, "secret", conversation(texts...))
				got = append(got, answer{code, said})
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheDefaultAnswersInThreeSentences(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, modelserver.Default())
	_, said := ask(t, srv, "", conversation("Why is the sky blue?"))
	if !strings.Contains(said, "Why is the sky blue?") || strings.Count(said, ". ")+1 != 3 || !strings.HasSuffix(said, ".") {
		t.Errorf("it said %q", said)
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, load(t, "conversation.yaml"))
	base := strings.TrimSuffix(srv.URL, "/v1")
	open := func(name string) {
		if status, _, _ := post(t, base+"/control/gates/"+name, "", ""); status != http.StatusNoContent {
			t.Errorf("opening %s gave %d", name, status)
		}
	}
	open("before")
	_, _, answer := post(t, srv.URL+"/chat/completions", "", conversation("gated"))
	r := bufio.NewReader(answer)
	var before string
	for range 6 { // Three events, each with a blank line. A fourth would not come.
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		before += line
	}
	open("within")
	after, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(before) + "|" + text(string(after)); got != "One two t|hree four." {
		t.Errorf("got %q", got)
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	srv := modelserver.StartLenient(t, load(t, "faults.yaml"))
	base := strings.TrimSuffix(srv.URL, "/v1")
	report := func() modelserver.Report {
		res, err := http.Get(base + "/control/requests")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var r modelserver.Report
		if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	ask(t, srv, "wrong", conversation("over"))
	ask(t, srv, "", conversation("over"))
	ask(t, srv, "secret", `{"model":"m","messages":[]}`)
	ask(t, srv, "secret", conversation("over"))
	r := report()
	for i := range r.Log {
		r.Log[i].PromptSHA, r.Log[i].Bytes = "", 0
	}
	want := modelserver.Report{
		Total: 4, Violations: 1, Unauthorized: 2, ByKey: map[string]int{"over": 3, "": 1},
		Log: []modelserver.Entry{
			{Key: "over", N: 1, Model: "small-1", Authorized: true},
			{Key: "over", N: 2, Model: "small-1"},
			{Key: "", N: 1, Model: "m", Authorized: true, Violation: "messages is empty"},
			{Key: "over", N: 3, Model: "small-1", Authorized: true},
		},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	post(t, base+"/control/reset", "", "")
	if diff := cmp.Diff(modelserver.Report{ByKey: map[string]int{}, Log: []modelserver.Entry{}}, report()); diff != "" {
		t.Error(diff)
	}
	// The step that was used up can be had again.
	if code, _ := ask(t, srv, "secret", conversation("over")); code != http.StatusOK {
		t.Errorf("after the reset it answered %d", code)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]string{
		"a field that is not known": "rules: [{steps: [{txet: hi}]}]",
		"no rules":                  "requireKey: a",
		"a rule without steps":      "rules: [{name: a}]",
		"an unknown shape":          "rules: [{steps: [{usage: {shape: round}}]}]",
		"an unknown index":          "rules: [{steps: [{calls: {index: one, list: []}}]}]",
		"an unknown end":            "rules: [{then: stop, steps: [{text: a}]}]",
		"a number as a duration":    "rules: [{steps: [{delay: 3}]}]",
	} {
		if _, err := modelserver.Parse([]byte(given)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
