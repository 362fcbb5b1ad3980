package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

func local(url string) v1alpha1.CompiledServer {
	return v1alpha1.CompiledServer{Name: "crm", URL: url, Egress: v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}}}
}

// TestACallIsCarriedOnce holds whatever the client of the protocol does: a call that it would send again stays here.
func TestACallIsCarriedOnce(t *testing.T) {
	t.Parallel()
	var calls, others atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") != "" {
			calls.Add(1)
		} else {
			others.Add(1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(srv.Close)
	s, err := New(local(srv.URL), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{header: http.Header{}, key: "k"}
	send := func(message string) error {
		req, err := http.NewRequestWithContext(x.on(t.Context()), http.MethodPost, srv.URL, bytes.NewReader([]byte(message)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := httpClient(s.carrier).Do(req)
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	const call, cancel = `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`
	if err := send(call); err != nil {
		t.Error(err)
	}
	if err := send(call); !errors.Is(err, errTwice) {
		t.Errorf("the second time: %v", err)
	}
	if err := send(cancel); err != nil {
		t.Error(err)
	}
	if calls.Load() != 1 || others.Load() != 1 {
		t.Errorf("%d calls and %d others reached the server", calls.Load(), others.Load())
	}
	if got := x.seen(); got.status != 503 || !got.sent {
		t.Errorf("what followed the call has overwritten it: %+v", got)
	}
}

func TestKeysStayWithTheirHost(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Store(true) }))
	t.Cleanup(other.Close)
	srv := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(srv.Close)
	compiled := local(srv.URL)
	compiled.Credentials.SecretRef.Name = "crm-key"
	s, err := New(compiled, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Prepare(t.Context(), wire.Request{Secret: "canary"})
	var fault *wire.Fault
	if !errors.As(err, &fault) || fault.Certainty != wire.NotDone || !strings.Contains(fault.Text, "redirect") || leaked.Load() {
		t.Errorf("%v; leaked: %v", err, leaked.Load())
	}
}

func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		page string
		want error
	}{
		"the same cursor forever":   {`{"tools":[],"nextCursor":"again"}`, errEndless},
		"more tools than are taken": {`{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a","inputSchema":{"type":"object"}},`, 129), ",") + `]}`, errMany},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(scripted(row.page))
			t.Cleanup(srv.Close)
			if _, err := List(t.Context(), local(srv.URL), "", nil); !errors.Is(err, row.want) || !errors.Is(err, ErrUnusable) {
				t.Errorf("got %v", err)
			}
			s, err := New(local(srv.URL), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			var fault *wire.Fault
			if err := s.Prepare(t.Context(), wire.Request{}); !errors.As(err, &fault) || !fault.Final {
				t.Errorf("before a call: %v", err)
			}
		})
	}
}

// scripted is a server that opens sessions and has one page of tools.
func scripted(page string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := 0
		_, after, _ := strings.Cut(string(body), `"id":`)
		_, _ = fmt.Sscanf(after, "%d", &id)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case bytes.Contains(body, []byte(`"server/discover"`)):
			w.WriteHeader(http.StatusBadRequest)
		case bytes.Contains(body, []byte(`"initialize"`)):
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, id)
		case bytes.Contains(body, []byte(`"tools/list"`)):
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":%s}`, id, page)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		given sdk.CallToolResult
		want  wire.Answer
	}{
		"texts stand one below the other":       {sdk.CallToolResult{Content: []sdk.Content{text("a"), text("b")}}, wire.Said(false, "a\nb")},
		"a failure is one":                      {sdk.CallToolResult{IsError: true, Content: []sdk.Content{text("no")}}, wire.Said(true, "no")},
		"structured content without text":       {sdk.CallToolResult{StructuredContent: map[string]any{"a": 1}}, wire.Said(false, `{"a":1}`)},
		"structured content beside text":        {sdk.CallToolResult{Content: []sdk.Content{text("a")}, StructuredContent: 1}, wire.Said(false, "a")},
		"structured content beside an image":    {sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: []byte("abc")}}, StructuredContent: 1}, wire.Said(false, "[image/png, 3 bytes, not shown]\n1")},
		"a failure with structured content":     {sdk.CallToolResult{IsError: true, StructuredContent: "why"}, wire.Said(true, `"why"`)},
		"sound":                                 {sdk.CallToolResult{Content: []sdk.Content{&sdk.AudioContent{MIMEType: "audio/wav\n", Data: []byte("abcd")}}}, wire.Said(false, "[audio/wav, 4 bytes, not shown]")},
		"a resource of text":                    {sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{Text: "t"}}}}, wire.Said(false, "t")},
		"a resource of bytes":                   {sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{MIMEType: "application/pdf", Blob: []byte("ab")}}}}, wire.Said(false, "[application/pdf, 2 bytes, not shown]")},
		"a link is told and not followed":       {sdk.CallToolResult{Content: []sdk.Content{&sdk.ResourceLink{URI: "file:///etc/passwd"}}}, wire.Said(false, "[a link to file:///etc/passwd, not followed]")},
		"input that is wanted is not supported": {sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"a": &sdk.ElicitParams{}}}, wire.Said(true, "the tool wants input from a person, which is not supported")},
		"nothing":                               {sdk.CallToolResult{}, wire.Said(false, "")},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(row.want, answer(&row.given)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func text(s string) sdk.Content { return &sdk.TextContent{Text: s} }

// TestInterpret holds the cases that no server makes at will.
func TestInterpret(t *testing.T) {
	t.Parallel()
	foreign := errors.New("whatever the client says")
	rows := map[string]struct {
		given sight
		err   error
		want  wire.Certainty
		sound bool
		reads bool
	}{
		"a request that was never made":                    {sight{}, sdk.ErrConnectionClosed, wire.NotDone, false, false},
		"one that found no connection":                     {sight{tried: true, failure: foreign}, foreign, wire.NotDone, false, false},
		"one that broke on its connection":                 {sight{tried: true, sent: true, failure: foreign}, foreign, wire.Unknown, false, false},
		"a session that is lost":                           {sight{tried: true, sent: true, status: 404, session: true}, foreign, wire.NotDone, false, false},
		"404 without a session is an answer":               {sight{tried: true, sent: true, status: 404}, foreign, "", false, false},
		"404 that names its request is an answer":          {sight{tried: true, sent: true, status: 404, session: true, named: true}, foreign, "", true, false},
		"400 with a session may be a lost one":             {sight{tried: true, sent: true, status: 400, session: true}, foreign, wire.TurnedAway, false, false},
		"400 without one is an answer":                     {sight{tried: true, sent: true, status: 400}, foreign, "", false, false},
		"a whole response that the client cannot read":     {sight{tried: true, sent: true, status: 200}, foreign, wire.Unknown, false, false},
		"a response whose rest did not come in time":       {sight{tried: true, sent: true, status: 200}, context.DeadlineExceeded, wire.Unknown, false, false},
		"a client that gives up although a response began": {sight{tried: true, sent: true, status: 200}, sdk.ErrConnectionClosed, wire.Unknown, false, false},
		"a redirect leaves open what came of a call":       {sight{tried: true, sent: true, status: 303}, foreign, wire.Unknown, false, false},
		"a redirect of a read is an answer":                {sight{tried: true, sent: true, status: 303}, foreign, "", false, true},
		"accepted is no answer":                            {sight{tried: true, sent: true, status: 202}, foreign, wire.Unknown, false, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			effect := v1alpha1.EffectSend
			if row.reads {
				effect = v1alpha1.EffectRead
			}
			a, err, sound := interpret(row.given, effect, row.err)
			var fault *wire.Fault
			got := wire.Certainty("")
			if errors.As(err, &fault) {
				got = fault.Certainty
			}
			if got != row.want || sound != row.sound || (got == "") != a.Failed {
				t.Errorf("got %+v, %v, %v", a, err, sound)
			}
		})
	}
}
