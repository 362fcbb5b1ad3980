package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/tool"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

func discovery(s *toolserver.Server) contract.Discovery {
	return contract.Discovery{NamespaceUID: "n", Generation: 3, Server: v1alpha1.CompiledServer{
		Name: "crm", UID: "u", Type: v1alpha1.ToolServerMCP, URL: s.URL + "/mcp", Egress: v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}},
		Credentials: v1alpha1.Credentials{SecretRef: v1alpha1.KeyReference{Name: "crm-key", Key: "token"}},
	}}
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	want := []contract.ToolContract{
		{Name: toolserver.GetCustomer, Description: toolserver.Descriptions[toolserver.GetCustomer], Schema: canonical(toolserver.CustomerSchema)},
		{Name: toolserver.Refund, Description: toolserver.Descriptions[toolserver.Refund], Schema: canonical(toolserver.RefundSchema)},
	}
	for name, o := range map[string]toolserver.Options{
		"a server with sessions":           {},
		"a server without sessions":        {Stateless: true},
		"a server that answers in JSON":    {JSON: true},
		"a server with pages":              {PageSize: 1},
		"a server with pages and no state": {PageSize: 1, Stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.RequireKey = secret
			got, warnings, err := tool.Discover(t.Context(), discovery(toolserver.Start(t, o)), secret, nil)
			if diff := cmp.Diff(want, got); diff != "" || err != nil || warnings != nil {
				t.Error(err, warnings, diff)
			}
			for i, c := range got {
				if _, d, err := c.Encode(); err != nil || d != digest(want[i].Name) {
					t.Errorf("the digest of %s is %s, %v", c.Name, d, err)
				}
			}
		})
	}
}

func canonical(s string) json.RawMessage {
	b, err := contract.Canonical([]byte(s))
	if err != nil {
		panic(err) // of constants
	}
	return b
}

func TestDiscoverFails(t *testing.T) {
	t.Parallel()
	type given struct {
		srv *toolserver.Server
		d   contract.Discovery
	}
	listing := func(tools ...any) func(*given) {
		return func(g *given) { g.srv.List(func(string) ([]any, string) { return tools, "" }) }
	}
	one := func(name string) any {
		return map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}
	}
	rows := map[string]struct {
		given func(*given)
		want  contract.FaultCode
		says  string
	}{
		"a server that does not listen":      {func(g *given) { g.srv.Quit() }, contract.FaultUnreachable, "the server refused the connection"},
		"an address that may not be dialled": {func(g *given) { g.d.Server.Egress = v1alpha1.Egress{} }, contract.FaultUnreachable, "the platform does not let this server be dialled"},
		"a key that is not accepted":         {func(g *given) { g.d.Server.Credentials.Prefix = "Basic " }, contract.FaultUnreachable, "does not accept the key that it was given (401"},
		"a URL that is no MCP endpoint":      {func(g *given) { g.d.Server.URL = g.srv.URL + "/counts" }, contract.FaultUnreachable, "405 Method Not Allowed"},
		"two tools of one name":              {listing(one("a"), one("a")), contract.FaultUnusable, `two tools of the name "a"`},
		"no tools":                           {listing(), contract.FaultUnusable, "the server offers no tool that can be used"},
		"too many tools":                     {func(g *given) { g.srv.Offer(127) }, contract.FaultUnusable, "more than 128 tools"},
		"a list without an end":              {func(g *given) { g.srv.List(func(string) ([]any, string) { return []any{}, "again" }) }, contract.FaultUnusable, "more than 32 pages"},
		"a server of another kind":           {func(g *given) { g.d.Server.Type = v1alpha1.ToolServerHTTP }, contract.FaultUnusable, "only tools of MCP servers are discovered"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := given{srv: toolserver.Start(t, toolserver.Options{RequireKey: secret})}
			g.d = discovery(g.srv)
			row.given(&g)
			tools, _, err := tool.Discover(t.Context(), g.d, secret, nil)
			var fault *segment.FaultError
			if !errors.As(err, &fault) || fault.Code != row.want || !strings.Contains(fault.Message, row.says) || tools != nil {
				t.Errorf("got %v", err)
			}
			if strings.Contains(fmt.Sprint(err), secret) || strings.Contains(fmt.Sprint(err), "dial tcp") {
				t.Errorf("it says too much: %v", err)
			}
		})
	}
}

func TestToolsThatCannotBeUsedAreLeftOut(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		given map[string]any
		want  string
	}{
		"a name that is too long":       {map[string]any{"name": strings.Repeat("x", 129)}, "its name is longer than 128 bytes"},
		"no name":                       {map[string]any{"name": ""}, "it has no name"},
		"a name that turns its end":     {map[string]any{"name": "refund\u202edaer"}, "its name holds what a screen does not show"},
		"a name with a sequence":        {map[string]any{"name": "get\u001b[2J"}, "its name holds what a screen does not show"},
		"a name with a hidden joiner":   {map[string]any{"name": "re\u200bfund"}, "its name holds what a screen does not show"},
		"a schema that is none":         {map[string]any{"name": "a", "inputSchema": []any{}}, "its schema is no object"},
		"no schema":                     {map[string]any{"name": "a", "inputSchema": nil}, "its schema is no object"},
		"a schema of no object":         {map[string]any{"name": "a", "inputSchema": map[string]any{"type": "string"}}, "its schema cannot be used"},
		"a schema that reaches outside": {map[string]any{"name": "a", "inputSchema": map[string]any{"type": "object", "$ref": "file:///etc/passwd"}}, "its schema cannot be used"},
		"a NUL in a schema":             {map[string]any{"name": "a", "inputSchema": map[string]any{"type": "object", "title": "\x00"}}, "its schema holds a NUL"},
		"a contract that is too large":  {map[string]any{"name": "a", "description": strings.Repeat("d", 70_000)}, "and at most 65536 are taken"},
		"a name that repeats the key":   {map[string]any{"name": secret, "inputSchema": []any{}}, `tool "[redacted]" is left out`},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := toolserver.Start(t, toolserver.Options{})
			if _, ok := row.given["inputSchema"]; !ok {
				row.given["inputSchema"] = map[string]any{"type": "object"}
			}
			good := map[string]any{"name": "good", "description": "a\x00b", "inputSchema": map[string]any{"type": "object"}}
			srv.List(func(string) ([]any, string) { return []any{row.given, good}, "" })
			got, warnings, err := tool.Discover(t.Context(), discovery(srv), secret, nil)
			if diff := cmp.Diff([]contract.ToolContract{{Name: "good", Description: "a\uFFFDb", Schema: json.RawMessage(`{"type":"object"}`)}}, got); diff != "" || err != nil {
				t.Error(err, diff)
			}
			if len(warnings) != 1 || !strings.Contains(warnings[0], row.want) {
				t.Errorf("it warned %q", warnings)
			}
		})
	}
}
