package integration

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/serve"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// The reference server of the protocol's own makers: it shares no line of code with ours.
const (
	foreignPackage = "@modelcontextprotocol/server-everything"
	foreignVersion = "2026.8.31"
)

// foreign starts the foreign server and is its address. Without Node or the registry there is nothing to try, and it says so.
func foreign(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: the story of a foreign MCP server wants Node: %v", err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "ekiden-stories", "server-everything-"+foreignVersion)
	program := filepath.Join(dir, "node_modules", filepath.FromSlash(foreignPackage), "dist", "index.js")
	if _, err := os.Stat(program); err != nil {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		install := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", foreignPackage+"@"+foreignVersion)
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: %s@%s cannot be installed from the registry: %v\n%s", foreignPackage, foreignVersion, err, out)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", serve.Host+":0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	_ = listener.Close() // so that the server can have it
	var log bytes.Buffer
	server := exec.CommandContext(context.WithoutCancel(t.Context()), "node", program, "streamableHttp") // it goes when the story has cleaned up
	server.Env = append(os.Environ(), "PORT="+port)
	server.Stdout, server.Stderr = &log, &log
	if err := cluster.StartBound(server); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Logf("the foreign server said:\n%s", log.String())
		}
	})
	url := "http://" + serve.Host + ":" + port + "/mcp"
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(100 * time.Millisecond) { //nolint:forbidigo // it does not say when it listens
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			return url
		}
	}
	t.Fatal("the foreign server does not listen")
	return ""
}

// TestAForeignMCPServer is discovered, and an agent uses tools of it that answer with words, numbers, structure and an image, one
// that wants more than we offer, and one whose arguments are wrong.
func TestAForeignMCPServer(t *testing.T) {
	t.Parallel()
	url := foreign(t)
	call := func(name, arguments string) modelserver.Call {
		return modelserver.Call{Name: name, Arguments: arguments}
	}
	s := tell(t,
		wants(call("echo", `{"message":"Grüße, 世界 👋"}`), call("get-sum", `{"a":20.5,"b":21.5}`)),
		wants(call("get-structured-content", `{"location":"Chicago"}`), call("get-tiny-image", `{}`), call("get-sum", `{"a":"twenty"}`)),
		wants(call("trigger-long-running-operation", `{"duration":1,"steps":2}`), call("simulate-research-query", `{"topic":"x","ambiguous":true}`)),
		answer("Done."))
	server := given.MCPServer(s.namespace, url)
	s.create(s.key(), given.Endpoint(s.namespace, s.model.URL), server, s.policy(everything))
	s.eventually("the server is discovered", func() bool {
		return api.Get(t.Context(), client.ObjectKeyFromObject(server), server) == nil && server.Status.DiscoveredGeneration == server.Generation && len(server.Status.Tools) > 0
	})
	var names []string
	for _, tool := range server.Status.Tools {
		names = append(names, tool.Name)
	}
	for _, want := range []string{"echo", "get-sum", "get-structured-content", "get-tiny-image", "trigger-long-running-operation"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among the tools that were found: %v", want, names)
		}
	}
	// We say that there is neither a person nor a model to ask, and the server offers no tool that would.
	for _, name := range names {
		if strings.Contains(name, "elicitation") || strings.Contains(name, "sampling") {
			t.Errorf("%s is offered", name)
		}
	}
	used := []string{"echo", "get-sum", "get-structured-content", "get-tiny-image", "trigger-long-running-operation", "simulate-research-query"}
	s.create(given.Definition(s.namespace, given.Uses(given.Tools, used...)))
	s.start("foreign")
	r := s.finished("foreign")
	s.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	rows := s.journal(r)
	for i, want := range []struct{ tool, kind, told string }{
		{"crm/echo", "answered", "Grüße, 世界 👋"},
		{"crm/get-sum", "answered", "42"},
		{"crm/get-structured-content", "answered", "temperature"},
		{"crm/get-tiny-image", "answered", "image"},
		{"crm/get-sum", "refused", "Nothing was called"},
		{"crm/trigger-long-running-operation", "answered", "completed"},
		{"crm/simulate-research-query", "failed", ""},
	} {
		if i >= len(rows) {
			t.Fatalf("the journal has %d calls", len(rows))
		}
		if rows[i].Tool != want.tool || rows[i].Kind != want.kind || !strings.Contains(rows[i].Text, want.told) {
			t.Errorf("call %d: the journal says %+v, want %+v", i, rows[i], want)
		}
	}
	t.Logf("found %v; the tool that wants a task was answered with %q", names, rows[6].Text)
}

// TestAToolThatWantsInput from a person in the middle of a call has failed, and the model reads why.
func TestAToolThatWantsInput(t *testing.T) {
	t.Parallel()
	d := open(t, wants(reads("1")), answer("Done."))
	d.tools.Behave(toolserver.GetCustomer, toolserver.Mood{Ask: true})
	d.start("ask")
	r := d.finished("ask")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	rows := d.journal(r)
	if len(rows) != 1 || rows[0].Kind != "failed" || !strings.Contains(rows[0].Text, "not support") {
		t.Errorf("the journal says %+v", rows)
	}
}
