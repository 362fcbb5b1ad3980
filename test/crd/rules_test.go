package crd

import (
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rules are those of CEL that look at one object. Empty words mean accepted.
var rules = map[string]struct {
	kind  string
	edits []edit
	words []string
}{
	"an input of words is accepted":     {kind: "AgentRun", edits: input(map[string]any{"text": "Hello."})},
	"an input of a JSON object":         {kind: "AgentRun", edits: input(map[string]any{"json": map[string]any{"a": int64(1)}})},
	"an input of a JSON string":         {kind: "AgentRun", edits: input(map[string]any{"json": "word"})},
	"an input of a JSON list":           {kind: "AgentRun", edits: input(map[string]any{"json": []any{int64(1), "b", nil}})},
	"an input of JSON false":            {kind: "AgentRun", edits: input(map[string]any{"json": false})},
	"an input from a ConfigMap":         {kind: "AgentRun", edits: input(map[string]any{"from": map[string]any{"configMap": map[string]any{"name": "a", "key": "b"}}})},
	"no input at all is refused":        {kind: "AgentRun", edits: input(map[string]any{}), words: []string{"spec.input", "at least 1"}},
	"an input of JSON null is no input": {kind: "AgentRun", edits: input(map[string]any{"json": nil}), words: []string{"spec.input", "at least 1"}},
	"two inputs are refused":            {kind: "AgentRun", edits: input(map[string]any{"text": "a", "json": "b"}), words: []string{"spec.input", "at most 1"}},
	"32 KiB of plain text is accepted":  {kind: "AgentRun", edits: input(map[string]any{"text": strings.Repeat("x", 32<<10)})},
	"more than 32 KiB in bytes, although fewer in characters, is refused": {
		kind: "AgentRun", edits: input(map[string]any{"text": strings.Repeat("日", 11000)}),
		words: []string{"spec.input.text", "must have at most 32 KiB", "spec.input.from"},
	},
	"a field that does not exist is refused by strict clients": {
		kind: "AgentRun", edits: []edit{set("spec.inputs", "x")}, words: []string{"unknown field", "spec.inputs"},
	},

	"timers left out have defaults that fit":             {kind: "AgentDefinition", edits: []edit{without("spec.segment")}},
	"a soft timer just below the default hard one":       {kind: "AgentDefinition", edits: []edit{set("spec.segment", m{"softSeconds": int64(119)})}},
	"a soft timer equal to the default hard one":         {kind: "AgentDefinition", edits: []edit{set("spec.segment", m{"softSeconds": int64(120)})}, words: timers},
	"a hard timer just above the default soft one":       {kind: "AgentDefinition", edits: []edit{set("spec.segment", m{"hardSeconds": int64(91)})}},
	"a hard timer equal to the default soft one":         {kind: "AgentDefinition", edits: []edit{set("spec.segment", m{"hardSeconds": int64(90)})}, words: timers},
	"a soft timer below the hard one":                    {kind: "AgentDefinition", edits: []edit{set("spec.segment", m{"softSeconds": int64(1), "hardSeconds": int64(2)})}},
	"a soft timer above the hard one":                    {kind: "AgentDefinition", edits: []edit{set("spec.segment", m{"softSeconds": int64(3), "hardSeconds": int64(2)})}, words: timers},
	"a compiled agent whose soft timer is the hard one":  {kind: "DefinitionRevision", edits: []edit{set("spec.agent.segment", m{"softSeconds": int64(2), "hardSeconds": int64(2)})}, words: []string{"spec.agent.segment", "softSeconds (90 if unset)"}},
	"a policy named default":                             {kind: "AgentPolicy"},
	"a policy of another name, which would do nothing":   {kind: "AgentPolicy", edits: []edit{set("metadata.name", "mine")}, words: []string{"metadata.name must be default"}},
	"an endpoint without credentials, headers and price": {kind: "ModelEndpoint", edits: []edit{without("spec.credentials"), without("spec.headers"), without("spec.pricing"), without("spec.egress")}},

	"a URL with a port":                {kind: "ModelEndpoint", edits: url("http://127.0.0.1:8080/v1")},
	"a URL with an IPv6 address":       {kind: "ModelEndpoint", edits: url("http://[::1]:8080/v1")},
	"a URL without a path":             {kind: "ModelEndpoint", edits: url("https://llm.example")},
	"a URL of another scheme":          {kind: "ModelEndpoint", edits: url("ftp://llm.example/v1"), words: absolute},
	"a URL of a file":                  {kind: "ModelEndpoint", edits: url("file:///etc/passwd"), words: absolute},
	"a URL without a scheme":           {kind: "ModelEndpoint", edits: url("llm.example/v1"), words: absolute},
	"a URL without a host":             {kind: "ModelEndpoint", edits: url("https:///v1"), words: absolute},
	"a URL that is a path":             {kind: "ModelEndpoint", edits: url("/v1"), words: absolute},
	"words in place of a URL":          {kind: "ModelEndpoint", edits: url("not a url"), words: absolute},
	"a URL with a user":                {kind: "ModelEndpoint", edits: url("https://key@llm.example/v1"), words: bare},
	"a URL with a user and a password": {kind: "ModelEndpoint", edits: url("https://a:b@llm.example/v1"), words: bare},
	"a URL with a query":               {kind: "ModelEndpoint", edits: url("https://llm.example/v1?key=x"), words: bare},
	"a URL with an empty query":        {kind: "ModelEndpoint", edits: url("https://llm.example/v1?"), words: bare},
	"a URL with a fragment":            {kind: "ModelEndpoint", edits: url("https://llm.example/v1#x"), words: bare},
	"a compiled URL with a query":      {kind: "DefinitionRevision", edits: []edit{set("spec.agent.model.endpoint.url", "https://llm.example/v1?key=x")}, words: []string{"spec.agent.model.endpoint.url"}},

	"a header that carries credentials":                 {kind: "ModelEndpoint", edits: header("Authorization"), words: reserved},
	"a header that carries credentials, in small":       {kind: "ModelEndpoint", edits: header("authorization"), words: reserved},
	"a header that carries credentials to a proxy":      {kind: "ModelEndpoint", edits: header("Proxy-Authorization"), words: reserved},
	"a header that carries cookies":                     {kind: "ModelEndpoint", edits: header("COOKIE"), words: reserved},
	"a header that names the host":                      {kind: "ModelEndpoint", edits: header("Host"), words: reserved},
	"a header that frames the request by length":        {kind: "ModelEndpoint", edits: header("Content-Length"), words: reserved},
	"a header that frames the request by chunks":        {kind: "ModelEndpoint", edits: header("Transfer-Encoding"), words: reserved},
	"a header that names the type of content":           {kind: "ModelEndpoint", edits: header("Content-Type"), words: reserved},
	"a header that speaks of the connection":            {kind: "ModelEndpoint", edits: header("Connection"), words: reserved},
	"a header whose name only begins like one of these": {kind: "ModelEndpoint", edits: header("Host-Group")},

	"an address range":            {kind: "ModelEndpoint", edits: allow("192.168.0.0/16")},
	"a range of one address":      {kind: "ModelEndpoint", edits: allow("127.0.0.1/32")},
	"an IPv6 range":               {kind: "ModelEndpoint", edits: allow("fd00::/8")},
	"everything":                  {kind: "ModelEndpoint", edits: allow("0.0.0.0/0")},
	"an address without a length": {kind: "ModelEndpoint", edits: allow("10.0.0.1"), words: cidr},
	"a range that is too long":    {kind: "ModelEndpoint", edits: allow("10.0.0.0/33"), words: cidr},
	"a host name":                 {kind: "ModelEndpoint", edits: allow("llm.example"), words: cidr},
	"a range with a leading zero": {kind: "ModelEndpoint", edits: allow("010.0.0.0/8"), words: cidr},

	"a tool server of type MCP without an endpoint":       {kind: "ToolServer", edits: []edit{without("spec.mcp")}, words: []string{"spec", "a server of type MCP has mcp set and http unset"}},
	"a tool server of type MCP with an HTTP API besides":  {kind: "ToolServer", edits: []edit{set("spec.http", httpServer)}, words: []string{"spec", "a server of type MCP has mcp set and http unset"}},
	"a tool server of type HTTP without an API":           {kind: "ToolServer", edits: []edit{set("spec.type", "HTTP"), without("spec.mcp")}, words: []string{"spec", "a server of type HTTP has http set and mcp unset"}},
	"a tool server of type HTTP with an endpoint besides": {kind: "ToolServer", edits: []edit{set("spec.type", "HTTP"), set("spec.http", httpServer)}, words: []string{"spec", "a server of type HTTP has http set and mcp unset"}},
	"a tool server that says no more than where it is": {
		kind: "ToolServer", edits: []edit{without("spec.tools"), without("spec.credentials"), without("spec.headers"), without("spec.egress"), without("spec.release")},
	},
	"an MCP endpoint of another scheme":         {kind: "ToolServer", edits: []edit{set("spec.mcp.url", "stdio:///bin/mcp")}, words: []string{"spec.mcp.url", "url must be an absolute http or https URL, such as http://crm-mcp"}},
	"an MCP endpoint with a key in its query":   {kind: "ToolServer", edits: []edit{set("spec.mcp.url", "https://crm.example/mcp?key=x")}, words: []string{"spec.mcp.url", "url must have no user, query or fragment"}},
	"an HTTP API at a path without a host":      {kind: "ToolServer", edits: overHTTP(set("spec.http.url", "/api")), words: []string{"spec.http.url", "url must be an absolute http or https URL, such as https://crm.example/api"}},
	"an HTTP API with a user in its URL":        {kind: "ToolServer", edits: overHTTP(set("spec.http.url", "https://a:b@crm.example/api")), words: []string{"spec.http.url", "url must have no user, query or fragment"}},
	"an HTTP tool that takes nothing":           {kind: "ToolServer", edits: overHTTP(set("spec.http.tools[0].input.schema", m{}))},
	"an HTTP tool whose schema is a word":       {kind: "ToolServer", edits: overHTTP(set("spec.http.tools[0].input.schema", "object")), words: []string{"spec.http.tools[0].input.schema", "must be of type object"}},
	"an HTTP tool whose schema is true":         {kind: "ToolServer", edits: overHTTP(set("spec.http.tools[0].input.schema", true)), words: []string{"spec.http.tools[0].input.schema", "must be of type object"}},
	"a tool server's header with credentials":   {kind: "ToolServer", edits: header("Authorization"), words: reserved},
	"a header that makes all calls one":         {kind: "ToolServer", edits: header("Idempotency-Key"), words: perRequest},
	"a header of the protocol":                  {kind: "ToolServer", edits: header("mcp-session-id"), words: perRequest},
	"a header that a model endpoint may get":    {kind: "ModelEndpoint", edits: header("Idempotency-Key")},
	"a tool that is declared by its name alone": {kind: "ToolServer", edits: []edit{set("spec.tools", []any{m{"name": "Any name. At all!"}})}},

	"a rule that says who approves what is allowed": {kind: "AgentPolicy", edits: []edit{set("spec.rules[0].action", "Allow")}, words: whoApproves},
	"a rule that says who approves what is denied":  {kind: "AgentPolicy", edits: []edit{set("spec.rules[0].action", "Deny")}, words: whoApproves},
	"a rule that leaves open who approves":          {kind: "AgentPolicy", edits: []edit{without("spec.rules[0].approval")}},
	"a rule about every call":                       {kind: "AgentPolicy", edits: []edit{without("spec.rules[0].match")}},
	"a match that says nothing":                     {kind: "AgentPolicy", edits: []edit{set("spec.rules[0].match", m{})}, words: []string{"spec.rules[0].match", "at least 1"}},
	"a policy that says nothing":                    {kind: "AgentPolicy", edits: []edit{set("spec", m{})}},

	"labels of a prefix of one's own":          {kind: "AgentPolicy", edits: []edit{set("spec.pods.labels", m{"example.com/team": "support", "app.kubernetes.io/part-of": "x", "kueue.x-k8s.io/queue-name": "agents"})}},
	"a label that selects the pods of runs":    {kind: "AgentPolicy", edits: []edit{set("spec.pods.labels", m{"ekiden.dev/run-uid": "x"})}, words: ownLabels},
	"a label of Jobs":                          {kind: "AgentPolicy", edits: []edit{set("spec.pods.labels", m{"batch.kubernetes.io/job-name": "x"})}, words: ownLabels},
	"an older label of Jobs":                   {kind: "AgentPolicy", edits: []edit{set("spec.pods.labels", m{"controller-uid": "x"})}, words: ownLabels},
	"a label that says who manages":            {kind: "AgentPolicy", edits: []edit{set("spec.pods.labels", m{"app.kubernetes.io/managed-by": "x"})}, words: ownLabels},
	"a label whose key is none":                {kind: "AgentPolicy", edits: []edit{set("spec.pods.labels", m{"a b": "x"})}, words: []string{"spec.pods.labels", "labels wants keys of labels"}},
	"a label whose value is none":              {kind: "AgentPolicy", edits: []edit{set("spec.pods.labels", m{"a": "b c"})}, words: []string{"spec.pods.labels", "should match"}},
	"a label without a value":                  {kind: "AgentPolicy", edits: []edit{set("spec.pods.labels", m{"a": ""})}},
	"a node selector whose key is none":        {kind: "AgentPolicy", edits: []edit{set("spec.pods.nodeSelector", m{"a/b/c": "x"})}, words: []string{"spec.pods.nodeSelector", "nodeSelector wants keys of labels"}},
	"an annotation of a prefix of its own":     {kind: "AgentPolicy", edits: []edit{set("spec.pods.annotations", m{"Example.com/Owner": "any words: {}"})}},
	"an annotation that wakes runs":            {kind: "AgentPolicy", edits: []edit{set("spec.pods.annotations", m{"ekiden.dev/run": "x"})}, words: []string{"spec.pods.annotations", "annotations of ekiden.dev and batch.kubernetes.io are set for each pod"}},
	"an annotation that loosens AppArmor":      {kind: "AgentPolicy", edits: []edit{set("spec.pods.annotations", m{"container.apparmor.security.beta.kubernetes.io/segment": "unconfined"})}, words: ownProfiles},
	"an annotation that loosens seccomp":       {kind: "AgentPolicy", edits: []edit{set("spec.pods.annotations", m{"seccomp.security.alpha.kubernetes.io/pod": "unconfined"})}, words: ownProfiles},
	"and that of one container":                {kind: "AgentPolicy", edits: []edit{set("spec.pods.annotations", m{"container.seccomp.security.alpha.kubernetes.io/segment": "unconfined"})}, words: ownProfiles},
	"an annotation whose key is none":          {kind: "AgentPolicy", edits: []edit{set("spec.pods.annotations", m{"a b": "x"})}, words: []string{"spec.pods.annotations", "annotations wants keys of annotations"}},
	"an annotation that is too long":           {kind: "AgentPolicy", edits: []edit{set("spec.pods.annotations", m{"a": strings.Repeat("x", 4097)})}, words: []string{"spec.pods.annotations", "may not be more than 4096"}},
	"a toleration of any value":                {kind: "AgentPolicy", edits: []edit{set("spec.pods.tolerations", []any{m{"key": "example.com/gpu", "operator": "Exists"}})}},
	"a toleration of any value, with one":      {kind: "AgentPolicy", edits: []edit{set("spec.pods.tolerations", []any{m{"key": "a", "operator": "Exists", "value": "b"}})}, words: []string{"spec.pods.tolerations[0]", "a value goes with the operator Equal"}},
	"a toleration for a while, of no eviction": {kind: "AgentPolicy", edits: []edit{set("spec.pods.tolerations", []any{m{"key": "a", "tolerationSeconds": int64(5)}})}, words: []string{"spec.pods.tolerations[0]", "tolerationSeconds goes with the effect NoExecute"}},
	"a toleration of every taint":              {kind: "AgentPolicy", edits: []edit{set("spec.pods.tolerations", []any{m{"operator": "Exists"}})}, words: []string{"spec.pods.tolerations[0].key", "Required"}},
	"a toleration whose key is none":           {kind: "AgentPolicy", edits: []edit{set("spec.pods.tolerations", []any{m{"key": "a b"}})}, words: []string{"spec.pods.tolerations[0].key", "key must be the key of a taint"}},
	"resources in all spellings":               {kind: "AgentPolicy", edits: []edit{set("spec.pods.resources", m{"requests": m{"cpu": int64(1), "memory": "1Gi"}, "limits": m{"nvidia.com/gpu": "1", "cpu": "1500m"}})}},
	"a resource that is no amount":             {kind: "AgentPolicy", edits: []edit{set("spec.pods.resources.limits", m{"memory": "much"})}, words: []string{"spec.pods.resources.limits", "memory"}},
	"a variable that tells of the pod":         {kind: "AgentPolicy", edits: env("POD_NAME"), words: ownVariables},
	"a variable that tells of a discovery":     {kind: "AgentPolicy", edits: env("EKIDEN_DISCOVERY"), words: ownVariables},
	"a variable that moves Postgres":           {kind: "AgentPolicy", edits: env("PGHOST"), words: ownVariables},
	"a variable that names a proxy":            {kind: "AgentPolicy", edits: env("HTTPS_PROXY"), words: []string{"spec.pods.env[0].name", "set spec.proxy of the ModelEndpoint or the ToolServer"}},
	"and in small":                             {kind: "AgentPolicy", edits: env("https_proxy"), words: []string{"spec.pods.env[0].name", "set spec.proxy of the ModelEndpoint or the ToolServer"}},
	"a variable from a Secret":                 {kind: "AgentPolicy", edits: []edit{set("spec.pods.env", []any{m{"name": "A", "value": "x", "valueFrom": m{}}})}, words: []string{"unknown field", "valueFrom"}},

	"a proxy with a port":          {kind: "ModelEndpoint", edits: []edit{set("spec.proxy.url", "http://proxy.corp:3128")}},
	"a proxy over TLS":             {kind: "ToolServer", edits: []edit{set("spec.proxy.url", "https://proxy.corp/")}},
	"a proxy of another protocol":  {kind: "ModelEndpoint", edits: []edit{set("spec.proxy.url", "socks5://proxy.corp:1080")}, words: []string{"spec.proxy.url", "url must be an absolute http or https URL without a path"}},
	"a proxy with a path":          {kind: "ModelEndpoint", edits: []edit{set("spec.proxy.url", "http://proxy.corp/a")}, words: []string{"spec.proxy.url", "without a path"}},
	"a proxy with a password":      {kind: "ModelEndpoint", edits: []edit{set("spec.proxy.url", "http://a:b@proxy.corp:3128")}, words: []string{"spec.proxy.url", "url must have no user, query or fragment"}},
	"a bundle that is in a Secret": {kind: "ModelEndpoint", edits: []edit{set("spec.tls.caBundle", m{"secret": m{"name": "a", "key": "b"}})}, words: []string{"unknown field", "spec.tls.caBundle.secret"}},

	"a request without a rule that asks":        {kind: "ApprovalRequest", edits: []edit{without("spec.policy")}},
	"a request that shows the digest alone":     {kind: "ApprovalRequest", edits: []edit{without("spec.call.arguments")}},
	"a question what came of a call":            {kind: "ApprovalRequest", edits: unsure()},
	"a question what came of a call that reads": {kind: "ApprovalRequest", edits: unsure(set("spec.call.effect", "Read")), words: []string{"spec", "not of a call that only reads"}},
	"a question what came of a call, to two":    {kind: "ApprovalRequest", edits: unsure(set("spec.seats", int64(2))), words: []string{"spec", "asked of one person"}},
	"a question of a type that there is not":    {kind: "ApprovalRequest", edits: []edit{set("spec.type", "Node")}, words: []string{"spec.type"}},
	"a probe of a tool that reads": {
		kind: "ToolServer", edits: []edit{set("spec.tools[0].effect", "Read")}, words: []string{"spec.tools[0].probe", "needs no probe"},
	},
	"a probe of a tool whose effect is not said":                            {kind: "ToolServer", edits: []edit{without("spec.tools[0].effect")}},
	"a probe without a reader":                                              {kind: "ToolServer", edits: []edit{without("spec.tools[0].probe.happened")}, words: []string{"spec.tools[0].probe.happened"}},
	"a rule for what nobody knows that there is not":                        {kind: "AgentDefinition", edits: []edit{set("spec.onIndeterminate", "Repeat")}, words: []string{"spec.onIndeterminate"}},
	"the third seat of two":                                                 {kind: "ApprovalRequest", edits: []edit{set("spec.seat", int64(3))}, words: []string{"spec.seat", "spec.seat counts up to spec.seats"}},
	"arguments of 8 KiB":                                                    {kind: "ApprovalRequest", edits: []edit{set("spec.call.arguments", strings.Repeat("x", 8<<10))}},
	"arguments of more than 48 KiB in bytes, although fewer in characters":  {kind: "ApprovalRequest", edits: []edit{set("spec.call.arguments", strings.Repeat("日", 17000))}, words: []string{"spec.call.arguments", "must have at most 48 KiB"}},
	"the first call of the first turn":                                      {kind: "ApprovalRequest", edits: []edit{set("spec.call.turn", int64(0)), set("spec.call.index", int64(0))}},
	"a definition that takes tools of one server twice, to different terms": {kind: "AgentDefinition", edits: []edit{set("spec.tools", []any{m{"serverRef": m{"name": "a"}, "names": []any{"x"}}, m{"serverRef": m{"name": "a"}, "names": []any{"y"}, "approval": "Required"}})}},
}

type m = map[string]any

var (
	timers       = []string{"spec.segment", "softSeconds (90 if unset) must be less than hardSeconds (120 if unset)"}
	absolute     = []string{"spec.url", "url must be an absolute http or https URL"}
	bare         = []string{"spec.url", "url must have no user, query or fragment"}
	reserved     = []string{"spec.headers[0].name", "this header cannot be set here"}
	perRequest   = []string{"spec.headers", "headers that the client sets for each request cannot be set here"}
	whoApproves  = []string{"spec.rules[0]", "approval says who approves, so it goes with action RequireApproval only"}
	ownLabels    = []string{"spec.pods.labels", "are set for each pod: choose a key with a prefix of your own"}
	ownProfiles  = []string{"spec.pods.annotations", "annotations of AppArmor and seccomp would loosen what a pod may do"}
	ownVariables = []string{"spec.pods.env[0].name", "are set for each pod, or would change how Postgres is reached"}
	cidr         = []string{"spec.egress.allow[0]", "allow must list address ranges in CIDR notation"}
)

// httpServer is an HTTP API with one tool.
var httpServer = m{"url": "https://crm.example/api", "tools": []any{
	m{"name": "get_customer", "description": "Looks up a customer.", "method": "GET", "path": "/customers/{id}", "input": m{"schema": m{"type": "object"}}},
}}

// overHTTP makes the tool server an HTTP API.
func overHTTP(edits ...edit) []edit {
	return append([]edit{set("spec.type", "HTTP"), without("spec.mcp"), set("spec.http", httpServer)}, edits...)
}

func env(name string) []edit     { return []edit{set("spec.pods.env[0].name", name)} }
func input(value m) []edit       { return []edit{set("spec.input", value)} }
func url(value string) []edit    { return []edit{set("spec.url", value)} }
func header(value string) []edit { return []edit{set("spec.headers[0].name", value)} }
func allow(values ...string) []edit {
	var list []any
	for _, value := range values {
		list = append(list, value)
	}
	return []edit{set("spec.egress.allow", list)}
}

// hearing collects answers of the API server.
type hearing struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *hearing) heard(err error) {
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.text.WriteString(err.Error())
	}
}

// TestRules includes a check that no rule is left untried.
func TestRules(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace, answers := server.Client(t), server.Namespace(t), &hearing{}
	t.Run("new objects", func(t *testing.T) {
		for name, rule := range rules {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				err := tried(t, admin, example(t, rule.kind, 0, namespace, rule.edits...))
				answers.heard(err)
				if rule.words == nil {
					wantAccepted(t, err)
				} else {
					wantRefused(t, err, rule.words...)
				}
			})
		}
	})
	t.Run("changes", func(t *testing.T) {
		for name, change := range changes {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				kept := stored(t, admin, example(t, change.kind, change.nth, namespace, change.before...))
				if change.meanwhile != nil {
					for _, edit := range change.meanwhile {
						edit(t, kept.Object)
					}
					if err := admin.Update(t.Context(), kept); err != nil {
						t.Fatalf("preparing the change: %v", err)
					}
				}
				for _, edit := range change.edits {
					edit(t, kept.Object)
				}
				err := admin.Update(t.Context(), kept, client.DryRunAll)
				answers.heard(err)
				if change.words == nil {
					wantAccepted(t, err)
				} else {
					wantRefused(t, err, change.words...)
				}
			})
		}
	})
	for kind, of := range schemas(t) {
		untried(t, kind, of, answers.text.String())
	}
}

// untried complains of rules whose message nobody has seen.
func untried(t *testing.T, kind string, of schema, said string) {
	t.Helper()
	complain := func(path string, field schema) {
		for _, rule := range field.XValidations {
			if !strings.Contains(said, rule.Message) {
				t.Errorf("%s %s: no case breaks the rule that says %q", kind, path, rule.Message)
			}
		}
	}
	complain("", of)
	walk(of, func(path string, field schema, _ bool) { complain(path, field) })
}

// unsure makes a request ask what came of its call.
func unsure(more ...edit) []edit {
	return append([]edit{set("spec.type", "Indeterminate"), set("spec.seat", int64(1)), set("spec.seats", int64(1))}, more...)
}
