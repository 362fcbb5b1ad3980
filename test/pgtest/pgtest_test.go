package pgtest_test

import (
	"errors"
	"os"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	manager "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestManagerAndSegmentMeet is a run's life on both sides of the tables, each side with its own login.
func TestManagerAndSegmentMeet(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("got error %v, want %v", err, want)
		}
	}
	l, err := manager.Open(ctx, db.Manager)
	ok(err)
	t.Cleanup(l.Close)
	tenant := ledger.Tenant{Namespace: "team", NamespaceUID: types.UID(uuid.NewString()), Password: "p"}
	s, err := postgres.Open(ctx, db.DSN(tenant.Login(), tenant.Password))
	ok(err)
	t.Cleanup(s.Close)

	snapshot := storetest.Snapshot(tenant.NamespaceUID)
	run := snapshot.Run.UID
	ask := func(n, attempt int) segment.Ask {
		return segment.Ask{Run: run, Segment: n, Attempt: attempt, Holder: "pod"}
	}
	_, _, err = s.Claim(ctx, ask(0, 0))
	is(err, segment.ErrUnavailable) // the login is not there yet
	ok(l.Provision(ctx, tenant))
	_, _, err = s.Claim(ctx, ask(0, 0))
	is(err, segment.ErrNotAdmitted)
	ok(l.Admit(ctx, ledger.Admission{Snapshot: snapshot}))

	// A first attempt dies; the second need not wait for the lease.
	ok(l.BeginAttempt(ctx, run, ledger.AttemptKey{}))
	_, dead, err := s.Claim(ctx, ask(0, 0))
	ok(err)
	_, err = dead.Append(ctx, 0, []segment.Entry{storetest.Answer(0, "hello")}, storetest.Spent(0, 1))
	ok(err)
	_, _, err = s.Claim(ctx, ask(0, 1))
	is(err, segment.ErrBusy)
	ok(l.EndAttempt(ctx, run, ledger.AttemptKey{}, ledger.AttemptEnd{Class: "crashed", Terminated: true}))
	_, err = dead.Beat(ctx)
	is(err, segment.ErrFenced)
	is(dead.Yield(ctx, contract.Outcome{Yield: contract.YieldCompleted}, storetest.Spent(1, 1)), segment.ErrFenced)
	_, err = dead.Append(ctx, 1, []segment.Entry{storetest.Answer(1, "late")}, storetest.Spent(1, 1))
	is(err, segment.ErrFenced)

	ok(l.BeginAttempt(ctx, run, ledger.AttemptKey{Attempt: 1}))
	claim, session, err := s.Claim(ctx, ask(0, 1))
	ok(err)
	if len(claim.Transcript) != 1 {
		t.Fatalf("the session has %d entries", len(claim.Transcript))
	}
	ok(session.Yield(ctx, contract.Outcome{Yield: contract.YieldCheckpoint}, nil))
	r, err := l.Look(ctx, run)
	ok(err)
	if r.Outcome == nil || r.Outcome.Yield != contract.YieldCheckpoint || r.Usage != (ledger.Usage{Turns: 1, Input: 100, CacheRead: 10, Output: 20, Cost: 7}) {
		t.Fatalf("the manager sees %+v", r)
	}

	// The next one is cancelled at work, and closed.
	ok(l.BeginAttempt(ctx, run, ledger.AttemptKey{Segment: 1}))
	_, session, err = s.Claim(ctx, ask(1, 0))
	ok(err)
	ok(l.Cancel(ctx, run))
	pulse, err := session.Beat(ctx)
	ok(err)
	if !pulse.Cancelled {
		t.Fatal("the cancel is not seen")
	}
	_, err = l.Finish(ctx, run, ledger.End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled})
	ok(err)
	_, err = session.Append(ctx, 1, []segment.Entry{storetest.Answer(1, "late")}, nil)
	is(err, segment.ErrFenced)
	_, _, err = s.Claim(ctx, ask(segment.Newest, 0))
	is(err, segment.ErrOver)

	ok(l.Unprovision(ctx, tenant.NamespaceUID))
	_, err = session.Beat(ctx)
	is(err, segment.ErrUnavailable)
}

func TestAServerGoesDownAndUp(t *testing.T) {
	t.Parallel()
	if os.Getenv("EKIDEN_TEST_DSN") != "" {
		t.Log("the server is not ours to stop")
		return
	}
	s, err := pgtest.Start(pgtest.Options{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	dsn := s.DSN("postgres", "", "")
	if err := pgtest.Exec(t.Context(), dsn, `CREATE TABLE x (y int); INSERT INTO x VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(){s.Down, s.Crash} {
		end()
		if err := pgtest.Exec(t.Context(), dsn, `SELECT`); err == nil {
			t.Error("a server that is down answers")
		}
		if err := s.Up(); err != nil {
			t.Fatal(err)
		}
		if err := pgtest.Exec(t.Context(), dsn, `SELECT 1 / count(*) FROM x`); err != nil {
			t.Errorf("what was committed is gone: %v", err)
		}
	}
}
