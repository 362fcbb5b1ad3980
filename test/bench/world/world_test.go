package world_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// TestAnEffectOutlivesItsClient has one effect done in peace, and one whose client leaves in the middle.
func TestAnEffectOutlivesItsClient(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(world.New(300*time.Millisecond, 1))
	t.Cleanup(server.Close)
	c := world.Dial(server.URL)
	whole, broken := world.Effect{Run: "r", Step: "0"}, world.Effect{Run: "r", Step: "1"}
	if err := c.Act(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	leaving, leave := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Act(leaving, broken) }()
	wait(t, c, 1)
	leave()
	if err := <-done; err == nil {
		t.Fatal("who left has heard an answer")
	}
	r := wait(t, c, 0)
	got := map[world.Effect]world.Count{}
	for _, n := range r.Effects {
		got[n.Effect] = n
	}
	if n := got[whole]; n.Executions != 1 || n.Abandoned != 0 {
		t.Errorf("the one in peace: %+v", n)
	}
	if n := got[broken]; n.Executions != 1 || n.Abandoned != 1 {
		t.Errorf("the one whose client left: %+v", n)
	}
}

// wait waits until so many effects go on.
func wait(t *testing.T, c *world.Client, busy int) world.Report {
	t.Helper()
	for {
		r, err := c.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Busy == busy {
			return r
		}
	}
}
