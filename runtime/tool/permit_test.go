package tool_test

import (
	"sync"
	"testing"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/gate"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// TestAPermitIsWhatItTakes goes the whole way, from a proposal of a model to a result.
func TestAPermitIsWhatItTakes(t *testing.T) {
	t.Parallel()
	r := newRig(t, "an MCP server with sessions", nil)
	offered := r.reads()
	g, err := gate.New(contract.Snapshot{
		Run:   contract.Identity{UID: "4b7e0c1a-0000-4000-8000-000000000002"},
		Agent: v1alpha1.CompiledAgent{Servers: []v1alpha1.CompiledServer{r.compiled}, Tools: []v1alpha1.CompiledTool{offered}},
		Tools: []contract.ToolContract{{Name: offered.Tool, Description: toolserver.Descriptions[offered.Tool], Schema: canonical(toolserver.CustomerSchema)}},
		Grant: []string{offered.Name},
	})
	if err != nil {
		t.Fatal(err)
	}
	verdict, ok := g.Judge(gate.Proposal{Tool: offered.Name, Arguments: `{"id": "c-1"}`}, gate.Circumstances{Left: 1}).(gate.Granted)
	if !ok {
		t.Fatal("the call is not granted")
	}
	if err := r.invoker.Invoke(t.Context(), verdict.Permit, r.recorder); err != nil {
		t.Fatal(err)
	}
	r.want(t, offered.Tool, came{segment.ResultAnswered, "", 1, 1, 1}, "Ada Lovelace")
	if keys := r.Counts().Keys; keys[verdict.Permit.Key()] != 1 {
		t.Errorf("it went out with %v", keys)
	}

	if err := r.invoker.Invoke(t.Context(), gate.Permit{}, r.recorder); err == nil || r.begun != 1 {
		t.Errorf("without a permit: %v, begun %d", err, r.begun)
	}
}

func TestCallsAtOnceShareASession(t *testing.T) {
	t.Parallel()
	r := newRig(t, "an MCP server with sessions", nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			j := &recorder{}
			if err := r.invoker.Make(t.Context(), r.reads(), `{"id":"c-1"}`, "k", j); err != nil || j.settled[0].Kind != segment.ResultAnswered {
				t.Errorf("%v, %+v", err, j.settled)
			}
		})
	}
	all.Wait()
	if c := r.Counts(); c.Sessions != 1 || c.Calls[toolserver.GetCustomer] != 8 {
		t.Errorf("%+v", c)
	}
}

func TestAServerThatTheSnapshotLacks(t *testing.T) {
	t.Parallel()
	r := newRig(t, api, nil)
	given := r.reads()
	given.Server = "other"
	if err := r.make(t.Context(), given); err == nil || err.Error() != `IncompatibleSession: the snapshot has the tool "crm__get_customer" and not its server "other"` {
		t.Errorf("got %v", err)
	}
}
