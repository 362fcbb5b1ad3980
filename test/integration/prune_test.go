package integration

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// TestOldRevisionsGo once a definition has more of them than its history is to have.
func TestOldRevisionsGo(t *testing.T) {
	t.Parallel()
	s := tell(t).setUp(func(d *v1alpha1.AgentDefinition) { d.Spec.RevisionHistoryLimit = 1 })
	var d v1alpha1.AgentDefinition
	current := map[string]bool{}
	for i := range 4 {
		s.eventually("the definition is edited", func() bool {
			if api.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "triage"}, &d) != nil {
				return false
			}
			d.Spec.Instructions = fmt.Sprintf("Edit %d.", i)
			return api.Update(t.Context(), &d) == nil
		})
		s.eventually("the edit is compiled", func() bool {
			return api.Get(t.Context(), client.ObjectKeyFromObject(&d), &d) == nil && d.Status.ObservedGeneration == d.Generation
		})
		current[d.Status.CurrentRevision] = true
	}
	if len(current) != 4 {
		t.Errorf("4 edits made the revisions %v", current)
	}
	var left v1alpha1.DefinitionRevisionList
	s.eventually("two revisions are left: the current one, and one of before", func() bool {
		return api.List(t.Context(), &left, client.InNamespace(s.namespace)) == nil && len(left.Items) == 2
	})
	if a, b := left.Items[0].Name, left.Items[1].Name; a != d.Status.CurrentRevision && b != d.Status.CurrentRevision {
		t.Errorf("%s and %s are left, and %s is current", a, b, d.Status.CurrentRevision)
	}
}
