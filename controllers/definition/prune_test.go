package definition

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// aged is a revision of the definition that is so many minutes old.
func aged(name string, minutes int) v1alpha1.DefinitionRevision {
	return v1alpha1.DefinitionRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(minutes) * time.Minute))},
		Spec:       v1alpha1.DefinitionRevisionSpec{DefinitionRef: v1alpha1.DefinitionReference{Kind: v1alpha1.AgentDefinitionKind, Name: given.Agent}},
	}
}

// many are revisions named a, b, c and so on, each a minute older than the last.
func many(n int) (out []v1alpha1.DefinitionRevision) {
	for i := range n {
		out = append(out, aged(string(rune('a'+i)), i))
	}
	return out
}

func TestSurplus(t *testing.T) {
	t.Parallel()
	pinned := func(r *v1alpha1.AgentRun) { r.Spec.DefinitionRef.Revision = "d" }
	executes := func(r *v1alpha1.AgentRun) { r.Status.Revision = "d" }
	ended := func(r *v1alpha1.AgentRun) { r.Status.FinishedAt = metav1.NewTime(noon) }
	run := func(change ...func(*v1alpha1.AgentRun)) []v1alpha1.AgentRun {
		return []v1alpha1.AgentRun{*given.Run("r", "team", change...)}
	}
	foreign := aged("z", 99)
	foreign.Spec.DefinitionRef.Name = "other"
	tests := map[string]struct {
		limit     int32
		current   string
		revisions []v1alpha1.DefinitionRevision
		runs      []v1alpha1.AgentRun
		want      []string
	}{
		"none of none":                           {current: "a", limit: 1},
		"the current one does not count":         {current: "a", limit: 1, revisions: many(2)},
		"the oldest go":                          {current: "a", limit: 1, revisions: many(4), want: []string{"c", "d"}},
		"the current one stays though it is old": {current: "d", limit: 1, revisions: many(4), want: []string{"b", "c"}},
		"ten stay unless something else is said": {current: "a", revisions: many(13), want: []string{"l", "m"}},
		"none is current":                        {limit: 2, revisions: many(3), want: []string{"c"}},
		"one that a run is pinned to stays":      {current: "a", limit: 1, revisions: many(4), runs: run(pinned), want: []string{"c"}},
		"one that a run executes stays":          {current: "a", limit: 1, revisions: many(4), runs: run(executes), want: []string{"c"}},
		"one that a run has executed goes":       {current: "a", limit: 1, revisions: many(4), runs: run(pinned, executes, ended), want: []string{"c", "d"}},
		"that of another definition is not ours": {current: "a", limit: 1, revisions: append(many(2), foreign)},
		"of two of one age the later name goes":  {current: "x", limit: 1, revisions: []v1alpha1.DefinitionRevision{aged("c", 1), aged("b", 1)}, want: []string{"c"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			def := given.Definition("team", func(d *v1alpha1.AgentDefinition) {
				d.Spec.RevisionHistoryLimit, d.Status.CurrentRevision = tc.limit, tc.current
			})
			var got []string
			for _, r := range surplus(def, tc.revisions, tc.runs) {
				got = append(got, r.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("surplus() (-want +got):\n%s", diff)
			}
		})
	}
}
