package agentrun

import (
	"encoding/json"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
)

// theContract is that of each tool of these tests.
func theContract(t *testing.T, tool string) (c contract.ToolContract, digest string) {
	t.Helper()
	c = contract.ToolContract{Name: tool, Description: "Does " + tool + ".", Schema: json.RawMessage(`{"type":"object"}`)}
	_, digest, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return c, digest
}

// TestWhatOfAToolServerMayChange under a revision that was compiled before: whatever lets a call be made that the platform
// would now judge, repeat, show or send otherwise may not.
func TestWhatOfAToolServerMayChange(t *testing.T) {
	t.Parallel()
	type change func(*v1alpha1.ToolServerSpec)
	const uses = ": use a revision that was compiled since, or correct the definition if its newest edit does not compile"
	declared := func(f func(*v1alpha1.ToolDeclaration)) change {
		return func(s *v1alpha1.ToolServerSpec) { f(&s.Tools[0]) }
	}
	written := func(f func(*v1alpha1.HTTPTool)) change {
		return func(s *v1alpha1.ToolServerSpec) { f(&s.HTTP.Tools[0]) }
	}
	api := func() *v1alpha1.ToolServer {
		search, other := given.HTTPTool("search", "POST", "/search/{id}"), given.HTTPTool("other", "GET", "/other")
		search.Query = []string{"page", "size"}
		return given.HTTPServer(namespace, "http://127.0.0.1/tools", []v1alpha1.HTTPTool{search, other})
	}
	protocol := func() *v1alpha1.ToolServer { return given.MCPServer(namespace, "http://127.0.0.1/tools") }
	tests := map[string]struct {
		server func() *v1alpha1.ToolServer // api if nil
		given  change
		want   string // of the message; empty if the run is admitted
	}{
		"nothing":                        {given: func(*v1alpha1.ToolServerSpec) {}},
		"nothing, of a protocol":         {server: protocol, given: func(*v1alpha1.ToolServerSpec) {}},
		"its release":                    {given: func(s *v1alpha1.ToolServerSpec) { s.Release = "2" }},
		"how long and how large":         {given: declared(func(d *v1alpha1.ToolDeclaration) { d.TimeoutSeconds, d.MaxResultBytes = 5, 512 })},
		"the model's name for it":        {given: declared(func(d *v1alpha1.ToolDeclaration) { d.As = "find" })},
		"a default that is spelled out":  {given: declared(func(d *v1alpha1.ToolDeclaration) { d.Show = v1alpha1.ShowArguments })},
		"a body that is spelled out":     {given: written(func(h *v1alpha1.HTTPTool) { h.Body = v1alpha1.HTTPBodyRest })},
		"the order of the query":         {given: written(func(h *v1alpha1.HTTPTool) { h.Query = []string{"size", "page"} })},
		"a tool that the agent does not": {given: func(s *v1alpha1.ToolServerSpec) { s.HTTP.Tools = s.HTTP.Tools[:1] }},
		"the effect of such a tool": {given: func(s *v1alpha1.ToolServerSpec) {
			s.Tools = append(s.Tools, v1alpha1.ToolDeclaration{Name: "other", Effect: v1alpha1.EffectSend})
		}},

		"a pinned revision does not keep an effect that the platform corrected": {
			given: declared(func(d *v1alpha1.ToolDeclaration) { d.Effect = v1alpha1.EffectSend }),
			want:  `the effect of tool "search" of ToolServer "crm" (spec.tools) is Send, and revision "REVISION" was compiled with Read` + uses,
		},
		"nor of a tool of a protocol": {
			server: protocol, given: declared(func(d *v1alpha1.ToolDeclaration) { d.Effect = v1alpha1.EffectSend }),
			want: `the effect of tool "search" of ToolServer "crm" (spec.tools) is Send`,
		},
		"nor one that it no longer declares": {
			server: protocol, given: func(s *v1alpha1.ToolServerSpec) { s.Tools = nil },
			want: `the effect of tool "search" of ToolServer "crm" (spec.tools) is Write, and revision "REVISION" was compiled with Read`,
		},
		"a pinned revision does not keep an idempotency that the platform corrected": {
			given: declared(func(d *v1alpha1.ToolDeclaration) { d.Idempotency = v1alpha1.IdempotencyNone }),
			want:  `the idempotency of tool "search" of ToolServer "crm" (spec.tools) is None, and revision "REVISION" was compiled with Key` + uses,
		},
		"a pinned revision does not show what the platform has hidden": {
			given: declared(func(d *v1alpha1.ToolDeclaration) { d.Show = v1alpha1.ShowDigest }),
			want:  `the show of tool "search" of ToolServer "crm" (spec.tools) is Digest, and revision "REVISION" was compiled with Arguments` + uses,
		},
		"an HTTP tool that is gone": {
			given: func(s *v1alpha1.ToolServerSpec) { s.HTTP.Tools = s.HTTP.Tools[1:] },
			want:  `ToolServer "crm" no longer has the tool "search" (spec.http.tools), with which revision "REVISION" was compiled` + uses,
		},
		"an HTTP tool that is made with another method": {
			given: written(func(h *v1alpha1.HTTPTool) { h.Method = "PUT" }),
			want:  `the method of tool "search" of ToolServer "crm" (spec.http.tools) is not what revision "REVISION" was compiled with` + uses,
		},
		"an HTTP tool that leads elsewhere": {
			given: written(func(h *v1alpha1.HTTPTool) { h.Path = "/v2/search/{id}" }),
			want:  `the path of tool "search" of ToolServer "crm" (spec.http.tools) is not`,
		},
		"an HTTP tool that asks otherwise": {
			given: written(func(h *v1alpha1.HTTPTool) { h.Query = h.Query[:1] }),
			want:  `the query of tool "search" of ToolServer "crm" (spec.http.tools) is not`,
		},
		"an HTTP tool that sends no body": {
			given: written(func(h *v1alpha1.HTTPTool) { h.Body = v1alpha1.HTTPBodyNone }),
			want:  `the body of tool "search" of ToolServer "crm" (spec.http.tools) is not`,
		},
		"where it is": {given: func(s *v1alpha1.ToolServerSpec) { s.HTTP.URL += "/v2" }, want: `spec.http.url of ToolServer "crm" is not what revision "REVISION" was compiled with` + uses},
		"where it is, of a protocol": {
			server: protocol, given: func(s *v1alpha1.ToolServerSpec) { s.MCP.URL += "/v2" }, want: `spec.mcp.url of ToolServer "crm" is not`,
		},
		"its key":             {given: func(s *v1alpha1.ToolServerSpec) { s.Credentials.SecretRef.Name = "other" }, want: `spec.credentials of ToolServer "crm" is not`},
		"whom it trusts":      {given: func(s *v1alpha1.ToolServerSpec) { s.TLS.CABundle.ConfigMap.Name = "ca" }, want: `spec.tls of ToolServer "crm" is not`},
		"the proxy before it": {given: func(s *v1alpha1.ToolServerSpec) { s.Proxy.URL = "http://proxy:3128" }, want: `spec.proxy of ToolServer "crm" is not`},
		"its ranges":          {given: func(s *v1alpha1.ToolServerSpec) { s.Egress.Allow = nil }, want: `spec.egress of ToolServer "crm" is not`},
		"how it is spoken to": {
			given: func(s *v1alpha1.ToolServerSpec) {
				s.Type, s.MCP.URL, s.HTTP = v1alpha1.ToolServerMCP, s.HTTP.URL, v1alpha1.HTTPServer{}
			},
			want: `spec.type of ToolServer "crm" is not`,
		},
	}
	for name, tc := range tests {
		for which, pin := range map[string]bool{"pinned": true, "the last good": false} {
			t.Run(name+"/"+which, func(t *testing.T) {
				t.Parallel()
				build := tc.server
				if build == nil {
					build = api
				}
				server := build()
				server.UID, server.Generation = "crm-uid", 1
				server.Spec.Tools = []v1alpha1.ToolDeclaration{{Name: "search", Effect: v1alpha1.EffectRead, Idempotency: v1alpha1.IdempotencyKey}}
				known, digest := theContract(t, "search")
				server.Status = v1alpha1.ToolServerStatus{
					DiscoveredGeneration: 1, Tools: []v1alpha1.DiscoveredTool{{Name: "search", Digest: digest}},
					Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1}},
				}
				def, endpoint := given.Definition(namespace, given.Uses(given.Tools, "search")), given.Endpoint(namespace, "http://127.0.0.1/v1")
				def.UID, def.Generation = "definition", 1
				revision, problem := compile.Agent(def, endpoint, map[string]*v1alpha1.ToolServer{given.Tools: server})
				if problem != nil {
					t.Fatal(problem.Message)
				}
				def.Status = v1alpha1.AgentDefinitionStatus{ObservedGeneration: 1, CurrentRevision: revision.Name}
				tc.given(&server.Spec)
				run := theRun(func(r *v1alpha1.AgentRun) {
					if pin {
						r.Spec.DefinitionRef.Revision = revision.Name
					}
				})
				w := newWorld(t, []client.Object{def, revision, endpoint, server, run}...)
				w.ok(w.ledger.KeepContracts(t.Context(), teamUID, server.UID, 1, []contract.ToolContract{known}))

				w.reconcile()
				if tc.want != "" {
					w.want(v1alpha1.RunQueued, v1alpha1.ReasonDefinitionNotReady, strings.ReplaceAll(tc.want, "REVISION", revision.Name))
				}
				if admitted := len(w.admitted) == 1; admitted != (tc.want == "") {
					t.Errorf("admitted: %v; it says %+v", admitted, w.run().Status.Conditions)
				}
			})
		}
	}
}

// TestInputsThatTwoReadersMayReadDifferently are refused, and the run says why.
func TestInputsThatTwoReadersMayReadDifferently(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ given, want string }{
		"a key twice":                {`{"amount":1,"amount":1000}`, `spec.input.json: not a usable JSON value: the key "amount" stands twice in one object`},
		"a key twice, deep inside":   {`[{"a":{"b":1,"b":2}}]`, `the key "b" stands twice in one object`},
		"a value and another":        {`{"a":1} {"a":2}`, `something follows the value`},
		"a value and more":           {`"a"b`, `something follows the value`},
		"deeper than a reader looks": {strings.Repeat("[", 66) + strings.Repeat("]", 66), `it is nested deeper than 64`},
		"a beginning":                {`{"a":`, `spec.input.json: not a usable JSON value`},
		"nothing":                    {``, `spec.input.json: not a usable JSON value`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o observation
			text, err := (&Reconciler{}).task(t.Context(), asking(tc.given), &o)
			if text != "" || err != nil || o.Refused == nil {
				t.Fatalf("got %q, %v, %+v", text, err, o.Refused)
			}
			if o.Refused.Code != v1alpha1.ReasonInputInvalid || !strings.Contains(o.Refused.Message, tc.want) {
				t.Errorf("it is refused as %s: %s", o.Refused.Code, o.Refused.Message)
			}
		})
	}
}

// asking is a run whose input is a JSON value as it is written.
func asking(raw string) *v1alpha1.AgentRun {
	return theRun(func(r *v1alpha1.AgentRun) {
		r.Spec.Input = v1alpha1.RunInput{JSON: &apiextensionsv1.JSON{Raw: []byte(raw)}}
	})
}
