package metrics

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// scraped are the values of a collector, by name or else by the value of its one label.
func scraped(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name = l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}

func TestOpenApprovalsAreCountedWhenTheyAreScraped(t *testing.T) {
	t.Parallel()
	var c approvals
	if got := scraped(t, &c); len(got) != 0 {
		t.Errorf("%v before anybody can tell", got)
	}
	state, known := Approvals{Open: 2, Oldest: 90 * time.Second, Guarded: true}, true
	look := func(context.Context) (Approvals, bool) { return state, known }
	c.look.Store(&look)
	want := func(open, oldest, guarded float64) {
		t.Helper()
		if diff := cmp.Diff(map[string]float64{
			"ekiden_approvals_pending": open, "ekiden_approvals_oldest_pending_seconds": oldest, "ekiden_approvals_guarded": guarded,
		}, scraped(t, &c)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	want(2, 90, 1)
	state = Approvals{}
	want(0, 0, 0)
	known = false
	if got := scraped(t, &c); len(got) != 0 {
		t.Errorf("%v of a manager that only waits", got)
	}
}

func TestEveryVerdictIsCounted(t *testing.T) {
	t.Parallel()
	before := scraped(t, approvalsDecided)
	want := maps.Clone(before)
	for reason, verdict := range verdicts {
		want[verdict]++
		ApprovalDecided(reason)
	}
	ApprovalDecided("AwaitingDecision")
	if diff := cmp.Diff(want, scraped(t, approvalsDecided)); diff != "" || len(want) != 10 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
