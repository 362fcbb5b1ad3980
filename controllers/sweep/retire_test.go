package sweep

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/ledger"
)

// retiring hears what is asked of it.
type retiring struct {
	ledger.Ledger
	asked []time.Duration
}

func (r *retiring) Retire(ctx context.Context, namespace types.UID, after time.Duration) error {
	r.asked = append(r.asked, after)
	return r.Ledger.Retire(ctx, namespace, after)
}

// TestALoginThatAnotherOneFollowsIsRetired is asked for in every sweep until it is done, and only of namespaces that have one.
func TestALoginThatAnotherOneFollowsIsRetired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "team-uid"}})
	l := &retiring{Ledger: w.ledger}
	w.Ledger = l
	for i, slot := range []ledger.Slot{"", "a", "a"} {
		if err := l.Provision(t.Context(), ledger.Tenant{Namespace: "team", NamespaceUID: "team-uid", Password: "p", Slot: slot}); err != nil {
			t.Fatal(err)
		}
		if err := w.Sweep(t.Context(), noon); err != nil {
			t.Fatal(err)
		}
		if len(l.asked) != i {
			t.Errorf("after %d sweeps: asked %d times", i+1, len(l.asked))
		}
	}
	if l.asked[0] < 10*time.Minute {
		t.Errorf("a discovery's pod lives longer than %s", l.asked[0])
	}
}
