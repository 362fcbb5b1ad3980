// Package interleave stops every transaction that touches a run after each of its statements, carries out every other one
// meanwhile, and holds what both have done to the laws of the fence. Both are carried out by the programs' own adapters, each with
// its own login, on a real Postgres.
package interleave

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	manager "github.com/ekiden-dev/ekiden/controllers/ledger/postgres"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A deed is one transaction of a segment or of the manager. What differs between the two that meet is told by who.
type deed struct {
	name string
	// manager says with whose login it is carried out.
	manager bool
	// others is how many transactions of the same deed come before the one that is stopped.
	others int
	do     func(ctx context.Context, c *scene, who int) error
	// left counts what the deed leaves if it succeeds and must not leave if it is refused. Of what both do as one it counts what
	// either has left, and a refusal says nothing.
	left string
	same bool
}

const (
	first  = 1
	second = 2
)

var deeds = []deed{
	{name: "claim", do: func(ctx context.Context, c *scene, who int) error {
		_, _, err := c.store.Claim(ctx, segment.Ask{Run: c.run, Attempt: who, Holder: fmt.Sprint("rival ", who)})
		return err
	}, left: `SELECT count(*) FROM audit WHERE run_uid = $1 AND seq > {since} AND what = 'claims' AND row ->> 'holder' LIKE 'rival ' || $2::text || '#%' AND old ->> 'generation' <> row ->> 'generation'`},
	{name: "append", do: func(ctx context.Context, c *scene, who int) error {
		_, err := c.session.Append(ctx, 0, []segment.Entry{storetest.Answer(0, fmt.Sprint("of ", who))}, storetest.Spent(0, who))
		return err
	}, left: `SELECT count(*) FROM ekiden.transcript t JOIN ekiden.usage u USING (run_uid) WHERE run_uid = $1 AND body LIKE '%of ' || $2::text || '%' AND u.try = $2::int`},
	{name: "begin", do: func(ctx context.Context, c *scene, who int) error {
		i := storetest.Intent(0, 10+who)
		i.PolicyVersion = c.policy
		_, err := c.session.Begin(ctx, i)
		return err
	}, left: `SELECT count(*) FROM ekiden.calls WHERE run_uid = $1 AND idx = 10 + $2::int`},
	{name: "begin again", do: func(ctx context.Context, c *scene, who int) error {
		i := storetest.Intent(0, 0)
		i.PolicyVersion, i.Rule = c.policy, fmt.Sprint("rule ", who)
		_, err := c.session.Begin(ctx, i)
		if !expected(err) && !errors.Is(err, segment.ErrUnavailable) { // it was settled meanwhile
			return errRefused
		}
		return err
	}, left: `SELECT count(*) FROM audit WHERE run_uid = $1 AND seq > {since} AND what = 'calls' AND row ->> 'rule' = 'rule ' || $2::text AND (old ->> 'rule') IS DISTINCT FROM (row ->> 'rule')`},
	{name: "settle", do: func(ctx context.Context, c *scene, who int) error {
		s := storetest.Settlement(0, 0, segment.ResultAnswered)
		s.Result.Text = fmt.Sprint("of ", who)
		_, err := c.session.Settle(ctx, s)
		return err
	}, left: `SELECT count(*) FROM ekiden.calls WHERE run_uid = $1 AND idx = 0 AND settled_at IS NOT NULL AND $2::int > 0`, same: true},
	{name: "beat", do: func(ctx context.Context, c *scene, _ int) error {
		_, err := c.session.Beat(ctx)
		return err
	}},
	{name: "yield", do: func(ctx context.Context, c *scene, who int) error {
		return c.session.Yield(ctx, contract.Outcome{Yield: contract.YieldCompleted, Result: fmt.Sprint("of ", who)}, storetest.Spent(1, who))
	}, left: `SELECT count(*) FROM ekiden.outcomes WHERE run_uid = $1 AND result = 'of ' || $2::text`},
	{name: "release", do: func(ctx context.Context, c *scene, who int) error {
		return c.session.Release(ctx, storetest.Spent(2, who))
	}, left: `SELECT count(*) FROM ekiden.usage WHERE run_uid = $1 AND turn = 2 AND try = $2::int`},
	{name: "cancel", manager: true, do: func(ctx context.Context, c *scene, _ int) error {
		return c.ledger.Cancel(ctx, c.run)
	}},
	{name: "finish", manager: true, do: func(ctx context.Context, c *scene, who int) error {
		end, err := c.ledger.Finish(ctx, c.run, ledger.End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonPoisonSegment, Message: fmt.Sprint("of ", who)})
		if err == nil {
			c.ended(end)
		}
		return err
	}, left: `SELECT count(*) FROM ekiden.claims JOIN ekiden.runs USING (run_uid) WHERE run_uid = $1 AND final_at IS NOT NULL AND ended_at IS NOT NULL AND $2::int > 0`},
	{name: "end the attempt", manager: true, do: func(ctx context.Context, c *scene, _ int) error {
		return c.ledger.EndAttempt(ctx, c.run, ledger.AttemptKey{}, ledger.AttemptEnd{Class: lifecycle.Crashed, Terminated: true})
	}, left: `SELECT count(*) FROM ekiden.attempts WHERE run_uid = $1 AND ended_at IS NOT NULL AND $2::int > 0`},
	{name: "write a policy", manager: true, do: project},
	{name: "wait for a policy", manager: true, others: 1, do: project},
	{name: "deliver", manager: true, do: func(ctx context.Context, c *scene, who int) error {
		return c.ledger.Deliver(ctx, c.run, contract.Delivery{
			Request: c.requests[who], Index: 0, Seat: int32(who), Seats: 2, Phase: v1alpha1.ApprovalApproved, By: fmt.Sprint("person ", who),
		})
	}, left: `SELECT count(*) FROM ekiden.inbox WHERE run_uid = $1 AND seat = $2::int`},
}

// project puts a policy in force. From its return on no call begins under an older one, and that is written down for the audit.
func project(ctx context.Context, c *scene, who int) error {
	set := contract.PolicySet{Schema: contract.PolicySchema, Sources: []contract.PolicySource{{Namespace: "team", Name: fmt.Sprintf("%s-%d", c.run, who), UID: c.run}}}
	err := c.ledger.Project(ctx, c.namespace, set)
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.ConstraintName == "policies_pkey" { // of two that write at once one comes too late
		return errRefused
	}
	if err != nil {
		return err
	}
	body, err := set.Encode()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.marks.Exec(ctx, `INSERT INTO audit (what, row) SELECT 'in force', jsonb_build_object('version', version) FROM ekiden.policies WHERE body = $1`, string(body))
	return err
}

// errRefused stands for a refusal that has no name in the contract.
var errRefused = errors.New("refused")

// expected reports whether an error is a refusal by the fence or by what it guards. No other may come of two that meet: neither
// a deadlock nor a lock that is waited for too long.
func expected(err error) bool {
	for _, is := range []error{segment.ErrFenced, segment.ErrBusy, segment.ErrOver, segment.ErrCancelled, segment.ErrPolicyChanged, errRefused} {
		if errors.Is(err, is) {
			return true
		}
	}
	return err == nil
}

// situations are what the two find: what has become of the claim of the session that both have. When the lease has lapsed
// everything may happen; the others are for the full gates.
var situations = []struct{ name, becomes string }{
	{lapsed, `UPDATE ekiden.claims SET lease_until = now() - interval '1 min' WHERE run_uid = $1`},
	{"while the lease stands", ``},
	{"after a takeover", `UPDATE ekiden.claims SET generation = generation + 1, holder = 'next', attempt = 1 WHERE run_uid = $1`},
	{"after it was given back", `UPDATE ekiden.claims SET holder = NULL, lease_until = NULL WHERE run_uid = $1`},
}

const lapsed = "when the lease has lapsed"

// full says whether the gates are run in full.
func full() bool { return os.Getenv("EKIDEN_GATES") == "full" }

// TestEveryTransactionStoppedAtEveryStatement is all pairs at all statements, in each situation.
func TestEveryTransactionStoppedAtEveryStatement(t *testing.T) {
	t.Parallel()
	for _, s := range situations {
		if s.name != lapsed && !full() {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			met := 0
			for _, x := range deeds {
				for _, y := range deeds {
					for after, statements := 0, 0; after <= statements; after++ {
						statements = w.meet(t, s.becomes, x, y, after)
						met++
					}
				}
			}
			w.withoutDeadlock(t)
			t.Logf("%d meetings", met)
			if want := len(deeds) * len(deeds) * 2; met <= want {
				t.Errorf("only %d meetings: transactions were not stopped between statements", met)
			}
		})
	}
}

type world struct {
	*pgtest.Database
	namespace       types.UID
	tenant, manager *pgtest.Stepper
	store           *postgres.Store
	ledger          *manager.Ledger
	super, marks    *pgx.Conn
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Database: pgtest.New(t), namespace: types.UID(uuid.NewString())}
	w.super, w.marks = pgtest.Connect(t, w.Superuser), pgtest.Connect(t, w.Superuser)
	_, err := w.super.PgConn().Exec(t.Context(), audit).ReadAll()
	ok(t, err)
	w.tenant, w.manager = pgtest.NewStepper(t, w.Tenant(t, w.namespace)), pgtest.NewStepper(t, w.Manager)
	w.store, err = postgres.Open(t.Context(), w.tenant.DSN)
	ok(t, err)
	t.Cleanup(w.store.Close)
	w.store.SetTimes(contract.LeaseTTL, 0)
	w.ledger, err = manager.Open(t.Context(), w.manager.DSN)
	ok(t, err)
	t.Cleanup(w.ledger.Close)
	return w
}

// scene is one run, with one session at work.
type scene struct {
	*world
	run      types.UID
	session  segment.Session
	policy   int64
	requests map[int]types.UID
	// since is where its audit begins.
	since int64
	// meanwhile is what could be seen when the second had ended and the first had not, or empty.
	meanwhile string

	mu   sync.Mutex
	ends []ledger.End
}

func (c *scene) ended(e ledger.End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, e)
}

// scene makes a run that is held under generation 1, with call 0 begun.
func (w *world) scene(t *testing.T, becomes string) *scene {
	t.Helper()
	s := storetest.Snapshot(w.namespace)
	c := &scene{world: w, run: s.Run.UID, requests: map[int]types.UID{first: types.UID(uuid.NewString()), second: types.UID(uuid.NewString())}}
	ok(t, w.ledger.Admit(t.Context(), ledger.Admission{Snapshot: s}))
	ok(t, w.ledger.BeginAttempt(t.Context(), c.run, ledger.AttemptKey{}))
	claim, session, err := w.store.Claim(t.Context(), segment.Ask{Run: c.run, Holder: "holder"})
	ok(t, err)
	c.session, c.policy = session, claim.Policy.Version
	i := storetest.Intent(0, 0)
	i.PolicyVersion = c.policy
	_, err = session.Begin(t.Context(), i)
	ok(t, err)
	if becomes != "" {
		_, err = w.super.Exec(t.Context(), becomes, c.run)
		ok(t, err)
	}
	ok(t, w.super.QueryRow(t.Context(), `SELECT coalesce(max(seq), 0) FROM audit`).Scan(&c.since))
	return c
}

// meet stops x after so many statements, lets y run until it has ended or waits for x, and lets x go on. It returns how many
// statements x has.
func (w *world) meet(t *testing.T, becomes string, x, y deed, after int) (statements int) {
	t.Helper()
	c := w.scene(t, becomes)
	stepper := w.tenant
	if x.manager {
		stepper = w.manager
	}
	stop := stepper.StopAfter(after, x.others)
	defer stepper.Disarm()
	defer stop.GoOn()
	found := w.claimOf(t, c.run)

	xs, ys := make(chan error, 1), make(chan error, 1)
	go func() { xs <- x.do(t.Context(), c, first) }()
	select {
	case <-stop.Reached:
	case err := <-xs:
		t.Fatalf("%s: %v before it was stopped", x.name, err)
	}
	go func() { ys <- y.do(t.Context(), c, second) }()
	var got [3]error
	answered := w.untilWaiting(t, ys, &got[second])
	if answered {
		ok(t, w.super.QueryRow(t.Context(), `SELECT pg_current_snapshot()::text`).Scan(&c.meanwhile))
	}
	stop.GoOn()
	got[first] = <-xs
	if !answered {
		got[second] = <-ys
	}

	about := fmt.Sprintf("%s stopped after %d statements, and %s", x.name, after, y.name)
	for who, d := range map[int]deed{first: x, second: y} {
		if !expected(got[who]) {
			t.Errorf("%s: %s: %v", about, d.name, got[who])
		}
		if d.left == "" {
			continue
		}
		var n int
		ok(t, w.super.QueryRow(t.Context(), strings.ReplaceAll(d.left, "{since}", strconv.FormatInt(c.since, 10)), c.run, who).Scan(&n))
		if refused := got[who] != nil; refused && !d.same && n != 0 || !refused && n == 0 {
			t.Errorf("%s: %s left %d rows, error %v", about, d.name, n, got[who])
		}
	}
	if len(c.ends) == 2 && c.ends[0] != c.ends[1] {
		t.Errorf("%s: two ends: %+v", about, c.ends)
	}
	for _, broken := range judge(found, w.audited(t, c)) {
		t.Errorf("%s: %s", about, broken)
	}
	return stop.Statements()
}

// untilWaiting returns when y has ended, which it tells, or when somebody waits for a lock.
func (w *world) untilWaiting(t *testing.T, ended <-chan error, err *error) bool {
	t.Helper()
	limit := time.Now().Add(30 * time.Second)
	for time.Now().Before(limit) {
		select {
		case *err = <-ended:
			return true
		default:
		}
		var waiting bool
		ok(t, w.super.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting))
		if waiting {
			return false
		}
	}
	t.Fatal("the second neither ends nor waits")
	return false
}

// withoutDeadlock asks Postgres whether it has ever had to break one.
func (w *world) withoutDeadlock(t *testing.T) {
	t.Helper()
	var n int
	ok(t, w.super.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n))
	if n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
