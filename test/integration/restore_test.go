package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// runTables hold what Postgres knows of a run, each after those that it refers to.
var runTables = []string{"runs", "snapshots", "attempts", "claims", "transcript", "usage", "outcomes", "calls", "inbox"}

// backup keeps what Postgres knows of a run at this moment, and the count of the newest beat. What it returns puts all of that back, in
// one transaction: a restore as the manager sees it, without stopping the Postgres of all other stories.
func backup(t *testing.T, run *v1alpha1.AgentRun) (restore func()) {
	t.Helper()
	kept := "kept_" + strings.ReplaceAll(string(run.UID), "-", "")
	all := func(statements ...string) {
		t.Helper()
		conn := superuser(t)
		err := pgx.BeginTxFunc(context.WithoutCancel(t.Context()), conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
			for _, s := range statements {
				if _, err := tx.Exec(t.Context(), s); err != nil {
					return fmt.Errorf("%s: %w", s, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	take, put := []string{"CREATE SCHEMA " + kept, "CREATE TABLE " + kept + ".pulse AS TABLE ekiden.pulse"}, []string(nil)
	for _, table := range slices.Backward(runTables) {
		put = append(put, fmt.Sprintf("DELETE FROM ekiden.%s WHERE run_uid = '%s'", table, run.UID))
	}
	for _, table := range runTables {
		take = append(take, fmt.Sprintf("CREATE TABLE %s.%s AS SELECT * FROM ekiden.%s WHERE run_uid = '%s'", kept, table, table, run.UID))
		put = append(put, fmt.Sprintf("INSERT INTO ekiden.%s OVERRIDING SYSTEM VALUE TABLE %s.%s", table, kept, table))
	}
	all(take...)
	return func() {
		t.Helper()
		all(append(put, "DELETE FROM ekiden.pulse", "INSERT INTO ekiden.pulse TABLE "+kept+".pulse", "DROP SCHEMA "+kept+" CASCADE")...)
	}
}

// beaten waits until the API server remembers a later beat than that which Postgres holds now.
func (s *story) beaten() {
	s.Helper()
	var now int64
	if err := superuser(s.T).QueryRow(s.Context(), `SELECT count FROM ekiden.pulse`).Scan(&now); err != nil {
		s.Fatal(err)
	}
	s.eventually("the ledger beats", func() bool {
		var lease coordinationv1.Lease
		if api.Get(s.Context(), client.ObjectKey{Namespace: "ekiden-system", Name: "ekiden-ledger"}, &lease) != nil {
			return false
		}
		counted, err := strconv.ParseInt(lease.Annotations["ekiden.dev/ledger-count"], 10, 64)
		return err == nil && counted > now
	})
}

// TestPostgresRestoredUnderARunAtWork goes back to the moment before a call, after the call was made. Nothing of it is in the
// status: the run was at work all the time.
func TestPostgresRestoredUnderARunAtWork(t *testing.T) {
	d := openWith(t, candid, nil, gated("call", wants(refunds(1))), gated("answer", answer("Done.")))
	d.forgetful = true
	d.rule(everything)
	r := d.start("work")
	d.requests(1)
	d.until("work", "is at work", func(r *v1alpha1.AgentRun) bool { return reason(r) == v1alpha1.ReasonRunning })
	restore := backup(t, r)
	d.model.Open("call")
	d.requests(2)
	d.beaten()
	pids := slices.DeleteFunc(processes(t, "segment", "--run="+string(r.UID)), func(pid int) bool { return !d.halt(pid) })
	restore()
	kill(t, pids...)
	r = d.finished("work")
	d.want(r, v1alpha1.RunFailed, v1alpha1.ReasonLedgerRolledBack)
	d.model.Open("answer")
	d.onlyOnce(r, 1)
}

// TestPostgresRestoredUnderAParkedRun goes back to the moment at which a run waited, after it was allowed to go on. Its status
// remembers the later segment, whatever the count says.
func TestPostgresRestoredUnderAParkedRun(t *testing.T) {
	d := openWith(t, candid, nil, wants(refunds(1)), gated("answer", answer("Done.")))
	d.forgetful = true
	d.approvers("finance", "alice")
	d.start("refund")
	r := d.parked()
	restore := backup(t, r)
	d.approves("alice", d.requested(1, v1alpha1.ApprovalPending)[0].Name)
	d.requests(2)
	d.until("refund", "is at work again", func(r *v1alpha1.AgentRun) bool { return reason(r) == v1alpha1.ReasonRunning })
	pids := slices.DeleteFunc(processes(t, "segment", "--run="+string(r.UID)), func(pid int) bool { return !d.halt(pid) })
	restore()
	kill(t, pids...)
	r = d.finished("refund")
	d.want(r, v1alpha1.RunFailed, v1alpha1.ReasonLedgerRolledBack)
	d.model.Open("answer")
	d.onlyOnce(r, 2)
}

// TestPostgresRestoredToAMomentSinceWhichNothingHappened goes on: what waited then waits now.
func TestPostgresRestoredToAMomentSinceWhichNothingHappened(t *testing.T) {
	d := openWith(t, candid, nil, wants(refunds(1)), answer("Done."))
	d.approvers("finance", "alice")
	d.start("refund")
	r := d.parked()
	restore := backup(t, r)
	d.beaten()
	restore()
	d.beaten()
	d.approves("alice", d.requested(1, v1alpha1.ApprovalPending)[0].Name)
	r = d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.onlyOnce(r, 2)
}

// onlyOnce checks that one refund was made, by so many segments.
func (d *desk) onlyOnce(r *v1alpha1.AgentRun, segments int) {
	d.Helper()
	d.eventually("nothing is at work", func() bool { return len(processes(d.T, "segment", "--run="+string(r.UID))) == 0 })
	if c := d.tools.Counts(); c.Calls[toolserver.Refund] != 1 || c.Effects != 1 {
		d.Errorf("the tool server counted %+v, want one refund", c)
	}
	if got := len(d.segments()); got > segments {
		d.Errorf("%d Jobs, want %d", got, segments)
	}
}

// TestARunObjectRestoredUnderAnotherUID deletes the object of a run at work and creates it again from what was saved: a
// backup keeps annotations, and perhaps the status.
func TestARunObjectRestoredUnderAnotherUID(t *testing.T) {
	t.Parallel()
	for name, withStatus := range map[string]bool{"as it was": true, "without its status": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openWith(t, candid, nil, wants(refunds(1)), gated("answer", answer("Done.")))
			answered := sync.OnceFunc(func() { d.model.Open("answer") })
			t.Cleanup(answered)
			d.rule(everything)
			d.start("work")
			d.requests(2)
			saved := d.until("work", "is at work", func(r *v1alpha1.AgentRun) bool { return reason(r) == v1alpha1.ReasonRunning })
			if err := api.Delete(t.Context(), saved.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			d.eventually("the run is gone", func() bool {
				return apierrors.IsNotFound(api.Get(t.Context(), client.ObjectKeyFromObject(saved), &v1alpha1.AgentRun{}))
			})
			again := given.Run("work", d.namespace)
			again.ObjectMeta = metav1.ObjectMeta{Namespace: d.namespace, Name: "work", Annotations: saved.Annotations, Labels: saved.Labels, Finalizers: saved.Finalizers}
			again.Spec = saved.Spec
			d.create(again)
			if withStatus {
				d.eventually("the status is written", func() bool {
					now := d.get("work")
					now.Status = saved.Status
					return api.Status().Update(t.Context(), now) == nil
				})
			}
			r := d.finished("work")
			d.want(r, v1alpha1.RunFailed, v1alpha1.ReasonRestored)
			if r.UID == saved.UID {
				t.Fatal("it is the same object")
			}
			answered()
			for _, j := range d.segments() {
				if j.Labels[v1alpha1.LabelRunUID] == string(r.UID) {
					t.Errorf("Job %s was made for it", j.Name)
				}
			}
			if c := d.tools.Counts(); c.Effects != 1 {
				t.Errorf("the tool server counted %+v, want one refund", c)
			}
		})
	}
}
