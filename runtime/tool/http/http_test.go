package http_test

import (
	"errors"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/tool/http"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// TestRequests holds what of the arguments goes where: the method, the request's target and the body, as the server sees them.
func TestRequests(t *testing.T) {
	t.Parallel()
	get := v1alpha1.CompiledRequest{Method: "GET", Path: "/customers/{id}", Body: v1alpha1.HTTPBodyNone}
	post := v1alpha1.CompiledRequest{Method: "POST", Path: "/customers/{id}/notes", Query: []string{"dry", "tag"}, Body: v1alpha1.HTTPBodyRest}
	rows := map[string]struct {
		given v1alpha1.CompiledRequest
		args  string
		want  string
	}{
		"an argument stands in the path":              {get, `{"id":"c-1"}`, "GET /base/customers/c-1"},
		"a slash stays within its segment":            {get, `{"id":"a/b"}`, "GET /base/customers/a%2Fb"},
		"a step up within a text stays in it":         {get, `{"id":"../../admin"}`, "GET /base/customers/..%2F..%2Fadmin"},
		"a percent sign is itself":                    {get, `{"id":"%2e%2e%2f"}`, "GET /base/customers/%252e%252e%252f"},
		"what begins a query or fragment does not":    {get, `{"id":"a?b=c#d"}`, "GET /base/customers/a%3Fb=c%23d"},
		"spaces, line ends and other scripts":         {get, `{"id":"a b\r\nX: y é"}`, "GET /base/customers/a%20b%0D%0AX:%20y%20%C3%A9"},
		"a number is written as it came":              {get, `{"id":12345678901234567890.10}`, "GET /base/customers/12345678901234567890.10"},
		"a step up is refused":                        {get, `{"id":".."}`, `nothing was sent: an argument makes a part of the path "..", which would change where it leads`},
		"so is a step aside":                          {get, `{"id":"."}`, `nothing was sent: an argument makes a part of the path ".", which would change where it leads`},
		"an empty argument of the path is refused":    {get, `{"id":""}`, `nothing was sent: the argument "id" is missing or empty, and the path needs it`},
		"so is one that is missing":                   {get, `{}`, `nothing was sent: the argument "id" is missing or empty, and the path needs it`},
		"so is one that is null":                      {get, `{"id":null}`, `nothing was sent: the argument "id" is missing or empty, and the path needs it`},
		"and a list":                                  {get, `{"id":["a"]}`, `nothing was sent: the argument "id" is a list or an object, which has no place in a URL`},
		"query and rest":                              {post, `{"dry":true,"id":"c","n":1.50,"text":"<b>"}`, `POST /base/customers/c/notes?dry=true {"n":1.50,"text":"<b>"}`},
		"a list in the query is given one by one":     {post, `{"id":"c","tag":["a&b",2]}`, `POST /base/customers/c/notes?tag=a%26b&tag=2 {}`},
		"an object in the query is refused":           {post, `{"dry":{"a":1},"id":"c"}`, `nothing was sent: the argument "dry" is a list or an object, which has no place in a URL`},
		"without a body nothing of the rest is sent":  {get, `{"id":"c","more":1}`, "GET /base/customers/c"},
		"two names in one segment":                    {v1alpha1.CompiledRequest{Method: "DELETE", Path: "/x/{a}-{b}", Body: v1alpha1.HTTPBodyNone}, `{"a":"1","b":"2/3"}`, "DELETE /base/x/1-2%2F3"},
		"two dots of two arguments are refused":       {v1alpha1.CompiledRequest{Method: "GET", Path: "/x/{a}{b}", Body: v1alpha1.HTTPBodyNone}, `{"a":".","b":"."}`, `nothing was sent: an argument makes a part of the path "..", which would change where it leads`},
		"a brace that is not closed makes no request": {v1alpha1.CompiledRequest{Method: "GET", Path: "/x/{a", Body: v1alpha1.HTTPBodyNone}, `{"a":"1"}`, `nothing was sent: the path of the tool has a brace that is not closed`},
		"a path cannot lead to another host":          {v1alpha1.CompiledRequest{Method: "GET", Path: "//evil.example/{a}", Body: v1alpha1.HTTPBodyNone}, `{"a":"1"}`, "GET /base//evil.example/1"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := ""
			srv := httptest.NewServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
				body, _ := io.ReadAll(r.Body)
				seen = strings.TrimSpace(r.Method + " " + r.RequestURI + " " + string(body))
				if len(body) > 0 && r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("the type of the body is %q", r.Header.Get("Content-Type"))
				}
			}))
			t.Cleanup(srv.Close)
			s, err := http.New(v1alpha1.CompiledServer{Name: "crm", URL: srv.URL + "/base/", Egress: v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Call(t.Context(), wire.Request{Tool: v1alpha1.CompiledTool{HTTP: row.given}, Arguments: []byte(row.args), Key: "k"})
			var fault *wire.Fault
			if errors.As(err, &fault) {
				if seen != "" || fault.Certainty != wire.NotDone || !fault.Final {
					t.Errorf("the server saw %q of a call with %+v", seen, fault)
				}
				seen = fault.Text
			}
			if diff := cmp.Diff(row.want, seen); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestShown holds what of a body a model is shown.
func TestShown(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		kind, body string
		status     int
		want       wire.Answer
	}{
		"JSON as it came":                       {"application/json", `{"a": 1}`, 200, wire.Said(false, `{"a": 1}`)},
		"text":                                  {"text/plain; charset=utf-8", "é", 200, wire.Said(false, "é")},
		"what is legible, whatever it is":       {"application/x-unheard-of", "a=1", 200, wire.Said(false, "a=1")},
		"text without a type":                   {"", "a", 200, wire.Said(false, "a")},
		"nothing":                               {"application/json", "", 200, wire.Said(false, "")},
		"an image is told":                      {"image/png", "abc", 200, wire.Answer{Text: "[image/png, 3 bytes, not shown]", Bytes: 31}},
		"so is what is no text":                 {"application/pdf", "a\x00b", 200, wire.Answer{Text: "[application/pdf, 3 bytes, not shown]", Bytes: 37}},
		"what a refusal says is said":           {"text/plain", "no such customer", 404, wire.Said(true, "the server answered 404 Not Found: no such customer")},
		"a refusal that says nothing is a fact": {"text/plain", "", 409, wire.Said(true, "the server answered 409 Conflict")},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
				w.Header().Set("Content-Type", row.kind)
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, row.body)
			}))
			t.Cleanup(srv.Close)
			s, err := http.New(v1alpha1.CompiledServer{URL: srv.URL, Egress: v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Call(t.Context(), wire.Request{Tool: v1alpha1.CompiledTool{HTTP: v1alpha1.CompiledRequest{Method: "GET", Path: "/"}}, Arguments: []byte("{}"), Key: "k"})
			if diff := cmp.Diff(row.want, got); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}

func TestServersThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]v1alpha1.CompiledServer{
		"another scheme":           {URL: "ftp://example.com/"},
		"a file":                   {URL: "file:///etc/passwd"},
		"no host":                  {URL: "http:///x"},
		"a user in the URL":        {URL: "http://me:pw@example.com/"},
		"a query":                  {URL: "http://example.com/?a=b"},
		"a range that is no range": {URL: "http://example.com/", Egress: v1alpha1.Egress{Allow: []string{"ten"}}},
	} {
		if _, err := http.New(given, nil); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
