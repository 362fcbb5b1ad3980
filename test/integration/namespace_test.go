package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestANamespaceIsDeletedUnderARunThatWorks: nothing wedges, and no process is left.
func TestANamespaceIsDeletedUnderARunThatWorks(t *testing.T) {
	t.Parallel()
	s := tell(t, gated("never", answer("Never said."))).setUp()
	r := s.start("doomed")
	s.requests(1)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := api.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	s.eventually("the namespace is gone", func() bool {
		err := api.Get(t.Context(), client.ObjectKeyFromObject(ns), ns)
		return err != nil && client.IgnoreNotFound(err) == nil
	})
	s.eventually("its process is gone", func() bool { return len(processes(t, "segment", "--run="+string(r.UID))) == 0 })
	s.wantRequests(1)
}
