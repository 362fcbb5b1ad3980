package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/model/openai"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

// dialTo dials the server at base, whatever the address.
func dialTo(base string) func(context.Context, string, string) (net.Conn, error) {
	u, err := url.Parse(base)
	if err != nil {
		panic(err)
	}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, u.Host)
	}
}

// pipes is a listener whose connections are in memory, so that a server can live in a bubble of synctest.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.gone:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.gone) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

// inBubble runs test with a client and a server in one bubble: time passes only when all of it waits, and the test
// fails if a goroutine is left at the end.
func inBubble(t *testing.T, step modelserver.Step, test func(t *testing.T, c *openai.Client, srv *modelserver.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), gone: make(chan struct{})}
		srv := modelserver.New(modelserver.One(step), nil)
		h := &http.Server{Handler: srv}
		go func() { _ = h.Serve(l) }()
		c, err := openai.New(endpoint("http://llm.example/v1"), v1alpha1.Sampling{MaxOutputTokens: 1000}, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.DialWith(l.dial)
		test(t, c, srv)
		c.Close()
		srv.Stop()
		_ = h.Close()
		synctest.Wait()
	})
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	ten := strings.Repeat("1234567890", 10)
	rows := map[string]struct {
		given modelserver.Step
		// want is the code, after is when it came, tokens are what was used.
		want   string
		after  time.Duration
		tokens budget.Tokens
	}{
		"no response":                                         {modelserver.Step{Silent: true}, openai.CodeFirstTokenTimeout, 120 * time.Second, budget.Tokens{Input: reckonedInput}},
		"a response without a token":                          {modelserver.Step{Text: "x", Break: &modelserver.Break{Stall: true}}, openai.CodeFirstTokenTimeout, 120 * time.Second, budget.Tokens{Input: reckonedInput}},
		"a role is no token":                                  {modelserver.Step{Text: "x", Break: &modelserver.Break{After: 1, Stall: true}}, openai.CodeFirstTokenTimeout, 120 * time.Second, budget.Tokens{Input: reckonedInput}},
		"comments are no token":                               {modelserver.Step{Raw: repeat(": OPENROUTER PROCESSING\n\n", 40), Break: &modelserver.Break{After: 40, Stall: true}}, openai.CodeFirstTokenTimeout, 120 * time.Second, budget.Tokens{Input: reckonedInput}},
		"the answer stops":                                    {modelserver.Step{Text: ten, Chunks: 10, Break: &modelserver.Break{After: 5, Stall: true}}, openai.CodeIdleTimeout, 60 * time.Second, budget.Tokens{Input: reckonedInput, Output: 10}},
		"the answer stops after a while":                      {modelserver.Step{Text: ten, Chunks: 10, ChunkDelay: modelserver.Duration(50 * time.Second), Break: &modelserver.Break{After: 4, Stall: true}}, openai.CodeIdleTimeout, 5*50*time.Second + 10*time.Second, budget.Tokens{Input: reckonedInput, Output: 8}},
		"the answer goes on and on":                           {modelserver.Step{Text: ten, Chunks: 100, ChunkDelay: modelserver.Duration(50 * time.Second)}, openai.CodeTotalTimeout, 600 * time.Second, budget.Tokens{Input: reckonedInput, Output: 3}},
		"a slow answer is whole":                              {modelserver.Step{Text: "Hello.", Chunks: 5, ChunkDelay: modelserver.Duration(55 * time.Second), Usage: &modelserver.Usage{Prompt: 9, Completion: 2}}, "", 8 * 55 * time.Second, budget.Tokens{Input: 9, Output: 2}},
		"an answer without an end marker is whole, after all": {modelserver.Step{Text: "Hello.", Usage: &modelserver.Usage{Prompt: 9, Completion: 2}, Break: &modelserver.Break{After: 4, Stall: true}}, "", 60 * time.Second, budget.Tokens{Input: 9, Output: 2}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, row.given, func(t *testing.T, c *openai.Client, srv *modelserver.Server) {
				start := time.Now()
				a, err := c.Answer(t.Context(), task("Say hello."), nil)
				code := ""
				if e, ok := errors.AsType[*segment.CallError](err); ok {
					code = e.Code
					if !e.Retryable || !a.Estimated || !strings.Contains(e.Message, "spec.timeouts.") {
						t.Errorf("got %+v %+v", e, a)
					}
				} else if err != nil {
					t.Error(err)
				}
				if code != row.want || a.Tokens != row.tokens {
					t.Errorf("got %q %+v, want %q %+v", code, a.Tokens, row.want, row.tokens)
				}
				if took := time.Since(start); took != row.after {
					t.Errorf("it came after %v, want %v", took, row.after)
				}
				if n := srv.Report().Total; n != 1 {
					t.Errorf("the server saw %d requests, want 1", n)
				}
			})
		})
	}
}

func repeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func TestCancel(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		given modelserver.Step
		want  segment.Answer
	}{
		"before a response":       {modelserver.Step{Silent: true}, segment.Answer{Estimated: true, Tokens: budget.Tokens{Input: reckonedInput}}},
		"before the first token":  {modelserver.Step{Text: "Hello.", Break: &modelserver.Break{Stall: true}}, segment.Answer{Estimated: true, Tokens: budget.Tokens{Input: reckonedInput}}},
		"within the answer":       {modelserver.Step{Text: "Hello there.", Chunks: 2, Break: &modelserver.Break{After: 2, Stall: true}}, segment.Answer{Text: "Hello ", Estimated: true, Tokens: budget.Tokens{Input: reckonedInput, Output: 2}}},
		"within a counted answer": {modelserver.Step{Text: "Hello there.", Chunks: 2, Usage: &modelserver.Usage{Prompt: 100, Cached: 80, Completion: 30, Shape: "every"}, Break: &modelserver.Break{After: 2, Stall: true}}, segment.Answer{Text: "Hello ", Estimated: true, Tokens: budget.Tokens{Input: 20, CacheRead: 80, Output: 10}}},
		"within an error's body":  {modelserver.Step{Gate: "never", Status: 500}, segment.Answer{Estimated: true, Tokens: budget.Tokens{Input: reckonedInput}}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, row.given, func(t *testing.T, c *openai.Client, _ *modelserver.Server) {
				ctx, cancel := context.WithCancel(t.Context())
				go func() { synctest.Wait(); cancel() }()
				start := time.Now()
				a, err := c.Answer(ctx, task("Say hello."), nil)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want %v", err, context.Canceled)
				}
				if diff := cmp.Diff(row.want, a); diff != "" {
					t.Error(diff)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("it took %v to notice", took)
				}
			})
		})
	}
}

func TestADeadlineOfTheCallerIsNotATimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, modelserver.Step{Silent: true}, func(t *testing.T, c *openai.Client, _ *modelserver.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := c.Answer(ctx, task("hi"), nil); err != context.DeadlineExceeded { //nolint:errorlint // The port promises ctx's own error.
			t.Errorf("got %v", err)
		}
	})
}

func TestACallThatIsCancelledAlreadyMakesNoRequest(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "ok"}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, err := client(t, srv.URL).Answer(ctx, task("hi"), nil)
	if !errors.Is(err, context.Canceled) || srv.Report().Total != 0 {
		t.Errorf("got %v after %d requests", err, srv.Report().Total)
	}
	if diff := cmp.Diff(segment.Answer{}, a); diff != "" {
		t.Error(diff)
	}
}

func TestTextIsToldAsItComes(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "Hello there.", Chunks: 2, Break: &modelserver.Break{After: 2, Gate: "heard"}}))
	var told []string
	// The server holds the second half back until the first one has been heard.
	_, err := client(t, srv.URL).Answer(t.Context(), task("hi"), func(s string) {
		told = append(told, s)
		srv.Open("heard")
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Hello ", "there."}, told); diff != "" {
		t.Error(diff)
	}
}

func TestManyAnswersAtOnceLeaveNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	text := modelserver.Step{Text: "Hello {{last}}, and goodbye.", Chunks: 8}
	stalls := text
	stalls.Break = &modelserver.Break{After: 3, Stall: true}
	srv := modelserver.Start(t, modelserver.Script{Rules: []modelserver.Rule{
		{When: modelserver.When{Task: "stall"}, Steps: []modelserver.Step{stalls}}, {Steps: []modelserver.Step{text}},
	}})
	c := client(t, srv.URL)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%2 == 0 {
				if _, err := c.Answer(ctx, task("stall"), func(string) { cancel() }); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want a cancelled call", err)
				}
				return
			}
			name := strings.Repeat("x", i)
			if a, err := c.Answer(ctx, task(name), nil); err != nil || a.Text != "Hello "+name+", and goodbye." {
				t.Errorf("got %q, %v", a.Text, err)
			}
		})
	}
	wg.Wait()
	if n := srv.Report().Total; n != 40 {
		t.Errorf("the server saw %d requests, want 40", n)
	}
	c.Close()
	// The server's side of the connections needs a moment to notice that they are gone.
	deadline := time.After(10 * time.Second)
	for runtime.NumGoroutine() > before+3 {
		select {
		case <-deadline:
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 5<<16) // 5 MiB
	rows := map[string]struct {
		given []string
		want  string
		text  int
	}{
		"one line of 5 MiB":                {sse(delta(`"content":"`+large+`"`), finish("stop")), "", len(large)},
		"a body of 5 MiB":                  {[]string{`{"choices":[{"message":{"content":"` + large + `"}}]}`}, "", len(large)},
		"a line that is too long":          {[]string{"data: ", large, large, large, large}, openai.CodeAnswerTooLarge, 0},
		"a comment that is too long":       {[]string{": ", large, large, large, large}, openai.CodeAnswerTooLarge, 0},
		"lines that are too many":          {repeat("data: {"+large+"\n", 4), openai.CodeAnswerTooLarge, 0},
		"a body that is too long":          {[]string{`{"a":"`, large, large, large, large, `"}`}, openai.CodeAnswerTooLarge, 0},
		"an answer that is too long":       {repeat("data: "+delta(`"content":"`+large+`"`)+"\n\n", 4), openai.CodeAnswerTooLarge, 4 * len(large)},
		"a stream may be longer than that": {append(repeat(": "+large+"\n\n", 5), sse(delta(`"content":"hi"`), finish("stop"))...), "", 2},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, modelserver.Step{Raw: row.given})
			code := ""
			if e, ok := errors.AsType[*segment.CallError](got.err); ok {
				code = e.Code
			}
			if code != row.want || len(got.answer.Text) != row.text {
				t.Errorf("got %q and %d bytes, want %q and %d: %v", code, len(got.answer.Text), row.want, row.text, got.err)
			}
		})
	}
}

func TestAStoredMessageThatDoesNotParseMakesNoRequest(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "ok"}))
	p := task("hi")
	p.Conversation[0].Raw = json.RawMessage(`{`)
	_, err := client(t, srv.URL).Answer(t.Context(), p, nil)
	e, ok := errors.AsType[*segment.CallError](err)
	if !ok || e.Retryable || e.Code != v1alpha1.ReasonIncompatibleSession || srv.Report().Total != 0 {
		t.Errorf("got %v after %d requests", err, srv.Report().Total)
	}
}
