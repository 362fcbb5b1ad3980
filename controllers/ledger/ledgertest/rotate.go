package ledgertest

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
)

// turn lets the login of one slot follow that of another.
func (l *Ledger) turn(to *ledger.Tenant, from ledger.Tenant) {
	to.Retiring = from.Retiring || from.Slot != to.Slot
	if from.Slot != to.Slot {
		l.turned[to.NamespaceUID] = l.now()
	}
}

// NextSlot is the slot for a new login.
func (l *Ledger) NextSlot(_ context.Context, namespace types.UID) (ledger.Slot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.tenant(namespace); i >= 0 {
		return l.tenants[i].Slot.Next(), nil
	}
	return "", nil
}

// Retire forgets the logins before the present one, once nobody can use them any more.
func (l *Ledger) Retire(_ context.Context, namespace types.UID, after time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, due := l.tenant(namespace), l.turned[namespace].Add(after)
	if i < 0 || l.now().Before(due) {
		return nil
	}
	for _, r := range l.runs {
		for _, a := range r.attempts {
			newest := a.Segment == r.attempts[len(r.attempts)-1].Segment
			if r.identity.NamespaceUID == namespace && newest && a.Class == "" && !a.BegunAt.After(due) {
				return nil
			}
		}
	}
	l.tenants[i].Retiring = false
	return nil
}

func (s suite) rotation() {
	expect := func(want ...ledger.Tenant) {
		s.Helper()
		all, err := s.Tenants(s.Context())
		s.ok(err)
		s.same(append([]ledger.Tenant{}, all...), append([]ledger.Tenant{}, want...))
	}
	slot := func(want ledger.Slot) {
		s.Helper()
		got, err := s.NextSlot(s.Context(), s.namespace)
		s.ok(err)
		s.same(got, want)
	}
	slot("")
	t := ledger.Tenant{Namespace: "team", NamespaceUID: s.namespace, Password: "secret"}
	s.ok(s.Provision(s.Context(), t))
	s.ok(s.Retire(s.Context(), s.namespace, 0))
	expect(ledger.Tenant{Namespace: "team", NamespaceUID: s.namespace})

	run, k := s.admitted().UID, ledger.AttemptKey{}
	s.ok(s.BeginAttempt(s.Context(), run, k))
	later := s.admitted().UID // of which a manager that lags has begun an earlier segment once more
	for _, begun := range []ledger.AttemptKey{{}, {Segment: 1}, {Attempt: 1}} {
		s.ok(s.BeginAttempt(s.Context(), later, begun))
	}
	s.ok(s.EndAttempt(s.Context(), later, ledger.AttemptKey{Segment: 1}, ledger.AttemptEnd{Class: lifecycle.Yielded}))
	for _, next := range []ledger.Slot{"a", "b", "a"} {
		slot(next)
		t.Slot = next
		for range 2 {
			s.ok(s.Provision(s.Context(), t))
		}
	}
	retiring := ledger.Tenant{Namespace: "team", NamespaceUID: s.namespace, Slot: "a", Retiring: true}
	expect(retiring)
	s.ok(s.Retire(s.Context(), s.namespace, 0)) // a pod may have been started with an earlier login
	expect(retiring)
	s.ok(s.EndAttempt(s.Context(), run, k, ledger.AttemptEnd{Class: lifecycle.Crashed, Terminated: true}))
	s.ok(s.Retire(s.Context(), s.namespace, time.Hour)) // too early
	expect(retiring)
	for range 2 {
		s.ok(s.Retire(s.Context(), s.namespace, 0))
		expect(ledger.Tenant{Namespace: "team", NamespaceUID: s.namespace, Slot: "a"})
	}
	s.ok(s.Unprovision(s.Context(), s.namespace))
	s.ok(s.Retire(s.Context(), s.namespace, 0))
	expect()
}
