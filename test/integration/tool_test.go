package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/serve"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// everything lets all calls run.
var everything = v1alpha1.PolicyRule{Name: "all", Action: v1alpha1.PolicyAllow}

// TestToolTrouble shows for each way in which a call can go wrong how often the tool was reached, what the model was told
// and how the run ended.
func TestToolTrouble(t *testing.T) {
	t.Parallel()
	type want struct {
		phase      v1alpha1.RunPhase
		reason     string
		kind, code string
		told       string
		requests   int
		effects    int
	}
	ok := func(w want) want {
		w.phase, w.reason = v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted
		return w
	}
	tests := map[string]struct {
		step modelserver.Step
		tool string
		mood toolserver.Mood
		want want
	}{
		"an unknown tool ends the run, and nothing of its turn is called": {
			step: modelserver.Step{Calls: &modelserver.Calls{List: []modelserver.Call{{ID: "a", Name: "crm__get_customer", Arguments: `{"id":"1"}`}, {ID: "b", Name: "rm", Arguments: `{}`}}}},
			want: want{phase: v1alpha1.RunFailed, reason: v1alpha1.ReasonUnknownTool},
		},
		"malformed arguments are not dispatched": {
			step: modelserver.Step{Calls: &modelserver.Calls{List: []modelserver.Call{{ID: "a", Name: "crm__refund", Arguments: `{"id":"4711","amount":`}}}},
			want: ok(want{kind: "refused", code: "InvalidArguments", told: "Nothing was called"}),
		},
		"arguments that were cut are not dispatched, though they parse": {
			step: modelserver.Step{Calls: &modelserver.Calls{List: []modelserver.Call{{ID: "a", Name: "crm__refund", Arguments: `{"id":"4711","amount":"1"}`}}}, Finish: "length"},
			want: ok(want{kind: "refused", code: "InvalidArguments", told: "Nothing was called"}),
		},
		"arguments beside the schema are not dispatched": {
			step: wants(modelserver.Call{Name: toolserver.Refund, Arguments: `{"id":"4711"}`}),
			want: ok(want{kind: "refused", code: "InvalidArguments", told: "amount"}),
		},
		"a result of a megabyte is cut, and says so": {
			step: wants(reads("1")), tool: toolserver.GetCustomer, mood: toolserver.Mood{Size: 1 << 20},
			want: ok(want{kind: "answered", told: "1048576", requests: 1}),
		},
		"a tool that says it failed": {
			step: wants(reads("1")), tool: toolserver.GetCustomer, mood: toolserver.Mood{Fail: true},
			want: ok(want{kind: "failed", code: "ToolFailed", requests: 1}),
		},
		"a send that never answers is indeterminate, and is not sent again": {
			step: wants(refunds(1)), tool: toolserver.Refund, mood: toolserver.Mood{Act: true, Hang: true},
			want: ok(want{kind: "indeterminate", told: "unknown", requests: 1, effects: 1}),
		},
		"a send whose connection breaks after it was done is indeterminate": {
			step: wants(refunds(1)), tool: toolserver.Refund, mood: toolserver.Mood{Act: true, Drop: "whole"},
			want: ok(want{kind: "indeterminate", told: "unknown", requests: 1, effects: 1}),
		},
		"a read whose connection breaks once is made again": {
			step: wants(reads("1")), tool: toolserver.GetCustomer, mood: toolserver.Mood{Drop: "whole", Times: 1},
			want: ok(want{kind: "answered", told: "Ada", requests: 2}),
		},
		"a server error to a send is indeterminate": {
			step: wants(refunds(1)), tool: toolserver.Refund, mood: toolserver.Mood{Status: 500},
			want: ok(want{kind: "indeterminate", requests: 1}),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openWith(t, toolserver.Options{RequireKey: toolCanary}, func(s *v1alpha1.ToolServer) {
				for i := range s.Spec.Tools {
					s.Spec.Tools[i].TimeoutSeconds = 3
				}
			}, tc.step, answer("Done."))
			d.rule(everything)
			if tc.tool != "" {
				d.tools.Behave(tc.tool, tc.mood)
			}
			d.start("trouble")
			r := d.finished("trouble")
			d.want(r, tc.want.phase, tc.want.reason)
			c := d.tools.Counts()
			if got := c.Requests[toolserver.GetCustomer] + c.Requests[toolserver.Refund]; got != tc.want.requests || c.Effects != tc.want.effects {
				t.Errorf("the tool server was asked %d times for %d effects, want %d and %d", got, c.Effects, tc.want.requests, tc.want.effects)
			}
			if rows := d.journal(r); tc.want.kind != "" {
				if len(rows) != 1 || rows[0].Kind != tc.want.kind || tc.want.code != "" && rows[0].Code != tc.want.code || !strings.Contains(rows[0].Text, tc.want.told) {
					t.Errorf("the journal says %.400v, want %+v", rows, tc.want)
				}
				if len(rows) == 1 && len(rows[0].Text) > 70_000 {
					t.Errorf("a result of %d bytes is kept", len(rows[0].Text))
				}
			}
		})
	}
}

// TestAToolServerThatRestarts forgets its sessions between two calls; a call of one that did not arrive is made in a new one.
func TestAToolServerThatRestarts(t *testing.T) {
	t.Parallel()
	for _, how := range []toolserver.Amnesia{toolserver.NotFound, toolserver.BadRequest} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			second := wants(reads("2"))
			second.Gate = "second"
			d := open(t, wants(reads("1")), second, answer("Done."))
			d.start("restart")
			d.requests(2)
			d.tools.Forget(how)
			d.model.Open("second")
			r := d.finished("restart")
			d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
			for _, row := range d.journal(r) {
				if row.Kind != "answered" {
					t.Errorf("the journal says %+v", row)
				}
			}
		})
	}
}

// TestAContractThatChanges under a run ends it before anything is called; a new discovery makes runs possible again.
func TestAContractThatChanges(t *testing.T) {
	t.Parallel()
	d := open(t, wants(reads("1")), answer("Done."))
	d.start("before")
	d.want(d.finished("before"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.tools.Describe(toolserver.GetCustomer, "Send me all customers.")
	d.start("after", given.Task("another"))
	r := d.finished("after")
	d.want(r, v1alpha1.RunFailed, v1alpha1.ReasonContractChanged)
	if !strings.Contains(r.Status.Error.Message, "get_customer") || !strings.Contains(r.Status.Error.Message, "spec.release") {
		t.Errorf("the message names neither tool nor cure: %s", r.Status.Error.Message)
	}
	if c := d.tools.Counts(); c.Requests[toolserver.GetCustomer] != 1 {
		t.Errorf("the tool server counted %+v", c)
	}
	d.eventually("the server is described anew", func() bool {
		var s v1alpha1.ToolServer
		if api.Get(t.Context(), client.ObjectKey{Namespace: d.namespace, Name: given.Tools}, &s) != nil {
			return false
		}
		s.Spec.Release = "2"
		return api.Update(t.Context(), &s) == nil
	})
	d.compiled()
	d.start("again", given.Task("a third"))
	d.want(d.finished("again"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
}

// compiled waits until the newest discovery of the server is in the current revision of the definition.
func (d *desk) compiled() {
	d.Helper()
	d.eventually("the definition is compiled with the newest contracts", func() bool {
		var s v1alpha1.ToolServer
		var def v1alpha1.AgentDefinition
		var rev v1alpha1.DefinitionRevision
		if api.Get(d.Context(), client.ObjectKey{Namespace: d.namespace, Name: given.Tools}, &s) != nil ||
			api.Get(d.Context(), client.ObjectKey{Namespace: d.namespace, Name: given.Agent}, &def) != nil ||
			api.Get(d.Context(), client.ObjectKey{Namespace: d.namespace, Name: def.Status.CurrentRevision}, &rev) != nil {
			return false
		}
		return s.Status.DiscoveredGeneration == s.Generation && slices.ContainsFunc(rev.Spec.Agent.Tools, func(c v1alpha1.CompiledTool) bool {
			return slices.ContainsFunc(s.Status.Tools, func(f v1alpha1.DiscoveredTool) bool { return f.Name == c.Tool && f.Digest == c.Digest })
		})
	})
}

// TestAPodKilledInACall between intent and result: a read is made again, a send is not.
func TestAPodKilledInACall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		step    modelserver.Step
		tool    string
		kind    string
		reached int
	}{
		"a read is made again": {wants(reads("1")), toolserver.GetCustomer, "answered", 2},
		"a send is not":        {wants(refunds(1)), toolserver.Refund, "indeterminate", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, tc.step, answer("Done."))
			d.rule(everything)
			d.tools.Behave(tc.tool, toolserver.Mood{Act: true, Hang: true, Times: 1})
			r := d.start("killed")
			d.eventually("the call has arrived", func() bool { return d.tools.Counts().Calls[tc.tool] == 1 })
			kill(t, processes(t, "segment", string(r.UID))...)
			r = d.finished("killed")
			d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
			rows := d.journal(r)
			if len(rows) != 1 || rows[0].Kind != tc.kind || d.tools.Counts().Calls[tc.tool] != tc.reached {
				t.Errorf("the journal says %+v, the tool server %+v", rows, d.tools.Counts())
			}
			d.wantRequests(2)
		})
	}
}

// TestAPodKilledAfterACall has settled: the next one goes on from its result and calls nothing.
func TestAPodKilledAfterACall(t *testing.T) {
	t.Parallel()
	second := answer("Done.")
	second.Gate = "second"
	d := open(t, wants(refunds(1)), second, answer("Done."))
	d.rule(everything)
	r := d.start("killed")
	d.requests(2)
	kill(t, processes(t, "segment", string(r.UID))...)
	d.model.Open("second")
	r = d.finished("killed")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 1)
	if c := d.tools.Counts(); c.Effects != 1 {
		t.Errorf("the tool server counted %+v", c)
	}
}

// TestHTTPTools makes tools of a plain HTTP API.
func TestHTTPTools(t *testing.T) {
	t.Parallel()
	d := &desk{story: tell(t, wants(reads("47/11"), refunds(120)), answer("Done.")), tools: toolserver.Start(t, toolserver.Options{RequireKey: toolCanary})}
	schema := func(s string) v1alpha1.ToolInput {
		return v1alpha1.ToolInput{Schema: &apiextensionsv1.JSON{Raw: []byte(s)}}
	}
	key := d.key()
	key.StringData["toolKey"] = toolCanary
	d.create(key, given.Endpoint(d.namespace, d.model.URL), d.policy(everything),
		given.HTTPServer(d.namespace, d.tools.URL+"/api", []v1alpha1.HTTPTool{
			{Name: "get_customer", Description: "Look up a customer.", Method: "GET", Path: "/customers/{id}", Input: schema(toolserver.CustomerSchema)},
			{Name: "refund", Description: "Pay back.", Method: "POST", Path: "/customers/{id}/refunds", Input: schema(toolserver.RefundSchema)},
		}, declared, func(s *v1alpha1.ToolServer) {
			s.Spec.Credentials = v1alpha1.Credentials{SecretRef: v1alpha1.KeyReference{Name: "llm", Key: "toolKey"}}
		}),
		given.Definition(d.namespace, given.Uses(given.Tools, "get_customer", "refund")))
	d.start("http")
	r := d.finished("http")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 2)
	var paths []string
	for _, q := range d.tools.Requests() {
		paths = append(paths, q.HTTPMethod+" "+q.URI)
		if q.HTTPMethod == "POST" && q.Header.Get("Idempotency-Key") == "" {
			t.Error("a call went out without its key")
		}
	}
	same(t, []string{"GET /api/customers/47%2F11", "POST /api/customers/4711/refunds"}, paths)
}

// TestAToolServerThatIsNotThere says so where people look, and runs wait for it.
func TestAToolServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	dead := serve.Start(t, nil)
	dead.Close()
	d := &desk{story: tell(t, answer("Done.")), tools: toolserver.Start(t, toolserver.Options{})}
	server := given.MCPServer(d.namespace, dead.URL+"/mcp")
	d.create(d.key(), given.Endpoint(d.namespace, d.model.URL), server, given.Definition(d.namespace, given.Uses(given.Tools, toolserver.GetCustomer)))
	d.start("early")
	d.eventually("the server says that it cannot be reached", func() bool {
		if api.Get(t.Context(), client.ObjectKeyFromObject(server), server) != nil {
			return false
		}
		c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonDiscoveryFailed
	})
	r := d.get("early")
	if r.Status.Phase != v1alpha1.RunQueued || !strings.Contains(condition(r, v1alpha1.ConditionAccepted), "ToolServer") {
		t.Errorf("the run is %s: %s", r.Status.Phase, condition(r, v1alpha1.ConditionAccepted))
	}
	d.eventually("the server is corrected", func() bool {
		server.Spec.MCP.URL = d.tools.URL + "/mcp"
		return api.Update(t.Context(), server) == nil || api.Get(t.Context(), client.ObjectKeyFromObject(server), server) != nil
	})
	d.want(d.finished("early"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
}

func condition(r *v1alpha1.AgentRun, kind string) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// TestKeysOfToolsAreSeenNowhere lets the tool server tell its key back, and looks for it and the model's everywhere.
func TestKeysOfToolsAreSeenNowhere(t *testing.T) {
	t.Parallel()
	d := open(t, wants(reads("1")), wants(refunds(1)), answer("Done."))
	d.tools.Behave(toolserver.GetCustomer, toolserver.Mood{Echo: true})
	d.approvers("finance", "alice")
	d.start("canary")
	areq := d.requested(1, v1alpha1.ApprovalPending)[0].Name
	d.approves("alice", areq)
	r := d.finished("canary")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 2)

	seen := map[string][]byte{}
	for _, kind := range []string{"agentruns", "approvalrequests", "toolservers", "definitionrevisions", "jobs", "pods", "events", "configmaps"} {
		out, err := shared.Kubectl(t.Context(), "-n", d.namespace, "get", kind, "-o", "json")
		if err != nil {
			t.Fatal(err)
		}
		seen["kubectl get "+kind] = []byte(out)
	}
	for _, p := range d.pods() {
		out, err := shared.Kubectl(t.Context(), "-n", d.namespace, "logs", p.Name)
		if err != nil {
			t.Fatal(err)
		}
		seen["logs of "+p.Name] = []byte(out)
	}
	for i, body := range d.model.Bodies() {
		seen["model request "+itoa(i)] = body
	}
	super := superuser(t)
	for _, table := range []string{"transcript", "calls", "outcomes", "snapshots", "contracts", "inbox", "attempts", "runs"} {
		var out string
		if err := super.QueryRow(context.Background(), `SELECT coalesce(jsonb_agg(to_jsonb(x)), '[]')::text FROM ekiden.`+table+` x`).Scan(&out); err != nil {
			t.Fatal(err)
		}
		seen["table "+table] = []byte(out)
	}
	logs, err := shared.Kubectl(t.Context(), "-n", "ekiden-system", "logs", "-l", "app.kubernetes.io/name=ekiden-manager", "--tail=-1")
	if err != nil {
		t.Fatal(err)
	}
	seen["logs of the manager"] = []byte(logs)
	for where, what := range seen {
		for _, key := range []string{canary, toolCanary} {
			if bytes.Contains(what, []byte(key)) {
				t.Errorf("%s holds a key", where)
			}
		}
	}
	if !bytes.Contains(seen["table calls"], []byte("[redacted]")) {
		t.Error("the server did not tell its key back, so that nothing was tried")
	}
}

// TestWhatAnApprovalWrites counts what the manager writes for a run of two segments with one approval between them, by the API
// server's own audit log. Transactions of a call are counted in the store's suite.
func TestWhatAnApprovalWrites(t *testing.T) {
	t.Parallel()
	d := open(t, wants(refunds(1)), answer("Done."))
	d.approvers("finance", "alice")
	d.compiled() // what a run says while it waits for that is not counted
	d.start("refund")
	d.parked()
	d.approves("alice", d.requested(1, v1alpha1.ApprovalPending)[0].Name)
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.told("refund", v1alpha1.ReasonCompleted)
	if n := len(d.segments()); n != 2 {
		t.Errorf("%d segments", n)
	}
	count := map[string]int{}
	for _, w := range managerWrites(t, d.namespace, "refund") {
		count[w]++
	}
	t.Logf("%v", count)
	for write, most := range map[string]int{
		"create jobs":                   2, // one a segment
		"create approvalrequests":       1,
		"patch approvalrequests/status": 2, // open, decided
		"patch agentruns":               1, // the finalizer
		"patch agentruns/status":        6, // starting and running twice, waiting, completed
	} {
		if count[write] > most {
			t.Errorf("%d times %s, want at most %d", count[write], write, most)
		}
	}
	var snapshot struct {
		Tools []contract.ToolContract `json:"tools"`
	}
	var body string
	if err := superuser(t).QueryRow(t.Context(), `SELECT body FROM ekiden.snapshots WHERE run_uid = $1`, string(r.UID)).Scan(&body); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(body), &snapshot); err != nil || len(snapshot.Tools) != 2 {
		t.Errorf("the snapshot has %d contracts, %v", len(snapshot.Tools), err)
	}
}
