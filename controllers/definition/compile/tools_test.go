package compile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
)

// digestOf is a digest that differs from tool to tool.
func digestOf(tool string) string { return "digest of " + tool }

// crm is an HTTP server whose tools are known.
func crm(change ...func(*v1alpha1.ToolServer)) *v1alpha1.ToolServer {
	s := known("crm", "get", "add")
	s.Spec.Type = v1alpha1.ToolServerHTTP
	s.Spec.MCP = v1alpha1.MCPServer{}
	s.Spec.HTTP = v1alpha1.HTTPServer{URL: "https://crm.example", Tools: []v1alpha1.HTTPTool{
		{Name: "get", Method: "GET", Path: "/c/{id}", Query: []string{"expand"}},
		{Name: "add", Method: "POST", Path: "/c"},
	}}
	for _, c := range change {
		c(s)
	}
	return s
}

// known is an MCP server whose tools are known.
func known(name string, tools ...string) *v1alpha1.ToolServer {
	s := &v1alpha1.ToolServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "uid-of-crm", Generation: 2},
		Spec:       v1alpha1.ToolServerSpec{Type: v1alpha1.ToolServerMCP, MCP: v1alpha1.MCPServer{URL: "http://" + name + ".example/mcp"}},
	}
	for _, t := range tools {
		s.Status.Tools = append(s.Status.Tools, v1alpha1.DiscoveredTool{Name: t, Digest: digestOf(t), Effect: v1alpha1.EffectWrite})
	}
	s.Status.ObservedGeneration, s.Status.DiscoveredGeneration = 2, 2
	return ready(s, metav1.ConditionTrue, v1alpha1.ReasonDiscovered, "")
}

func ready(s *v1alpha1.ToolServer, status metav1.ConditionStatus, reason, message string) *v1alpha1.ToolServer {
	s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: s.Generation}}
	return s
}

// probed is a server whose tool send has a probe that asks another of its tools.
func probed(asks string, change func(*v1alpha1.Probe)) *v1alpha1.ToolServer {
	s := known("mail", "send", "sent", "other")
	p := v1alpha1.Probe{Tool: asks, Arguments: "{'key': key}", Happened: "answer.found"}
	if change != nil {
		change(&p)
	}
	s.Spec.Tools = []v1alpha1.ToolDeclaration{{Name: "send", Probe: p}, {Name: "sent", Effect: v1alpha1.EffectRead, TimeoutSeconds: 7}}
	return s
}

func selects(server string, tools ...string) v1alpha1.ToolSelection {
	return v1alpha1.ToolSelection{ServerRef: v1alpha1.LocalReference{Name: server}, Names: tools}
}

func guarded(s v1alpha1.ToolSelection) v1alpha1.ToolSelection {
	s.Approval = v1alpha1.ToolApprovalRequired
	return s
}

// plain is a tool of which nothing is declared.
func plain(server, tool string, change ...func(*v1alpha1.CompiledTool)) v1alpha1.CompiledTool {
	t := v1alpha1.CompiledTool{
		Name: server + "__" + tool, Server: server, Tool: tool, Digest: digestOf(tool), Effect: v1alpha1.EffectWrite,
		Idempotency: v1alpha1.IdempotencyNone, Show: v1alpha1.ShowArguments, TimeoutSeconds: 60, MaxResultBytes: 65536,
	}
	for _, c := range change {
		c(&t)
	}
	return t
}

func compiled(t *testing.T, servers []*v1alpha1.ToolServer, tools ...v1alpha1.ToolSelection) (v1alpha1.CompiledAgent, string, *Problem) {
	t.Helper()
	def := theDefinition(func(d *v1alpha1.AgentDefinition) { d.Spec.Tools = tools })
	byName := map[string]*v1alpha1.ToolServer{}
	for _, s := range servers {
		byName[s.Name] = s
	}
	r, p := Agent(def, given.Endpoint("team", url), byName)
	if p != nil {
		return v1alpha1.CompiledAgent{}, "", p
	}
	return r.Spec.Agent, r.Spec.Digest, nil
}

func TestTools(t *testing.T) {
	t.Parallel()
	request := func(method v1alpha1.HTTPMethod, path string, body v1alpha1.HTTPBody, query ...string) func(*v1alpha1.CompiledTool) {
		return func(c *v1alpha1.CompiledTool) {
			c.HTTP = v1alpha1.CompiledRequest{Method: method, Path: path, Query: query, Body: body}
		}
	}
	approval := func(c *v1alpha1.CompiledTool) { c.Approval = v1alpha1.ToolApprovalRequired }
	mail := Server(known("mail"))
	tests := map[string]struct {
		servers []*v1alpha1.ToolServer
		tools   []v1alpha1.ToolSelection
		want    []v1alpha1.CompiledServer
		tool    []v1alpha1.CompiledTool
	}{
		"a server of which nothing is taken is none of the agent's": {servers: []*v1alpha1.ToolServer{known("mail", "send")}},
		"what is not declared is filled in": {
			servers: []*v1alpha1.ToolServer{known("mail", "send")}, tools: []v1alpha1.ToolSelection{selects("mail", "send")},
			want: []v1alpha1.CompiledServer{mail}, tool: []v1alpha1.CompiledTool{plain("mail", "send")},
		},
		"what is declared stays": {
			servers: []*v1alpha1.ToolServer{func() *v1alpha1.ToolServer {
				s := known("mail", "send")
				s.Spec.Tools = []v1alpha1.ToolDeclaration{{Name: "other", Effect: v1alpha1.EffectRead}, {
					Name: "send", Effect: v1alpha1.EffectSend, Idempotency: v1alpha1.IdempotencyKey, Show: v1alpha1.ShowDigest, As: "post", TimeoutSeconds: 5, MaxResultBytes: 256,
				}}
				return s
			}()},
			tools: []v1alpha1.ToolSelection{selects("mail", "send")}, want: []v1alpha1.CompiledServer{mail},
			tool: []v1alpha1.CompiledTool{plain("mail", "send", func(c *v1alpha1.CompiledTool) {
				c.Name, c.Effect, c.Idempotency, c.Show, c.TimeoutSeconds, c.MaxResultBytes = "post", v1alpha1.EffectSend, v1alpha1.IdempotencyKey, v1alpha1.ShowDigest, 5, 256
			})},
		},
		"a probe is pinned like a tool": {
			servers: []*v1alpha1.ToolServer{probed("sent", nil)}, tools: []v1alpha1.ToolSelection{selects("mail", "send")}, want: []v1alpha1.CompiledServer{mail},
			tool: []v1alpha1.CompiledTool{plain("mail", "send", func(c *v1alpha1.CompiledTool) {
				c.Probe = v1alpha1.CompiledProbe{
					Tool: "sent", Digest: digestOf("sent"), Arguments: "{'key': key}", Happened: "answer.found", TimeoutSeconds: 7, MaxResultBytes: 65536,
				}
			})},
		},
		"servers and tools in the order of their names": {
			servers: []*v1alpha1.ToolServer{known("mail", "b", "a"), crm()},
			tools:   []v1alpha1.ToolSelection{selects("mail", "b"), selects("crm", "get", "add"), selects("mail", "a")},
			want:    []v1alpha1.CompiledServer{Server(crm()), mail},
			tool: []v1alpha1.CompiledTool{
				plain("crm", "add", request("POST", "/c", v1alpha1.HTTPBodyRest)),
				plain("crm", "get", request("GET", "/c/{id}", v1alpha1.HTTPBodyNone, "expand")),
				plain("mail", "a"), plain("mail", "b"),
			},
		},
		"a body that is said stays": {
			servers: []*v1alpha1.ToolServer{crm(func(s *v1alpha1.ToolServer) { s.Spec.HTTP.Tools[1].Body = v1alpha1.HTTPBodyNone })},
			tools:   []v1alpha1.ToolSelection{selects("crm", "add")}, want: []v1alpha1.CompiledServer{Server(crm())},
			tool: []v1alpha1.CompiledTool{plain("crm", "add", request("POST", "/c", v1alpha1.HTTPBodyNone))},
		},
		"a tool that is named twice is one, and an approval counts": {
			servers: []*v1alpha1.ToolServer{known("mail", "a", "b")},
			tools:   []v1alpha1.ToolSelection{guarded(selects("mail", "a")), selects("mail", "a", "b"), guarded(selects("mail", "b"))},
			want:    []v1alpha1.CompiledServer{mail},
			tool:    []v1alpha1.CompiledTool{plain("mail", "a", approval), plain("mail", "b", approval)},
		},
		"letters that no model takes": {
			servers: []*v1alpha1.ToolServer{known("mail", "a.b/é")}, tools: []v1alpha1.ToolSelection{selects("mail", "a.b/é")},
			want: []v1alpha1.CompiledServer{mail},
			tool: []v1alpha1.CompiledTool{plain("mail", "a.b/é", func(c *v1alpha1.CompiledTool) { c.Name = "mail__a_b__" })},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, p := compiled(t, tc.servers, tc.tools...)
			if p != nil {
				t.Fatal(p)
			}
			if diff := cmp.Diff(tc.want, got.Servers); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.tool, got.Tools); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
		})
	}
}

func TestToolsThatDoNotCompile(t *testing.T) {
	t.Parallel()
	lots := func(server string, n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("%s-%02d", server, i))
		}
		return names
	}
	renamed := func(server, tool, as string) *v1alpha1.ToolServer {
		s := known(server, tool)
		s.Spec.Tools = []v1alpha1.ToolDeclaration{{Name: tool, As: as}}
		return s
	}
	older := known("mail", "send")
	older.Generation = 3
	behind := known("mail", "send")
	behind.Status.DiscoveredGeneration = 1
	tests := map[string]struct {
		servers []*v1alpha1.ToolServer
		tools   []v1alpha1.ToolSelection
		want    Problem
	}{
		"there is no such server": {
			servers: []*v1alpha1.ToolServer{crm()}, tools: []v1alpha1.ToolSelection{selects("crm", "get"), selects("mail", "send")},
			want: Problem{v1alpha1.ReasonToolServerNotFound, `spec.tools[1].serverRef.name: there is no ToolServer "mail" in this namespace: apply it, or correct the name`},
		},
		"a server that nobody has looked at": {
			servers: []*v1alpha1.ToolServer{{ObjectMeta: metav1.ObjectMeta{Name: "mail"}}}, tools: []v1alpha1.ToolSelection{selects("mail", "send")},
			want: Problem{v1alpha1.ReasonToolServerNotReady, `spec.tools[0].serverRef.name: ToolServer "mail" has not been looked at yet since its newest edit`},
		},
		"a server that was edited since": {
			servers: []*v1alpha1.ToolServer{older}, tools: []v1alpha1.ToolSelection{selects("mail", "send")},
			want: Problem{v1alpha1.ReasonToolServerNotReady, `spec.tools[0].serverRef.name: ToolServer "mail" has not been looked at yet since its newest edit`},
		},
		"a server that is not ready says why itself": {
			servers: []*v1alpha1.ToolServer{ready(known("mail", "send"), metav1.ConditionFalse, v1alpha1.ReasonDiscoveryFailed, "it is down")},
			tools:   []v1alpha1.ToolSelection{selects("mail", "send")},
			want:    Problem{v1alpha1.ReasonToolServerNotReady, `spec.tools[0].serverRef.name: ToolServer "mail" is not ready: DiscoveryFailed: it is down`},
		},
		"a server whose tools are of an earlier edit": {
			servers: []*v1alpha1.ToolServer{behind}, tools: []v1alpha1.ToolSelection{selects("mail", "send")},
			want: Problem{v1alpha1.ReasonToolServerNotReady, `spec.tools[0].serverRef.name: ToolServer "mail" is not ready: Discovered: `},
		},
		"an address range is none": {
			servers: []*v1alpha1.ToolServer{crm(func(s *v1alpha1.ToolServer) { s.Spec.Egress.Allow = []string{"10.0.0.1"} })},
			tools:   []v1alpha1.ToolSelection{selects("crm", "get")},
			want:    Problem{v1alpha1.ReasonInvalid, `ToolServer "crm": spec.egress.allow: netip.ParsePrefix("10.0.0.1"): no '/'`},
		},
		"a tool that few are offered beside": {
			servers: []*v1alpha1.ToolServer{known("mail", "list", "sent")}, tools: []v1alpha1.ToolSelection{selects("mail", "send")},
			want: Problem{v1alpha1.ReasonToolNotFound, `spec.tools[0].names: ToolServer "mail" offers no tool "send". It offers sent, list. Correct the name, or change spec.release of the ToolServer if the tool is new there`},
		},
		"a tool that many are offered beside": {
			servers: []*v1alpha1.ToolServer{known("mail", append(lots("x", 40), "sned", "sendmail")...)}, tools: []v1alpha1.ToolSelection{selects("mail", "send")},
			want: Problem{v1alpha1.ReasonToolNotFound, `spec.tools[0].names: ToolServer "mail" offers no tool "send". Of the 42 it offers, the nearest are sned, sendmail, x-00, x-01, x-02, x-03, x-04, x-05. Correct the name, or change spec.release of the ToolServer if the tool is new there`},
		},
		"two tools that are given one name": {
			servers: []*v1alpha1.ToolServer{renamed("crm", "add", "note"), renamed("mail", "send", "note")},
			tools:   []v1alpha1.ToolSelection{selects("mail", "send"), selects("crm", "add")},
			want:    Problem{v1alpha1.ReasonToolNameTaken, `spec.tools: tool "add" of ToolServer "crm" and tool "send" of ToolServer "mail" would both be note for the model: give one of them another name with as in spec.tools of its ToolServer`},
		},
		"two tools that differ in what no model takes": {
			servers: []*v1alpha1.ToolServer{known("mail", "a.b", "a/b")}, tools: []v1alpha1.ToolSelection{selects("mail", "a/b", "a.b")},
			want: Problem{v1alpha1.ReasonToolNameTaken, `spec.tools: tool "a.b" of ToolServer "mail" and tool "a/b" of ToolServer "mail" would both be mail__a_b for the model: give one of them another name with as in spec.tools of its ToolServer`},
		},
		"a probe that asks a tool which is not there": {
			servers: []*v1alpha1.ToolServer{probed("find", nil)}, tools: []v1alpha1.ToolSelection{selects("mail", "send")},
			want: Problem{v1alpha1.ReasonInvalid, `ToolServer "mail": the probe of tool "send" (spec.tools): the server has no tool "find": correct the name, or change spec.release to have its tools discovered again`},
		},
		"a probe that asks a tool which does more than read": {
			servers: []*v1alpha1.ToolServer{probed("other", nil)}, tools: []v1alpha1.ToolSelection{selects("mail", "send")},
			want: Problem{v1alpha1.ReasonInvalid, `ToolServer "mail": the probe of tool "send" (spec.tools): tool "other" has the effect Write, and what is asked must only read: declare it with effect: Read, or name another`},
		},
		"a probe whose arguments are no object": {
			servers: []*v1alpha1.ToolServer{probed("sent", func(p *v1alpha1.Probe) { p.Arguments = "key" })}, tools: []v1alpha1.ToolSelection{selects("mail", "send")},
			want: Problem{v1alpha1.ReasonInvalid, `ToolServer "mail": the probe of tool "send" (spec.tools): arguments: the expression does not compile: it is of type string and must be of type map(string, dyn)`},
		},
		"a probe whose answer is read by something that is not there": {
			servers: []*v1alpha1.ToolServer{probed("sent", func(p *v1alpha1.Probe) { p.Happened = "args.found" })}, tools: []v1alpha1.ToolSelection{selects("mail", "send")},
			want: Problem{v1alpha1.ReasonInvalid, `ToolServer "mail": the probe of tool "send" (spec.tools): happened: the expression does not compile: at column 1, undeclared reference to 'args' (in container '')`},
		},
		"more tools than an agent has": {
			servers: []*v1alpha1.ToolServer{known("a", lots("a", 64)...), known("b", lots("b", 64)...), known("c", "c")},
			tools:   []v1alpha1.ToolSelection{selects("a", lots("a", 64)...), selects("b", lots("b", 64)...), selects("c", "c")},
			want:    Problem{v1alpha1.ReasonInvalid, "spec.tools: 129 tools are named, an agent has at most 128: leave some out"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, p := compiled(t, tc.servers, tc.tools...)
			if diff := cmp.Diff(&tc.want, p); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneSelectionHasOneDigest: what a definition says in another order, or twice, is the same agent.
func TestOneSelectionHasOneDigest(t *testing.T) {
	t.Parallel()
	servers := []*v1alpha1.ToolServer{crm(), known("mail", "a", "b", "c"), known("files", "x")}
	_, want, _ := compiled(t, servers, selects("crm", "get", "add"), selects("mail", "a", "b"), selects("files", "x"))
	for range 20 { // maps are walked in another order each time
		_, got, _ := compiled(t, servers, selects("files", "x"), selects("mail", "b"), selects("mail", "a", "b"), selects("crm", "add"), selects("crm", "get"))
		if got != want {
			t.Fatal("another digest")
		}
	}
}

// TestARevisionSharesNothingWithTheCache changes what was compiled.
func TestARevisionSharesNothingWithTheCache(t *testing.T) {
	t.Parallel()
	server := crm(func(s *v1alpha1.ToolServer) {
		s.Spec.Headers = []v1alpha1.Header{{Name: "X-Team", Value: "support"}}
		s.Spec.Egress.Allow = []string{"10.0.0.0/8"}
	})
	before := server.DeepCopy()
	got, _, p := compiled(t, []*v1alpha1.ToolServer{server}, selects("crm", "get"))
	if p != nil {
		t.Fatal(p)
	}
	got.Servers[0].Headers[0].Value, got.Servers[0].Egress.Allow[0], got.Tools[0].HTTP.Query[0] = "x", "x", "x"
	if diff := cmp.Diff(before, server); diff != "" {
		t.Errorf("the server was changed:\n%s", diff)
	}
}

func TestToolName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60)
	tests := map[string]struct{ server, tool, want string }{
		"server and tool":                {"crm", "get_customer", "crm__get_customer"},
		"dots and all else are replaced": {"crm.eu", "get customer/√", "crm_eu__get_customer__"},
		"64 letters stay":                {"cr", long, "cr__" + long},
		"more are cut and told apart":    {"crm", long, "crm__" + strings.Repeat("x", 52) + "_b1fae0"},
		"from their neighbours":          {"crm", long + "y", "crm__" + strings.Repeat("x", 52) + "_c2b26b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ToolName(tc.server, tc.tool)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ToolName() (-want +got):\n%s", diff)
			}
			if len(got) > 64 {
				t.Errorf("%d letters", len(got))
			}
		})
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"send", "send", 0}, {"send", "sent", 1}, {"send", "sned", 2}, {"kitten", "sitting", 3}} {
		if got, back := distance(tc.a, tc.b), distance(tc.b, tc.a); got != tc.want || back != tc.want {
			t.Errorf("between %q and %q: %d and %d, want %d", tc.a, tc.b, got, back, tc.want)
		}
	}
}
