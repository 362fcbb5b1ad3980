package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

// settlesPolicies is what the manager does once it has committed a version: it waits for whoever began under an older one.
const settlesPolicies = `SELECT FROM ekiden.claims WHERE namespace_uid = $1 AND holder IS NOT NULL ORDER BY run_uid, lane FOR NO KEY UPDATE`

// TestNoCallBeginsUnderAnOlderPolicy stops a call's intent between its look at the policy and its commit, and changes the
// policy meanwhile. The manager's lock is not granted before the intent has committed, and afterwards none is accepted.
func TestNoCallBeginsUnderAnOlderPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	s := w.claim(t, run)
	w.policy(t, contract.PolicySet{})
	i := storetest.Intent(0, 0)
	i.PolicyVersion = 1

	// Somebody else is about to add the very row, so that the intent has to wait for what becomes of it.
	rival := transaction(t, pgtest.Connect(t, w.Superuser))
	if _, err := rival.Exec(t.Context(), `
INSERT INTO ekiden.calls (run_uid, namespace_uid, turn, idx, generation, segment, tool, effect, digest, begun_at) VALUES ($1, $2, 0, 0, 0, 0, '', '', '', now())`,
		run, w.namespace); err != nil {
		t.Fatal(err)
	}
	begun := make(chan error, 1)
	go func() { _, err := s.Begin(t.Context(), i); begun <- err }()
	w.untilWaiting(t, loginOf(t, w.tenant))

	w.policy(t, contract.PolicySet{}) // version 2, committed
	manager := transaction(t, pgtest.Connect(t, w.Manager))
	locked := make(chan error, 1)
	go func() { _, err := manager.Exec(t.Context(), settlesPolicies, w.namespace); locked <- err }()
	w.untilWaiting(t, w.ManagerLogin)
	select {
	case err := <-locked:
		t.Fatalf("the manager got its lock while an intent under the older version was under way: %v", err)
	default:
	}

	if err := rival.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; err != nil {
		t.Fatalf("beginning before the lock: %v", err)
	}
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	// From here on the promise holds. The manager sees what was begun before, and the lock need not be kept.
	var version int64
	if err := manager.QueryRow(t.Context(), `SELECT policy_version FROM ekiden.calls WHERE run_uid = $1 AND generation > 0`, run).Scan(&version); err != nil || version != 1 {
		t.Errorf("the manager sees a call begun under version %d, error %v", version, err)
	}
	if err := manager.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.Index = 1
	if _, err := s.Begin(t.Context(), i); !errors.Is(err, segment.ErrPolicyChanged) {
		t.Errorf("beginning under version 1 after the lock: got error %v, want ErrPolicyChanged", err)
	}
	i.PolicyVersion = 2
	if _, err := s.Begin(t.Context(), i); err != nil {
		t.Errorf("beginning under version 2: %v", err)
	}
}

func TestAPolicyOfAnotherSchemaIsNotGuessed(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"schema":99}`, `{`, ``} {
		w := newWorld(t)
		run := w.admitted(t)
		s := w.claim(t, run)
		w.exec(t, addPolicy, w.namespace, body)
		if _, err := s.Policy(t.Context()); !errors.Is(err, contract.ErrSchema) {
			t.Errorf("reading policy %q: got error %v, want ErrSchema", body, err)
		}
		if err := s.Release(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		_, s, err := w.store.Claim(t.Context(), segment.Ask{Run: run, Holder: "test"})
		if !errors.Is(err, contract.ErrSchema) || s == nil {
			t.Errorf("claiming under policy %q: session %v, error %v, want ErrSchema", body, s, err)
		}
	}
}

func transaction(t *testing.T, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}
