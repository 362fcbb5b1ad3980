package postgres_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	store "github.com/ekiden-dev/ekiden/runtime/store/postgres"
)

// TestASegmentIsToldWhichProcessIsGone by the manager, which saw it end or did not.
func TestASegmentIsToldWhichProcessIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.provision(t, w.namespace, "p")
	s, err := store.Open(t.Context(), w.DSN(n.Login(), "p"))
	ok(t, err)
	t.Cleanup(s.Close)
	claim := func(run types.UID, attempt int) (segment.Claim, segment.Session) {
		t.Helper()
		c, session, err := s.Claim(t.Context(), segment.Ask{Run: run, Attempt: attempt, Holder: contract.Holder("run-s0-a0", "test", 1)})
		ok(t, err)
		return c, session
	}
	for name, tc := range map[string]struct {
		ends []ledger.AttemptEnd
		want bool
	}{
		"seen to end":                               {[]ledger.AttemptEnd{{Class: lifecycle.Crashed, Terminated: true}}, true},
		"its pod seen to end":                       {[]ledger.AttemptEnd{{Class: lifecycle.Crashed, Terminated: true, Pods: []types.UID{"another", "test"}}}, true},
		"another pod seen to end":                   {[]ledger.AttemptEnd{{Class: lifecycle.Crashed, Terminated: true, Pods: []types.UID{"another"}}}, false},
		"lost":                                      {[]ledger.AttemptEnd{{Class: lifecycle.Lost}}, false},
		"lost, and then seen to end":                {[]ledger.AttemptEnd{{Class: lifecycle.Lost}, {Class: lifecycle.Crashed, Terminated: true}}, true},
		"seen to end, and told of again":            {[]ledger.AttemptEnd{{Class: lifecycle.Crashed, Terminated: true}, {Class: lifecycle.Lost}}, true},
		"seen to end though it had left an outcome": {[]ledger.AttemptEnd{{Class: lifecycle.Yielded, Terminated: true}}, true},
	} {
		run, k := w.admitted(t), ledger.AttemptKey{}
		ok(t, w.BeginAttempt(t.Context(), run, k))
		_, session := claim(run, 0)
		_, err := session.Begin(t.Context(), segment.Intent{
			Tool: "s/t", Effect: v1alpha1.EffectSend, Idempotency: v1alpha1.IdempotencyNone, Digest: contract.Digest([]byte("{}")), Key: "k",
		})
		ok(t, err)
		for _, e := range tc.ends {
			ok(t, w.EndAttempt(t.Context(), run, k, e))
		}
		w.exec(t, `UPDATE ekiden.claims SET holder = NULL, lease_until = NULL WHERE run_uid = $1`, run)
		ok(t, w.BeginAttempt(t.Context(), run, ledger.AttemptKey{Attempt: 1}))
		c, _ := claim(run, 1)
		if got := c.Journal[segment.CallKey{}].Gone; got != tc.want {
			t.Errorf("%s: gone is %t", name, got)
		}
		// That the next one is gone says nothing of the one before.
		ok(t, w.EndAttempt(t.Context(), run, ledger.AttemptKey{Attempt: 1}, ledger.AttemptEnd{Class: lifecycle.Crashed, Terminated: true}))
		c, _ = claim(run, 2)
		if got := c.Journal[segment.CallKey{}].Gone; got != tc.want {
			t.Errorf("%s, and the next one seen to end: gone is %t", name, got)
		}
	}
}
