package request

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
)

// TestNamesAreLegalOneQuestionsAndTellTheirOrdinal tries names that are alike, with the greatest numbers there are.
func TestNamesAreLegalOneQuestionsAndTellTheirOrdinal(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, name := range []string{"a", "a-gate", "a-gate-r3", "a-t0c0-gate-s2-r1", strings.Repeat("x.", 126) + "x"} {
		for _, uid := range []types.UID{"u1", "u2"} {
			run := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid + types.UID(name)}}
			for _, k := range []lifecycle.RequestKey{{Seat: 1}, {Seat: 1, Ordinal: 12}, {Seat: 2}, {Seat: 2, Ordinal: 1}, {Turn: 9999, Index: 63, Seat: 5, Ordinal: 99}, {Turn: 1, Index: 1, Seat: 1}} {
				got := Name(run, k)
				if errs := validation.IsDNS1123Subdomain(got); len(errs) > 0 || len(got) > 80 || seen[got] || ordinal(got) != k.Ordinal {
					t.Errorf("%s of %s, %+v: %v, seen %t, ordinal %d", got, name, k, errs, seen[got], ordinal(got))
				}
				seen[got] = true
			}
		}
	}
}
