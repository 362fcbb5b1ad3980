package tool_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/tool"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// secret is the canary: it may be nowhere but on the wire.
const secret = "sk-canary/0123+secret=="

// flavours are the ways in which one and the same tool is reached.
var flavours = map[string]toolserver.Options{
	"an MCP server with sessions":          {},
	"an MCP server that answers documents": {JSON: true},
	"an MCP server without sessions":       {Stateless: true},
	"an HTTP API":                          {},
}

const api = "an HTTP API"

// rig is a server, an invoker that knows it, and a journal.
type rig struct {
	*toolserver.Server
	*recorder
	invoker  *tool.Invoker
	compiled v1alpha1.CompiledServer
	dir      string
	isAPI    bool
}

func newRig(t *testing.T, flavour string, change func(*v1alpha1.CompiledServer)) *rig {
	t.Helper()
	o := flavours[flavour]
	o.RequireKey = secret
	return rigOn(t, toolserver.Start(t, o), flavour == api, change)
}

func rigOn(t *testing.T, srv *toolserver.Server, isAPI bool, change func(*v1alpha1.CompiledServer)) *rig {
	t.Helper()
	r := &rig{Server: srv, recorder: &recorder{}, dir: t.TempDir(), isAPI: isAPI}
	r.compiled = v1alpha1.CompiledServer{
		Name: "crm", UID: "u", Type: v1alpha1.ToolServerMCP, URL: srv.URL + "/mcp",
		Credentials: v1alpha1.Credentials{SecretRef: v1alpha1.KeyReference{Name: "crm-key", Key: "token"}},
		Egress:      v1alpha1.Egress{Allow: []string{"127.0.0.0/8", "::1/128"}},
	}
	if isAPI {
		r.compiled.Type, r.compiled.URL = v1alpha1.ToolServerHTTP, srv.URL+"/api"
	}
	if change != nil {
		change(&r.compiled)
	}
	r.mount(t, secret+"\n")
	r.reopen(t)
	return r
}

// reopen makes the invoker anew.
func (r *rig) reopen(t *testing.T) {
	t.Helper()
	v, err := tool.New([]v1alpha1.CompiledServer{r.compiled}, r.dir, nil, v1alpha1.Retry{MaxAttempts: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	r.invoker = v
}

// mount writes the key as the manager mounts it. An empty one is not there.
func (r *rig) mount(t *testing.T, key string) {
	t.Helper()
	file := filepath.Join(r.dir, "crm", contract.CredentialFile)
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if key == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reads, keyed, sends and writes are the ways in which calls differ here.
func (r *rig) reads() v1alpha1.CompiledTool {
	return r.tool(toolserver.GetCustomer, v1alpha1.EffectRead, v1alpha1.IdempotencyNone)
}

func (r *rig) keyed() v1alpha1.CompiledTool {
	return r.tool(toolserver.Refund, v1alpha1.EffectSend, v1alpha1.IdempotencyKey)
}

func (r *rig) sends() v1alpha1.CompiledTool {
	return r.tool(toolserver.Refund, v1alpha1.EffectSend, v1alpha1.IdempotencyNone)
}

func (r *rig) writes() v1alpha1.CompiledTool {
	return r.tool(toolserver.Refund, v1alpha1.EffectWrite, v1alpha1.IdempotencyNone)
}

func (r *rig) tool(name string, e v1alpha1.Effect, i v1alpha1.Idempotency) v1alpha1.CompiledTool {
	t := v1alpha1.CompiledTool{
		Name: "crm__" + name, Server: "crm", Tool: name, Digest: digest(name), Effect: e, Idempotency: i,
		TimeoutSeconds: 5, MaxResultBytes: 4096,
	}
	if !r.isAPI {
		return t
	}
	t.HTTP = v1alpha1.CompiledRequest{Method: "GET", Path: "/customers/{id}", Body: v1alpha1.HTTPBodyNone}
	if name == toolserver.Refund {
		t.HTTP = v1alpha1.CompiledRequest{Method: "POST", Path: "/customers/{id}/refunds", Body: v1alpha1.HTTPBodyRest}
	}
	return t
}

func digest(name string) string {
	schema := toolserver.CustomerSchema
	if name == toolserver.Refund {
		schema = toolserver.RefundSchema
	}
	_, d, err := contract.ToolContract{Name: name, Description: toolserver.Descriptions[name], Schema: []byte(schema)}.Encode()
	if err != nil {
		panic(err) // of constants
	}
	return d
}

const arguments = `{"amount":"12.50","id":"c-1"}`

func (r *rig) make(ctx context.Context, t v1alpha1.CompiledTool) error {
	args := arguments
	if t.Tool == toolserver.GetCustomer {
		args = `{"id":"c-1"}`
	}
	return r.invoker.Make(ctx, t, args, "key-1", r.recorder)
}

// recorder is a journal that holds one call.
type recorder struct {
	mu      sync.Mutex
	begun   int
	settled []segment.CallResult
	// refuse is the error of Begin. onBegin is told of it.
	refuse  error
	onBegin func()
	// unwanted is the error of Wanted. onWanted is told of each question.
	unwanted error
	onWanted func()
	resumed  bool
}

func (j *recorder) Begin(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refuse != nil {
		return j.refuse
	}
	j.begun++
	if j.onBegin != nil {
		j.onBegin()
	}
	return nil
}

func (j *recorder) Settle(ctx context.Context, r segment.CallResult) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	j.settled = append(j.settled, r)
	return nil
}

func (j *recorder) Wanted() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.onWanted != nil {
		j.onWanted()
	}
	return j.unwanted
}

func (j *recorder) Resumed() bool { return j.resumed }

func contractSchema() json.RawMessage { return json.RawMessage(toolserver.RefundSchema) }
