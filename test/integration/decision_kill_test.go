package integration

import (
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
	"github.com/ekiden-dev/ekiden/test/modelserver"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// candid is a tool server that pays every refund it is asked for, so that a second call of one shows.
var candid = toolserver.Options{RequireKey: toolCanary, IgnoreKeys: true}

// holding keeps everybody from adding to a table until it is released. Whoever tries waits, or is told to try again.
func holding(t *testing.T, table string) (release func()) {
	t.Helper()
	conn := superuser(t)
	tx, err := conn.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "LOCK TABLE "+pgx.Identifier{"ekiden", table}.Sanitize()+" IN SHARE MODE")
	}
	if err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
	t.Cleanup(release)
	return release
}

// answeredOnce checks that each request has one end, and that the runs were told of each once.
func (d *desk) answeredOnce(requests int, phase v1alpha1.ApprovalPhase) {
	d.Helper()
	d.requested(requests, phase)
	var told, twice int
	if err := superuser(d.T).QueryRow(d.Context(), `SELECT count(*), count(*) - count(DISTINCT (i.run_uid, i.turn, i.idx, i.seat))
		FROM ekiden.inbox i JOIN ekiden.runs r USING (run_uid) WHERE r.namespace_uid = $1::uuid`, d.uid()).Scan(&told, &twice); err != nil {
		d.Fatal(err)
	}
	if told != requests || twice != 0 {
		d.Errorf("the runs were told %d times, %d of them again, want %d", told, twice, requests)
	}
}

// TestManagersKilledAtEveryDecision kills the managers right after decisions, again and again.
func TestManagersKilledAtEveryDecision(t *testing.T) {
	const runs = 10
	d := openWith(t, candid, nil, wants(refunds(1), refunds(2)), answer("Both paid."))
	d.approvers("finance", "alice")
	for i := range runs {
		d.start("r"+itoa(i), given.Task("task "+itoa(i)))
	}
	open := d.requested(2*runs, v1alpha1.ApprovalPending)
	// The calls of a run are decided on in either order, and those of several runs before one kill.
	slices.SortFunc(open, func(a, b v1alpha1.ApprovalRequest) int { return strings.Compare(string(a.UID), string(b.UID)) })
	for i, q := range open {
		d.approves("alice", q.Name)
		if i%4 == 0 {
			time.Sleep(time.Duration(i) * 20 * time.Millisecond) //nolint:forbidigo // It spreads the kills; nothing depends on how.
			kill(t, managers(t)...)
		}
		if i%8 == 7 { // so that kills meet managers at work
			d.eventually("somebody leads", func() bool { return leaderShows(t, "ekiden_approvals_guarded 1") })
		}
	}
	for i := range runs {
		r := d.finished("r" + itoa(i))
		d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
		for _, row := range d.journal(r) {
			if row.Kind != "answered" || len(row.By) != 1 || row.By[0] != "alice" {
				t.Errorf("%s: the journal says %+v", r.Name, row)
			}
		}
	}
	if c := d.tools.Counts(); c.Effects != 2*runs || c.Requests[toolserver.Refund] != 2*runs {
		t.Errorf("the tool server counted %+v, want %d refunds", c, 2*runs)
	}
	d.answeredOnce(2*runs, v1alpha1.ApprovalApproved)
	d.wantRequests(2 * runs)
}

// TestAManagerKilledBetweenStatusAndDelivery has recorded the decision and not told the run: the next one does.
func TestAManagerKilledBetweenStatusAndDelivery(t *testing.T) {
	d := openWith(t, candid, nil, wants(refunds(1)), answer("Paid."))
	d.approvers("finance", "alice")
	d.start("refund")
	q := d.requested(1, v1alpha1.ApprovalPending)[0]
	d.parked()
	release := holding(t, "inbox")
	d.approves("alice", q.Name)
	d.requested(1, v1alpha1.ApprovalApproved) // so it was recorded, and cannot have been delivered
	kill(t, managers(t)...)
	release()
	r := d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 1)
	d.answeredOnce(1, v1alpha1.ApprovalApproved)
}

// TestADecisionThatComesTooLateWhileNobodyManages is given after the expiry, and before a manager sees either.
func TestADecisionThatComesTooLateWhileNobodyManages(t *testing.T) {
	t.Cleanup(func() { staff(t, 2) })
	d := openWith(t, candid, nil, wants(refunds(120)), answer("Sorry."))
	d.rule(asking(func(a *v1alpha1.PolicyApproval) { a.ExpiresSeconds = 20 }))
	d.approvers("finance", "alice")
	d.start("refund")
	q := d.requested(1, v1alpha1.ApprovalPending)[0]
	d.parked()
	staff(t, 0)
	d.eventually("the request expires", func() bool { return time.Now().After(q.Spec.ExpiresAt.Time) })
	d.requested(1, v1alpha1.ApprovalPending) // nobody has said so
	d.approves("alice", q.Name)
	staff(t, 2)
	late := d.requested(1, v1alpha1.ApprovalExpired)[0]
	if c := meta.FindStatusCondition(late.Status.Conditions, v1alpha1.ConditionDecided); c.Reason != v1alpha1.ReasonTooLate || !strings.Contains(c.Message, "alice") {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
	d.told(q.Name, v1alpha1.ReasonTooLate)
	d.told("refund", v1alpha1.ReasonTooLate)
	d.notPaid("nobody")
	d.answeredOnce(1, v1alpha1.ApprovalExpired)
}

// TestDecidedWhileAPartIsLost decides while what all share is gone or coming back.
func TestDecidedWhileAPartIsLost(t *testing.T) {
	for _, part := range []string{"postgres", "kube-apiserver", "etcd"} {
		t.Run(part, func(t *testing.T) {
			d := openWith(t, candid, nil, wants(refunds(1), refunds(2)), answer("Both paid."))
			d.approvers("finance", "alice")
			d.start("refund")
			open := d.requested(2, v1alpha1.ApprovalPending)
			d.parked()
			kill(t, pidOf(t, part))
			for _, q := range open {
				// A decision whose answer was lost is there, and so the second one is refused as final.
				d.eventually("alice decides", func() bool {
					refusal := d.says("alice", q.Name, `{"verdict":"Approved"}`)
					return refusal == "" || strings.Contains(refusal, "no longer open")
				})
			}
			r := d.finished("refund")
			d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
			d.balanced(r, 2)
			if c := d.tools.Counts(); c.Effects != 2 {
				t.Errorf("the tool server counted %+v", c)
			}
			d.answeredOnce(2, v1alpha1.ApprovalApproved)
		})
	}
}

// TestASegmentKilledBetweenSettleAndYield has made one of two calls and cannot say that it waits for the other.
func TestASegmentKilledBetweenSettleAndYield(t *testing.T) {
	d := openWith(t, candid, nil, wants(refunds(1), refunds(2)), answer("Both paid."))
	d.approvers("finance", "alice")
	r := d.start("refund")
	open := d.requested(2, v1alpha1.ApprovalPending)
	d.parked()
	release := holding(t, "outcomes")
	d.approves("alice", open[0].Name)
	d.eventually("the first call is settled", func() bool {
		rows := d.journal(r)
		return len(rows) > 0 && rows[0].Kind == "answered"
	})
	kill(t, processes(t, "segment", "--run="+string(r.UID))...)
	release()
	d.parked()
	d.approves("alice", open[1].Name)
	r = d.finished("refund")
	d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	d.balanced(r, 2)
	if c := d.tools.Counts(); c.Effects != 2 {
		t.Errorf("the tool server counted %+v", c)
	}
	d.answeredOnce(2, v1alpha1.ApprovalApproved)
	d.wantRequests(2)
}

// TestAZombieInACall is stopped while a tool works for it, another segment takes over, and then it wakes up with its result.
func TestAZombieInACall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		step modelserver.Step
		tool string
		kind string
		// calls is how often the tool worked.
		calls, effects int
	}{
		"of a send nobody knows": {wants(refunds(1)), toolserver.Refund, "indeterminate", 1, 1},
		"a read is made again":   {wants(reads("1")), toolserver.GetCustomer, "answered", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openWith(t, candid, func(s *v1alpha1.ToolServer) {
				for i := range s.Spec.Tools {
					s.Spec.Tools[i].TimeoutSeconds = 600
				}
			}, tc.step, answer("Done."))
			d.rule(everything)
			arrived, answers := make(chan struct{}), make(chan struct{})
			var first sync.Once
			d.tools.OnCall(func(string) {
				first.Do(func() {
					close(arrived)
					<-answers
				})
			})
			answered := sync.OnceFunc(func() { close(answers) })
			t.Cleanup(answered)
			r := d.start("zombie")
			<-arrived
			pids := processes(t, "segment", "--run="+string(r.UID)) // that of an earlier segment may still be leaving
			stopped := slices.DeleteFunc(pids, func(pid int) bool { return !d.halt(pid) })
			if len(stopped) == 0 {
				t.Fatal("no process was stopped")
			}
			answered() // and the result waits for the zombie
			var rows []journalRow
			d.eventually("another segment has settled the call", func() bool {
				rows = d.journal(r)
				return len(rows) == 1 && rows[0].Kind != ""
			})
			for _, pid := range stopped {
				t.Logf("the zombie was woken: %t", syscall.Kill(pid, syscall.SIGCONT) == nil)
			}
			r = d.finished("zombie")
			d.want(r, v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
			d.eventually("the zombie is gone", func() bool { return len(processes(t, "segment", "--run="+string(r.UID))) == 0 })
			same(t, rows, d.journal(r))
			if rows[0].Kind != tc.kind {
				t.Errorf("the journal says %+v, want %s", rows[0], tc.kind)
			}
			if c := d.tools.Counts(); c.Calls[tc.tool] != tc.calls || c.Effects != tc.effects {
				t.Errorf("the tool server counted %+v, want %d calls and %d effects", c, tc.calls, tc.effects)
			}
			d.wantRequests(2)
			if after := d.get("zombie"); after.ResourceVersion != r.ResourceVersion {
				t.Errorf("a run that has ended changed: %+v", after.Status)
			}
		})
	}
}
