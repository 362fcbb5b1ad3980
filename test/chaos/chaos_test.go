package chaos

import (
	"os"
	"path/filepath"
	"testing"
)

// TestKillAnything breaks what FromEnvironment says, and fails with the evidence of whatever was lost or repeated.
func TestKillAnything(t *testing.T) {
	o, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ekiden-chaos-") //nolint:usetesting // it outlives a test that failed, for whoever looks why
	if err != nil {
		t.Fatal(err)
	}
	t.Log(o)
	repo, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), o, dir, repo, t.Logf)
	if err != nil {
		t.Fatalf("%v\nlogs of the cluster are in %s", err, dir)
	}
	t.Logf("\n%s", report)
	for _, v := range report.Violations {
		t.Errorf("%s", v)
	}
	if report.Kills < o.Kills {
		t.Errorf("%d kills, not %d: it took too long", report.Kills, o.Kills)
	}
	for _, missing := range o.missing(report) {
		t.Errorf("not enough of it: %s", missing)
	}
	if t.Failed() {
		t.Logf("again with: %s make chaos\nlogs of the cluster are in %s", o, dir)
		return
	}
	_ = os.RemoveAll(dir)
}
