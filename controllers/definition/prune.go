package definition

import (
	"cmp"
	"slices"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
)

// surplus are the revisions of a definition that may go: older than the history limit, not current, and not used by
// a run that has not ended.
func surplus(def *v1alpha1.AgentDefinition, revisions []v1alpha1.DefinitionRevision, runs []v1alpha1.AgentRun) []v1alpha1.DefinitionRevision {
	used := map[string]bool{def.Status.CurrentRevision: true}
	for _, r := range runs {
		if r.Status.FinishedAt.IsZero() {
			used[r.Spec.DefinitionRef.Revision] = true
			used[r.Status.Revision] = true
		}
	}
	var old []v1alpha1.DefinitionRevision
	for _, r := range revisions {
		if !used[r.Name] && r.Spec.DefinitionRef.Name == def.Name {
			old = append(old, r)
		}
	}
	limit := int(def.Spec.RevisionHistoryLimit)
	if limit == 0 {
		limit = compile.RevisionHistoryLimit
	}
	slices.SortFunc(old, func(a, b v1alpha1.DefinitionRevision) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return old[min(limit, len(old)):]
}
