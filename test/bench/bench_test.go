package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ekiden-dev/ekiden/test/bench/cost"
	"github.com/ekiden-dev/ekiden/test/bench/growth"
	"github.com/ekiden-dev/ekiden/test/bench/kill"
	"github.com/ekiden-dev/ekiden/test/bench/role"
)

func TestMain(m *testing.M) {
	if role.Taken(plays) {
		return
	}
	os.Exit(m.Run())
}

// TestKill runs B1 small. What peers do again is theirs, and differs from time to time: that all of it ends is what keeps the
// bench alive. Ours does nothing again.
func TestKill(t *testing.T) {
	t.Parallel()
	binary := segmentBinary(t)
	for _, engine := range []string{"ekiden", "dbos", "river"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			var got []kill.Result
			run(t, "kill", &got, "-engines", engine, "-segment", binary, "-kills", "2", "-parallel", "3", "-effects", "2", "-effect", "100ms")
			r := got[0]
			if want := r.Runs * 2; r.Kills != 2 || r.Effects != want || r.Executions+r.Unknown-r.UnknownDone < want {
				t.Errorf("%d kills, %d effects ordered, %d done; want 2, %d and as many", r.Kills, r.Effects, r.Executions, want)
			}
			if r.Lost+r.Unfinished+r.Failed > 0 {
				t.Errorf("%d effects lost, %d runs unfinished, %d failed; want none", r.Lost, r.Unfinished, r.Failed)
			}
			if engine == "ekiden" && r.Extra > 0 {
				t.Errorf("%d effects were done again: %+v", r.Extra, r.Counts)
			}
		})
	}
}

// TestCost runs B2 small. Of ours the transactions are known: two for a call and one for a turn, beside those of the run.
func TestCost(t *testing.T) {
	t.Parallel()
	var got []cost.Result
	run(t, "cost", &got, "-parallel", "2", "-steps", "20", "-runs", "1")
	if len(got) != 8 {
		t.Fatalf("%d results, want those of four engines in two ways", len(got))
	}
	for _, r := range got {
		transactions, written := r.PerStep()
		if transactions < 1 || written <= 0 || r.Seconds <= 0 {
			t.Errorf("%s: %.2f transactions and %.0f bytes a step: that is not durable", r.Engine, transactions, written)
		}
	}
	for i, want := range []float64{2, 2, 3, 3} {
		if transactions, _ := got[i].PerStep(); transactions < want || transactions >= want+1 {
			t.Errorf("%s, %d at once: %.2f transactions a step, want %.0f and a share of the run's ten", got[i].Engine, got[i].Parallel, transactions, want)
		}
	}
}

// TestGrowth runs B4 small. The last tenth of a conversation costs us what the first did, and checkpoints ever more.
func TestGrowth(t *testing.T) {
	t.Parallel()
	var got []growth.Result
	run(t, "growth", &got, "-turns", "100", "-tokens", "80000")
	for i, r := range got {
		if r.Last != 100 || len(r.Marks) != 10 {
			t.Fatalf("%s: last turn %d, %d marks; want 100 and 10", r.Keeper, r.Last, len(r.Marks))
		}
		first, last := r.Marks[1].Written-r.Marks[0].Written, r.Marks[9].Written-r.Marks[8].Written
		if i == 0 && last > 2*first {
			t.Errorf("%s: turns 11 to 20 wrote %d bytes, turns 91 to 100 %d", r.Keeper, first, last)
		}
		if i == 1 && last < 3*first {
			t.Errorf("%s: turns 11 to 20 wrote %d bytes, turns 91 to 100 %d: these are no whole states", r.Keeper, first, last)
		}
	}
}

// run runs one bench and reads its results.
func run(t *testing.T, name string, results any, args ...string) {
	t.Helper()
	var out bytes.Buffer
	folder := t.TempDir()
	if err := bench(t.Context(), append([]string{"-only", name, "-out", folder}, args...), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log("\n" + out.String())
	body, err := os.ReadFile(filepath.Join(folder, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &raw{Results: results}); err != nil {
		t.Fatal(err)
	}
}

var built struct {
	once sync.Once
	path string
	err  error
}

// segmentBinary builds the segment of this tree.
func segmentBinary(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		built.path = filepath.Join(t.TempDir(), "segment")
		c := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w -X main.version=dev", "-o", built.path, "./runtime/cmd/segment")
		c.Dir = filepath.Join("..", "..")
		out, err := c.CombinedOutput()
		if built.err = err; err != nil {
			t.Log(string(out))
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}
