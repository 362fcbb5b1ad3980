package toolserver_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// ask is the status and the body of an answer, or 0 if the connection broke.
func ask(t *testing.T, method, url, body, idempotency string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if idempotency != "" {
		req.Header["idempotency-key"] = []string{idempotency} // spelled so that the client does not repeat it by itself
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestRefundsArePaidOncePerKey(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		given toolserver.Options
		want  int
	}{
		"by a server that honours keys": {toolserver.Options{}, 3}, // a, b, and the one without a key
		"by one that ignores them":      {toolserver.Options{IgnoreKeys: true}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := toolserver.Start(t, row.given)
			for _, key := range []string{"a", "a", "b", "", "a"} {
				if status, said := ask(t, http.MethodPost, srv.URL+"/api/customers/c-1/refunds", `{"amount":"1"}`, key); status != 200 {
					t.Errorf("%d %s", status, said)
				}
			}
			want := toolserver.Counts{
				Requests: map[string]int{"refund": 5}, Calls: map[string]int{"refund": 5}, Effects: row.want, Keys: map[string]int{"a": 3, "b": 1},
			}
			_, shown := ask(t, http.MethodGet, srv.URL+"/counts", "", "")
			var got toolserver.Counts
			if err := json.Unmarshal([]byte(shown), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMoodsAreSetFromOutside(t *testing.T) {
	t.Parallel()
	srv := toolserver.Start(t, toolserver.Options{})
	mood := srv.URL + "/control/tools/refund/mood"
	if status, _ := ask(t, http.MethodPost, mood, `{"times":1,"act":true,"drop":"whole"}`, ""); status != http.StatusNoContent {
		t.Fatalf("setting the mood gave %d", status)
	}
	if status, _ := ask(t, http.MethodPost, mood, `{"tims":1}`, ""); status != http.StatusBadRequest {
		t.Errorf("a misspelt mood gave %d", status)
	}
	refund := srv.URL + "/api/customers/c-1/refunds"
	if status, _ := ask(t, http.MethodPost, refund, `{}`, "k"); status != 0 {
		t.Errorf("the connection was not dropped: %d", status)
	}
	if status, said := ask(t, http.MethodPost, refund, `{}`, "k"); status != 200 || !strings.Contains(said, "R-1") {
		t.Errorf("then it said %d %s", status, said)
	}
	if c := srv.Counts(); c.Effects != 1 || c.Keys["k"] != 2 {
		t.Errorf("%+v", c)
	}
	ask(t, http.MethodPost, srv.URL+"/control/reset", "", "")
	if c := srv.Counts(); c.Effects != 0 || len(c.Calls) != 0 {
		t.Errorf("after a reset: %+v", c)
	}
}

func TestBothFormsOfTheProtocol(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		given toolserver.Options
		want  string
	}{
		"with sessions":    {toolserver.Options{}, "2025-11-25"},
		"without sessions": {toolserver.Options{Stateless: true}, "2026-07-28"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := toolserver.Start(t, row.given)
			client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: srv.URL + "/mcp", DisableStandaloneSSE: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = session.Close() })
			if got := session.InitializeResult().ProtocolVersion; got != row.want {
				t.Errorf("the version is %s", got)
			}
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: toolserver.GetCustomer, Arguments: map[string]any{"id": "c-9"}})
			if err != nil || res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "c-9") {
				t.Errorf("%v %+v", err, res)
			}
		})
	}
}
