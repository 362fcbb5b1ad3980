package openai_test

import (
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/model/openai"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

// status is a step that answers with a status and an error in the usual form.
func status(code int, kind, errorCode string) modelserver.Step {
	return modelserver.Step{Status: code, Body: `{"error":{"type":"` + kind + `","code":"` + errorCode + `","message":"words"}}`}
}

// inBand is a step that reports an error in its stream.
func inBand(body string) modelserver.Step { return modelserver.Step{Raw: sse(body)} }

// Each row is one request; ask asserts that it was.
func TestFaults(t *testing.T) {
	t.Parallel()
	terminal := func(code string) segment.CallError { return segment.CallError{Code: code} }
	retryable := func(code string) segment.CallError { return segment.CallError{Retryable: true, Code: code} }
	began := delta(`"content":"Hel"`)
	html := "<html><body>Bad Gateway</body></html>"
	rows := map[string]struct {
		given modelserver.Step
		want  segment.CallError
	}{
		"400 is refused":                                    {status(400, "invalid_request_error", ""), terminal(v1alpha1.ReasonRequestRefused)},
		"400 with the error as text is refused":             {modelserver.Step{Status: 400, Body: `{"error":"model not found"}`}, terminal(v1alpha1.ReasonRequestRefused)},
		"400 with an empty body is refused":                 {modelserver.Step{Status: 400}, terminal(v1alpha1.ReasonRequestRefused)},
		"400 with a detail is refused":                      {modelserver.Step{Status: 422, Body: `{"detail":[{"loc":["body"],"msg":"bad"}]}`}, terminal(v1alpha1.ReasonRequestRefused)},
		"400 for the context's length is an overflow":       {status(400, "invalid_request_error", "context_length_exceeded"), terminal(v1alpha1.ReasonContextOverflow)},
		"400 by the type of llama.cpp is an overflow":       {status(400, "exceed_context_size_error", "400"), terminal(v1alpha1.ReasonContextOverflow)},
		"words about the context's length are not enough":   {modelserver.Step{Status: 400, Body: `{"error":{"message":"context_length_exceeded"}}`}, terminal(v1alpha1.ReasonRequestRefused)},
		"400 of a content filter is a refusal of the model": {status(400, "", "content_filter"), terminal(v1alpha1.ReasonModelRefused)},
		"401 is a refused key":                              {status(401, "invalid_request_error", "invalid_api_key"), terminal(v1alpha1.ReasonCredentialsRefused)},
		"402 is an exhausted quota":                         {status(402, "", ""), terminal(v1alpha1.ReasonQuotaExhausted)},
		"403 is a refused key":                              {status(403, "permission_error", ""), terminal(v1alpha1.ReasonCredentialsRefused)},
		"404 is refused":                                    {status(404, "not_found_error", "model_not_found"), terminal(v1alpha1.ReasonRequestRefused)},
		"404 of a proxy is refused":                         {modelserver.Step{Status: 404, Body: "404 page not found\n"}, terminal(v1alpha1.ReasonRequestRefused)},
		"405 is refused":                                    {status(405, "", ""), terminal(v1alpha1.ReasonRequestRefused)},
		"408 is tried again":                                {status(408, "", ""), retryable(openai.CodeRequestTimeout)},
		"409 is tried again":                                {status(409, "", ""), retryable(openai.CodeConflict)},
		"413 is an overflow":                                {status(413, "request_too_large", ""), terminal(v1alpha1.ReasonContextOverflow)},
		"422 is refused":                                    {status(422, "", ""), terminal(v1alpha1.ReasonRequestRefused)},
		"425 is tried again":                                {status(425, "", ""), retryable(openai.CodeConflict)},
		"429 is tried again":                                {status(429, "requests", "rate_limit_exceeded"), retryable(openai.CodeRateLimited)},
		"429 with a strange body is tried again":            {modelserver.Step{Status: 429, Body: "slow down"}, retryable(openai.CodeRateLimited)},
		"429 of an exhausted quota is terminal":             {status(429, "insufficient_quota", "insufficient_quota"), terminal(v1alpha1.ReasonQuotaExhausted)},
		"500 is tried again":                                {status(500, "server_error", ""), retryable(openai.CodeServerError)},
		"500 that calls itself invalid is tried again":      {status(500, "invalid_request_error", ""), retryable(openai.CodeServerError)},
		"501 is tried again":                                {status(501, "", ""), retryable(openai.CodeServerError)},
		"502 with a web page is tried again":                {modelserver.Step{Status: 502, Body: html}, retryable(openai.CodeServerError)},
		"503 is tried again":                                {status(503, "", ""), retryable(openai.CodeOverloaded)},
		"504 is tried again":                                {modelserver.Step{Status: 504, Body: html}, retryable(openai.CodeRequestTimeout)},
		"529 is tried again":                                {status(529, "overloaded_error", ""), retryable(openai.CodeOverloaded)},
		"an error in a list is read":                        {modelserver.Step{Status: 400, Body: `[{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"words"}}]`}, terminal(v1alpha1.ReasonRequestRefused)},

		"a redirect is refused":                       {modelserver.Step{Status: 307, Headers: map[string]string{"Location": "/v1/chat/completions"}}, terminal(v1alpha1.ReasonRequestRefused)},
		"a redirect to a page is refused":             {modelserver.Step{Status: 302, Headers: map[string]string{"Location": "http://127.0.0.1:1/login"}}, terminal(v1alpha1.ReasonRequestRefused)},
		"200 with a web page is refused":              {modelserver.Step{Status: 200, Body: "<!DOCTYPE html><html></html>"}, terminal(v1alpha1.ReasonRequestRefused)},
		"200 with other JSON is refused":              {modelserver.Step{Status: 200, Body: `{"status":"ok"}`}, terminal(v1alpha1.ReasonRequestRefused)},
		"200 with other text is refused":              {modelserver.Step{Status: 200, Body: "It works!", Headers: map[string]string{"Content-Type": "text/plain"}}, terminal(v1alpha1.ReasonRequestRefused)},
		"200 with an error in JSON goes by its type":  {modelserver.Step{Status: 200, Body: `{"error":{"type":"overloaded_error","message":"words"}}`}, retryable(openai.CodeOverloaded)},
		"200 with an error for good in JSON":          {modelserver.Step{Status: 200, Body: `{"error":{"type":"invalid_request_error","message":"words"}}`}, terminal(v1alpha1.ReasonRequestRefused)},
		"200 with half a body is tried again":         {modelserver.Step{Status: 200, Body: `{"choices":[{"message":{"content":"Hel`}, retryable(openai.CodeStreamMalformed)},
		"200 with nothing is tried again":             {modelserver.Step{Status: 200}, retryable(openai.CodeStreamCut)},
		"204 is tried again":                          {modelserver.Step{Status: 204}, retryable(openai.CodeStreamCut)},
		"a stream with nothing is tried again":        {modelserver.Step{Raw: []string{}}, retryable(openai.CodeStreamCut)},
		"a stream with only its end is tried again":   {modelserver.Step{Raw: sse(done)}, retryable(openai.CodeStreamCut)},
		"a stream with only comments is tried again":  {modelserver.Step{Raw: []string{": hi\n\n"}}, retryable(openai.CodeStreamCut)},
		"a stream that ends early is tried again":     {modelserver.Step{Raw: sse(began)}, retryable(openai.CodeStreamCut)},
		"a stream that ends within a line":            {modelserver.Step{Raw: []string{"data: " + began + "\n\n", `data: {"choices":[{"ind`}}, retryable(openai.CodeStreamCut)},
		"a stream that ends within several lines":     {modelserver.Step{Raw: []string{"data: " + began + "\n\n", "data: {\"choices\":\n"}}, retryable(openai.CodeStreamCut)},
		"a connection cut before the first token":     {modelserver.Step{Text: "Hello there.", Chunks: 3, Break: &modelserver.Break{Cut: true}}, retryable(openai.CodeUnreachable)},
		"a connection cut within the answer":          {modelserver.Step{Text: "Hello there.", Chunks: 3, Break: &modelserver.Break{After: 2, Cut: true}}, retryable(openai.CodeStreamCut)},
		"an event that is no JSON is tried again":     {inBand(`{"choices":`), retryable(openai.CodeStreamMalformed)},
		"an event of other types is tried again":      {inBand(`{"choices":"none"}`), retryable(openai.CodeStreamMalformed)},
		"the server gives up within the answer":       {modelserver.Step{Raw: sse(began, finish("error"), done)}, retryable(openai.CodeServerError)},
		"the server runs out of resources":            {modelserver.Step{Raw: sse(began, finish("insufficient_system_resource"), done)}, retryable(openai.CodeServerError)},
		"in-band overload is tried again":             {inBand(`{"error":{"type":"overloaded_error","message":"words"}}`), retryable(openai.CodeOverloaded)},
		"in-band rate limit is tried again":           {inBand(`{"error":{"type":"rate_limit_error","message":"words"}}`), retryable(openai.CodeRateLimited)},
		"in-band rate limit by code is tried again":   {inBand(`{"error":{"type":"tokens","code":"rate_limit_exceeded"}}`), retryable(openai.CodeRateLimited)},
		"in-band server error is tried again":         {inBand(`{"error":{"type":"server_error","message":"words"}}`), retryable(openai.CodeServerError)},
		"in-band api_error is tried again":            {inBand(`{"error":{"type":"api_error","message":"words"}}`), retryable(openai.CodeServerError)},
		"in-band InternalServerError is tried again":  {inBand(`{"error":{"type":"InternalServerError","code":500}}`), retryable(openai.CodeServerError)},
		"in-band timeout is tried again":              {inBand(`{"error":{"type":"timeout_error","message":"words"}}`), retryable(openai.CodeRequestTimeout)},
		"in-band status 502 is tried again":           {inBand(`{"error":{"code":502,"message":"words"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`), retryable(openai.CodeServerError)},
		"in-band status as text is tried again":       {inBand(`{"error":{"type":"None","code":"503","message":"words"}}`), retryable(openai.CodeOverloaded)},
		"in-band error without a type is tried again": {inBand(`{"error":{"message":"CUDA out of memory"}}`), retryable(openai.CodeServerError)},
		"in-band error as text is tried again":        {inBand(`{"error":"CUDA out of memory"}`), retryable(openai.CodeServerError)},
		"in-band invalid request is refused":          {inBand(`{"error":{"type":"invalid_request_error","message":"words"}}`), terminal(v1alpha1.ReasonRequestRefused)},
		"in-band status 400 is refused":               {inBand(`{"object":"error","type":"BadRequestError","code":400,"message":"words"}`), terminal(v1alpha1.ReasonRequestRefused)},
		"in-band unknown type is refused":             {inBand(`{"error":{"type":"strange_error","message":"words"}}`), terminal(v1alpha1.ReasonRequestRefused)},
		"in-band overflow is one":                     {inBand(`{"error":{"type":"invalid_request_error","code":"context_length_exceeded"}}`), terminal(v1alpha1.ReasonContextOverflow)},
		"in-band authentication is a refused key":     {inBand(`{"error":{"type":"authentication_error"}}`), terminal(v1alpha1.ReasonCredentialsRefused)},
		"in-band exhausted quota is one":              {inBand(`{"error":{"code":"insufficient_quota"}}`), terminal(v1alpha1.ReasonQuotaExhausted)},
		"an event by the name of error is one":        {modelserver.Step{Raw: []string{"event: error\ndata: {\"type\":\"overloaded_error\",\"message\":\"words\"}\n\n"}}, retryable(openai.CodeOverloaded)},
		"in-band error within the answer":             {modelserver.Step{Text: "Hello there.", Chunks: 3, Break: &modelserver.Break{After: 2, Error: json.RawMessage(`{"type":"overloaded_error"}`)}}, retryable(openai.CodeOverloaded)},
	}
	if len(rows) < 25 {
		t.Fatalf("%d rows, want 25", len(rows))
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, row.given)
			e, ok := errors.AsType[*segment.CallError](got.err)
			if !ok {
				t.Fatalf("got %v, want a CallError: %+v", got.err, got.answer)
			}
			if diff := cmp.Diff(row.want, segment.CallError{Retryable: e.Retryable, Code: e.Code}); diff != "" {
				t.Errorf("%s\n%s", diff, e.Message)
			}
			if e.Message == "" || len(e.Message) > 1024 || strings.ContainsAny(e.Message, "\n<>") {
				t.Errorf("the message is no sentence: %q", e.Message)
			}
		})
	}
}

func TestAnErrorAfterTheEndTakesNothingAway(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]modelserver.Step{
		"the connection is cut":   {Text: "Hello.", Break: &modelserver.Break{After: 3, Cut: true}},
		"an error is reported":    {Text: "Hello.", Break: &modelserver.Break{After: 3, Error: json.RawMessage(`{"type":"server_error"}`)}},
		"the rest makes no sense": {Raw: sse(delta(`"content":"Hello."`), finish("stop"), `{"usage`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, step)
			if got.err != nil || got.answer.Text != "Hello." || !got.answer.Estimated {
				t.Errorf("got %+v, %v", got.answer, got.err)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const now = "Mon, 02 Jan 2006 15:04:05 GMT"
	rows := map[string]struct {
		status int
		given  map[string]string
		want   time.Duration
	}{
		"nothing":                               {429, nil, 0},
		"seconds":                               {429, map[string]string{"Retry-After": "7"}, 7 * time.Second},
		"a fraction of seconds":                 {429, map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond},
		"an HTTP date":                          {429, map[string]string{"Retry-After": "Mon, 02 Jan 2006 15:05:05 GMT", "Date": now}, time.Minute},
		"an HTTP date that has passed":          {429, map[string]string{"Retry-After": "Mon, 02 Jan 2006 15:00:00 GMT", "Date": now}, 0},
		"milliseconds":                          {429, map[string]string{"Retry-After-Ms": "250"}, 250 * time.Millisecond},
		"milliseconds are more exact":           {429, map[string]string{"Retry-After-Ms": "1250", "Retry-After": "2"}, 1250 * time.Millisecond},
		"the reset of a limit that is used up":  {429, map[string]string{"X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "6m0s"}, 6 * time.Minute},
		"the reset of another limit is nothing": {429, map[string]string{"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "120ms", "X-Ratelimit-Remaining-Tokens": "9", "X-Ratelimit-Reset-Tokens": "6m0s"}, 120 * time.Millisecond},
		"Retry-After says more than a reset":    {429, map[string]string{"Retry-After": "3", "X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "6m0s"}, 3 * time.Second},
		"an overloaded server may ask too":      {503, map[string]string{"Retry-After": "30"}, 30 * time.Second},
		"an exhausted quota may ask too":        {402, map[string]string{"Retry-After": "3600"}, time.Hour},
		"a negative number is none":             {429, map[string]string{"Retry-After": "-5"}, 0},
		"nonsense is none":                      {429, map[string]string{"Retry-After": "soon"}, 0},
		"an absurd number is bounded":           {429, map[string]string{"Retry-After": "1e300"}, 365 * 24 * time.Hour},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, modelserver.Step{Status: row.status, Headers: row.given})
			e, ok := errors.AsType[*segment.CallError](got.err)
			if !ok || e.RetryAfter != row.want {
				t.Errorf("got %+v, want %v", got.err, row.want)
			}
		})
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 400)
	rows := map[string]struct {
		given modelserver.Step
		want  string
	}{
		"status, type, code, request and the endpoint's words": {
			modelserver.Step{Status: 429, Headers: map[string]string{"X-Request-Id": "req_1"}, Body: `{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Slow\n  down."}}`},
			"RateLimited: the endpoint answered 429 Too Many Requests (tokens/rate_limit_exceeded, request req_1): Slow down.",
		},
		"a body that is no error is not told": {
			modelserver.Step{Status: 500, Body: "secret stack trace"},
			"ServerError: the endpoint answered 500 Internal Server Error",
		},
		"long words are cut between characters": {
			modelserver.Step{Status: 400, Body: `{"error":"` + long + `"}`},
			"RequestRefused: the endpoint answered 400 Bad Request: " + long[:300],
		},
		"the key is taken out": {
			modelserver.Step{Status: 401, Body: `{"error":{"message":"Incorrect key: {{authorization}}."}}`},
			"CredentialsRefused: the endpoint answered 401 Unauthorized: it refuses the key that spec.credentials of the ModelEndpoint names: Incorrect key: Bearer [redacted]",
		},
		"a key with its middle starred out is taken out": {
			modelserver.Step{Status: 401, Body: `{"error":{"message":"Incorrect key: sk-canar*****cdef, sorry"}}`},
			"CredentialsRefused: the endpoint answered 401 Unauthorized: it refuses the key that spec.credentials of the ModelEndpoint names: Incorrect key: [redacted], sorry",
		},
		"a key in a type or a request's id is taken out": {
			modelserver.Step{Status: 400, Headers: map[string]string{"X-Request-Id": "{{authorization}}"}, Body: `{"error":{"type":"{{authorization}}"}}`},
			"RequestRefused: the endpoint answered 400 Bad Request (Bearer [redacted], request Bearer [redacted])",
		},
		"a key at the cut leaves nothing": {
			modelserver.Step{Status: 400, Body: `{"error":"` + strings.Repeat("x", 280) + ` {{authorization}}"}`},
			"RequestRefused: the endpoint answered 400 Bad Request: " + strings.Repeat("x", 280) + " Bearer [redacted]",
		},
		"a key in an in-band error is taken out": {
			inBand(`{"error":{"type":"x","message":"{{authorization}}"}}`),
			"RequestRefused: the endpoint reported an error in place of the answer (x): Bearer [redacted]",
		},
		"a redirect is explained without its target": {
			modelserver.Step{Status: 302, Headers: map[string]string{"Location": "http://127.0.0.1:1/?key={{authorization}}"}},
			"RequestRefused: the endpoint answered 302 Found: redirects are not followed, because the key belongs to the host in spec.url of the ModelEndpoint",
		},
		"a web page is explained": {
			modelserver.Step{Status: 200, Body: "<html>"},
			"RequestRefused: the endpoint answered with a web page instead of a chat completion: correct spec.url of the ModelEndpoint",
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, row.given)
			if got.err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(row.want, got.err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoResponse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	hangup, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangup.Close() })
	go func() {
		for {
			c, err := hangup.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1<<10)) // The request, or TLS's hello.
			_, _ = c.Write([]byte("SSH-2.0-" + key + "\r\n"))
			c.Close()
		}
	}()
	rows := map[string]struct {
		url  string
		want string
	}{
		"nobody listens":                   {"http://" + closed, "Unreachable: " + closed + " refused the connection"},
		"no such host":                     {"http://no.such.host.invalid", "Unreachable: "},
		"the server speaks something else": {"http://" + hangup.Addr().String(), "Unreachable: the connection to " + hangup.Addr().String() + " was lost before a response came"},
		"the server speaks no TLS":         {"https://" + hangup.Addr().String(), "Unreachable: "},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := client(t, row.url).Answer(t.Context(), task("hi"), nil)
			e, ok := errors.AsType[*segment.CallError](err)
			if !ok || !e.Retryable || !strings.HasPrefix(e.Error(), row.want) || strings.Contains(e.Error(), key) {
				t.Errorf("got %v, want %s", err, row.want)
			}
		})
	}
}

func TestEgressIsRefused(t *testing.T) {
	t.Parallel()
	srv := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "ok"}))
	for _, url := range []string{srv.URL, strings.Replace(srv.URL, "127.0.0.1", "localhost", 1), "http://169.254.169.254/latest"} {
		a, err := client(t, url, func(e *v1alpha1.ModelEndpointSpec) { e.Egress.Allow = nil }).Answer(t.Context(), task("hi"), nil)
		e, ok := errors.AsType[*segment.CallError](err)
		if !ok || e.Retryable || e.Code != v1alpha1.ReasonEgressRefused || !strings.Contains(e.Message, "spec.egress.allow of the ModelEndpoint") {
			t.Errorf("%s: got %v", url, err)
		}
		if diff := cmp.Diff(segment.Answer{}, a); diff != "" {
			t.Error(diff)
		}
	}
	if n := srv.Report().Total; n != 0 {
		t.Errorf("the server saw %d requests, want none", n)
	}
}

func TestTheKeyStaysWithItsHost(t *testing.T) {
	t.Parallel()
	other := modelserver.Start(t, modelserver.One(modelserver.Step{Text: "caught"}))
	for _, code := range []int{301, 302, 303, 307, 308} {
		ask(t, modelserver.Step{Status: code, Headers: map[string]string{"Location": other.URL + "/chat/completions"}})
	}
	if n := other.Report().Total; n != 0 {
		t.Errorf("the other host saw %d requests, want none", n)
	}
}

func TestAWrongKeyMakesOneRequest(t *testing.T) {
	t.Parallel()
	script := modelserver.One(modelserver.Step{Text: "ok"})
	script.RequireKey = "another"
	srv := modelserver.Start(t, script)
	_, err := client(t, srv.URL).Answer(t.Context(), task("hi"), nil)
	e, ok := errors.AsType[*segment.CallError](err)
	if !ok || e.Retryable || e.Code != v1alpha1.ReasonCredentialsRefused {
		t.Errorf("got %v", err)
	}
	if r := srv.Report(); r.Total != 1 || r.Unauthorized != 1 {
		t.Errorf("the server saw %+v", r)
	}
}
