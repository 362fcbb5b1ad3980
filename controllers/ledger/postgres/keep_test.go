package postgres_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	day          = 24 * time.Hour
	keepSessions = 30 * day
	keepRuns     = 400 * day
)

// all are the tables of runs, those that are kept for longer last.
var all = []string{"transcript", "calls", "inbox", "outcomes", "attempts", "snapshots", "usage", "claims", "runs"}

// grown is a tree of runs with rows in every table. Ages are those of their ends; a negative one is that of a run that goes on.
type grown struct {
	root types.UID
	runs []types.UID
	ages []time.Duration
}

// age is that of the youngest end.
func (g grown) age() time.Duration {
	youngest := g.ages[0]
	for _, a := range g.ages {
		youngest = min(youngest, a)
	}
	return youngest
}

func (w *world) grow(t *testing.T, r *rand.Rand, ages ...time.Duration) grown {
	t.Helper()
	g := grown{ages: ages}
	for i, age := range ages {
		s := w.snapshot()
		if i == 0 {
			g.root = s.Run.UID
		}
		s.Run.RootUID = g.root
		ok(t, w.Admit(t.Context(), ledger.Admission{Snapshot: s}))
		g.runs = append(g.runs, s.Run.UID)
		w.fill(t, s.Run, 1+r.IntN(6))
		if age >= 0 {
			_, err := w.Finish(t.Context(), s.Run.UID, ledger.End{Phase: v1alpha1.RunSucceeded, Code: v1alpha1.ReasonCompleted})
			ok(t, err)
			w.exec(t, `UPDATE ekiden.runs SET ended_at = now() - $2::bigint * interval '1 ms' WHERE run_uid = $1`, s.Run.UID, age.Milliseconds())
		}
	}
	return g
}

// fill gives a run so many rows in each table that holds more than one.
func (w *world) fill(t *testing.T, run contract.Identity, n int) {
	t.Helper()
	for _, insert := range []string{
		`transcript (run_uid, namespace_uid, seq, generation, segment, kind, schema, body) SELECT $1, $2, n, 1, 0, 'Started', 1, '{}'`,
		`usage (run_uid, namespace_uid, turn, try, generation, input, cache_read, output, estimated, cost_micros) SELECT $1, $2, n, 1, 1, 1, 1, 1, false, 1`,
		`outcomes (run_uid, namespace_uid, segment, generation, yield) SELECT $1, $2, n, 1, 'checkpoint'`,
		`calls (run_uid, namespace_uid, turn, idx, generation, segment, tool, effect, digest, begun_at) SELECT $1, $2, n, 0, 1, 0, 's/t', 'Send', 'd', now()`,
		`inbox (run_uid, namespace_uid, kind, request_uid, turn, idx, digest, seat, seats, phase) SELECT $1, $2, 'approval', gen_random_uuid(), n, 0, 'd', 1, 1, 'Expired'`,
		`attempts (run_uid, namespace_uid, segment, attempt) SELECT $1, $2, n, 0`,
	} {
		w.exec(t, `INSERT INTO ekiden.`+insert+` FROM generate_series(1, $3::int) n`, run.UID, run.NamespaceUID, n)
	}
}

// rows counts what there is of a tree, by table.
func (w *world) rows(t *testing.T, g grown) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, table := range all {
		if n := w.number(t, fmt.Sprintf(`SELECT count(*) FROM ekiden.%s WHERE run_uid = ANY ($1::uuid[])`, table), texts(g.runs)); n > 0 {
			out[table] = n
		}
	}
	return out
}

func texts(uids []types.UID) []string {
	out := make([]string, len(uids))
	for i, u := range uids {
		out[i] = string(u)
	}
	return out
}

// left is what is to be left of a tree once everything old is deleted.
func left(g grown, before map[string]int) map[string]int {
	switch age := g.age(); {
	case age > keepRuns:
		return map[string]int{}
	case age > keepSessions:
		return map[string]int{"usage": before["usage"], "claims": before["claims"], "runs": before["runs"]}
	default:
		return before
	}
}

// TestOnlyOldTreesAreDeleted grows trees at random, deletes a few rows at a time and is interrupted again and again. After each step
// everything of a tree is there that is not old; in the end nothing is left of what is.
func TestOnlyOldTreesAreDeleted(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	ages := []time.Duration{-1, 0, day, 29 * day, 31 * day, 399 * day, 401 * day, 500 * day}
	var trees []grown
	before := map[types.UID]map[string]int{}
	for i := range 30 {
		of := []time.Duration{ages[i%len(ages)]}
		for range r.IntN(3) {
			of = append(of, ages[r.IntN(len(ages))])
		}
		g := w.grow(t, r, of...)
		trees, before[g.root] = append(trees, g), w.rows(t, g)
	}
	steps, interruptions := 0, 0
	for ; ; interruptions++ {
		if w.sweepSome(t, 1+r.IntN(3), func() {
			steps++
			g := trees[r.IntN(len(trees))]
			got, want := w.rows(t, g), left(g, before[g.root])
			for table, n := range want {
				if got[table] != n {
					t.Fatalf("after %d steps tree %v has %d rows of %s, want %d", steps, g.ages, got[table], table, n)
				}
			}
		}) {
			break
		}
	}
	t.Logf("%d steps, %d interruptions", steps, interruptions)
	deleted := map[string]int{}
	for _, g := range trees {
		after := left(g, before[g.root])
		for table, n := range before[g.root] {
			deleted[table] += n - after[table]
		}
		if diff := cmp.Diff(after, w.rows(t, g)); diff != "" {
			t.Errorf("tree %v (-want +got):\n%s", g.ages, diff)
		}
		for i, run := range g.runs { // what is left can be looked at
			rec, err := w.Look(t.Context(), run)
			ok(t, err)
			if (rec == nil) != (g.age() > keepRuns) || rec != nil && (rec.End != nil) != (g.ages[i] >= 0) {
				t.Errorf("run %d of %v shows as %+v", i, g.ages, rec)
			}
		}
	}
	for table, n := range deleted {
		if n > rowsAStep*steps {
			t.Errorf("%d rows of %s went in %d steps", n, table, steps)
		}
	}
	if interruptions == 0 {
		t.Error("nothing was interrupted")
	}
}

// rowsAStep is how many rows of a table may go at a time: few, so that there are many moments between.
const rowsAStep = 2

// sweepSome deletes what is old, a few rows at a time. It is interrupted after so many steps, and reports whether it was done before.
func (w *world) sweepSome(t *testing.T, steps int, step func()) (done bool) {
	t.Helper()
	for what, keep := range map[ledger.Kept]time.Duration{ledger.Sessions: keepSessions, ledger.Runs: keepRuns} {
		var last ledger.Tree
		for {
			old, err := w.Old(t.Context(), what, keep, last, 3)
			ok(t, err)
			if len(old) == 0 {
				break
			}
			var roots []types.UID
			for _, o := range old {
				roots = append(roots, o.Root)
			}
			for {
				n, err := w.Drop(t.Context(), what, keep, roots, rowsAStep)
				ok(t, err)
				step()
				if steps--; steps == 0 {
					return false
				}
				if n.Total() == 0 {
					break
				}
			}
			last = old[len(old)-1]
		}
	}
	return true
}

// TestWhatIsNotOldIsNotDeletedThoughItIsAskedFor is about a tree that was old when it was listed.
func TestWhatIsNotOldIsNotDeletedThoughItIsAskedFor(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), rand.New(rand.NewPCG(1, 2))
	for name, ages := range map[string][]time.Duration{
		"a run that goes on":             {-1},
		"a run that has just ended":      {0},
		"a root with a child that lives": {500 * day, -1},
		"a child with a root that lives": {-1, 500 * day},
		"a root with a child that ended": {500 * day, day},
	} {
		g := w.grow(t, r, ages...)
		before := w.rows(t, g)
		for _, what := range []ledger.Kept{ledger.Sessions, ledger.Runs} {
			n, err := w.Drop(t.Context(), what, keepSessions, []types.UID{g.root}, 100)
			ok(t, err)
			if n.Total() != 0 || !maps.Equal(before, w.rows(t, g)) {
				t.Errorf("%s: deleted %v of %v", name, n, before)
			}
		}
	}
}

// TestAKeyIsRememberedAsLongAsItsRun and no longer.
func TestAKeyIsRememberedAsLongAsItsRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.snapshot()
	ok(t, w.Admit(t.Context(), ledger.Admission{Snapshot: first, IdempotencyKey: "k"}))
	_, err := w.Finish(t.Context(), first.Run.UID, ledger.End{Phase: v1alpha1.RunSucceeded})
	ok(t, err)
	w.exec(t, `UPDATE ekiden.runs SET ended_at = now() - interval '500 days' WHERE run_uid = $1`, first.Run.UID)
	again := func() error {
		return w.Admit(t.Context(), ledger.Admission{Snapshot: w.snapshot(), IdempotencyKey: "k"})
	}
	drop := func(what ledger.Kept) {
		t.Helper()
		for {
			n, err := w.Drop(t.Context(), what, keepRuns, []types.UID{first.Run.UID}, 100)
			ok(t, err)
			if n.Total() == 0 {
				return
			}
		}
	}
	drop(ledger.Sessions)
	var dup *ledger.DuplicateError
	if err := again(); !errors.As(err, &dup) || dup.Of.UID != first.Run.UID {
		t.Errorf("without its session: %v", err)
	}
	drop(ledger.Runs)
	ok(t, again())
}

// TestALockedRowIsLeftForTheNextTime: a login may lock rows of its own, and keeps nobody waiting.
func TestALockedRowIsLeftForTheNextTime(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), rand.New(rand.NewPCG(1, 2))
	g := w.grow(t, r, 500*day)
	tx, err := w.super.Begin(t.Context())
	ok(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM ekiden.claims WHERE run_uid = $1 FOR UPDATE`, g.root)
	ok(t, err)
	drop := func() {
		t.Helper()
		for {
			n, err := w.Drop(t.Context(), ledger.Runs, keepRuns, []types.UID{g.root}, 100)
			ok(t, err)
			if n.Total() == 0 {
				return
			}
		}
	}
	drop()
	ok(t, tx.Rollback(t.Context()))
	if diff := cmp.Diff(map[string]int{"claims": 1, "runs": 1}, w.rows(t, g)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	drop()
	if got := w.rows(t, g); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func TestVersionsOfPoliciesAreKeptUntilTheNextOneIsOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespace := types.UID(uuid.NewString())
	// Version n was written so many days ago.
	for n, ago := range []int{900, 500, 300, 1} {
		w.exec(t, `INSERT INTO ekiden.policies (namespace_uid, version, body, at) VALUES ($1, $2, '{}', now() - $3::int * interval '1 day')`, namespace, n+1, ago)
	}
	old := types.UID(uuid.NewString())
	w.exec(t, `INSERT INTO ekiden.policies (namespace_uid, version, body, at) VALUES ($1, 7, '{}', now() - interval '999 days')`, old)
	var total int64
	for {
		n, err := w.DropPolicies(t.Context(), keepRuns, 1)
		ok(t, err)
		if n.Total() == 0 {
			break
		}
		total += n.Total()
	}
	left := w.number(t, `SELECT count(*) FROM ekiden.policies WHERE namespace_uid = $1 AND version >= 2`, namespace)
	newest := w.number(t, `SELECT count(*) FROM ekiden.policies WHERE namespace_uid = $1`, old)
	if total != 1 || left != 3 || newest != 1 {
		t.Errorf("deleted %d, left %d of the three that were in force since, and %d of one that is old and the newest", total, left, newest)
	}
}
