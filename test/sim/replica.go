package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/job"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/request"
	"github.com/ekiden-dev/ekiden/controllers/approval/decide"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

var (
	errConflict = errors.New("the object has changed")
	errFull     = errors.New("the quota is used up")
)

// replica is a manager. There are two, and nothing keeps the one from acting while the other does, as a leader does that has
// not heard yet that it is none.
type replica struct {
	w    *world
	name string
	// offset is how far its clock is from the ledger's.
	offset  time.Duration
	cache   objects
	workers [4]worker
}

// The controllers that concern a run, each with a worker of its own.
const (
	runs = iota
	requests
	policyOf
	sweeper
)

var workerNames = [4]string{"run", "requests", "policy", "sweep"}

// worker is one controller's queue of one item, and what it does about it at the moment.
type worker struct {
	*routine
	busy, due bool
	again     time.Time
}

// ready reports whether there is anything to do now.
func (k *worker) ready(now time.Time) bool {
	return k.busy || k.due || !k.again.IsZero() && !now.Before(k.again)
}

// work goes on with what a worker does, or begins anew. A worker keeps its routine from one item to the next.
func (r *replica) work(i int) {
	k := &r.workers[i]
	if !k.busy {
		k.due, k.again, k.busy = false, time.Time{}, true
	}
	if k.routine == nil {
		body := [4]func(*routine) (time.Time, error){r.reconcile, r.answerAll, r.project, r.sweep}[i]
		k.routine = begin(func(c *routine) {
			for {
				r.look(k, workerNames[i], func() (time.Time, error) { return body(c) })
				c.pause("")
			}
		})
	}
	k.resume()
}

// look is one look at what a worker is there for, and says when the next one is due.
func (r *replica) look(k *worker, name string, body func() (time.Time, error)) {
	at, err := body()
	k.busy = false
	switch {
	case errors.Is(err, errConflict):
		at = r.w.now.Add(100 * time.Millisecond)
	case err != nil:
		r.w.tell("   %s: %s gives up for now: %v", r.name, name, err)
		at = r.w.now.Add(time.Second)
	}
	if !at.IsZero() {
		k.again = maxTime(at, r.w.now.Add(50*time.Millisecond))
	}
}

// crash forgets all but what it had not seen yet; it comes back with an empty cache and lists anew.
func (r *replica) crash() {
	for i := range r.workers {
		if k := &r.workers[i]; k.routine != nil {
			k.stop()
		}
		r.workers[i] = worker{due: i != sweeper || r.w.cluster.run.gone}
	}
	for kind := range kinds {
		r.cache.follow(&r.w.cluster.objects, kind)
	}
}

// sync takes over what a watch has told, and queues whom it concerns.
func (r *replica) sync(kind int) {
	r.cache.follow(&r.w.cluster.objects, kind)
	switch kind {
	case ofRun, ofJobs, ofPods:
		r.workers[runs].due = true
	case ofRequests:
		r.workers[runs].due, r.workers[requests].due = true, true
	case ofPolicy:
		r.workers[policyOf].due = true
	}
}

// news is agentrun's found.
type news struct{ blocked string }

// reconcile is agentrun's Reconciler.reconcile.
func (r *replica) reconcile(c *routine) (time.Time, error) {
	copied := r.cache.run
	run := &copied
	if run.gone {
		return time.Time{}, nil
	}
	var known news
	for range 10 {
		o, err := r.observe(c, run, known)
		if err != nil {
			return time.Time{}, err
		}
		d := lifecycle.Decide(o.Observed)
		r.w.laws.decided(o.Observed, d)
		found, err := r.act(c, run, o, d.Do)
		if err != nil {
			return time.Time{}, err
		}
		known = found
		if d.Again || found != (news{}) {
			continue
		}
		if err := r.record(c, run, o, d); err != nil {
			return time.Time{}, err
		}
		if d.Report.Ended {
			continue
		}
		if d.Wake.IsZero() {
			return time.Time{}, nil
		}
		return r.w.now.Add(d.Wake.Sub(o.Now)), nil
	}
	return time.Time{}, errors.New("no decision held")
}

type observation struct {
	lifecycle.Observed
	rec *ledger.Record
}

// observe is agentrun's, with a pause between its reads: the cluster in the cache, the ledger, the Job live.
func (r *replica) observe(c *routine, run *run, f news) (*observation, error) {
	o := &observation{Observed: lifecycle.Observed{
		Now: r.w.now.Add(r.offset), Queued: r.w.queued, CancelWanted: run.cancel, Deleting: run.deleting, Held: run.held, TTL: run.ttl, Recorded: run.ended,
	}}
	jobs := slices.Clone(r.cache.jobs)
	pods := make([]corev1.Pod, 0, len(r.cache.pods))
	for _, p := range r.cache.pods {
		pods = append(pods, *p)
	}
	c.pause("looks into the ledger")
	err := r.w.write(r.name, "look", func() (err error) { o.rec, err = r.w.pg.Look(context.Background(), runUID); return err })
	if err != nil {
		return nil, err
	}
	if rec := o.rec; rec != nil {
		o.Now = rec.Now
		o.Admission = &lifecycle.Admission{
			Terms: rec.Terms, Seed: string(runUID), CancelledAt: rec.CancelledAt, End: rec.End,
			Attempts: rec.Attempts, Outcome: rec.Outcome, LapsesAt: rec.LapsesAt, OutcomeAt: rec.OutcomeAt, Inbox: rec.Inbox, Waits: rec.Waits,
		}
		o.Blocked = f.blocked
		if rec.Outcome != nil && rec.Outcome.Yield == contract.YieldWaiting && rec.End == nil {
			for _, q := range r.cache.requests {
				if read, ours := request.Read(q, owner); ours {
					o.Requests = append(o.Requests, read)
				}
			}
		}
		o.Sighting = r.sight(c, rec, jobs, pods)
		return o, nil
	}
	switch {
	case o.Recorded != nil || o.CancelWanted || o.Deleting:
	case run.started:
		o.Refused = &lifecycle.End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonLedgerRolledBack, At: o.Now}
	case !r.w.defined:
		o.Waiting = &lifecycle.Cause{Reason: v1alpha1.ReasonDefinitionNotReady, Message: "not yet"}
	}
	return o, nil
}

// sight is agentrun's.
func (r *replica) sight(c *routine, rec *ledger.Record, jobs []*batchv1.Job, pods []corev1.Pod) lifecycle.Sighting {
	if len(rec.Attempts) == 0 {
		return lifecycle.Sighting{}
	}
	a := rec.Attempts[len(rec.Attempts)-1]
	unwritten := a.Job == ""
	if !a.EndedAt.IsZero() || unwritten && rec.CancelledAt.IsZero() {
		return lifecycle.Sighting{}
	}
	for _, j := range jobs {
		if j.UID == a.Job {
			return job.Read(j, job.Made(pods, j.UID), nil)
		}
	}
	c.pause("looks for Job " + nameOf(a.AttemptKey))
	if i := r.w.cluster.job(a.AttemptKey); i >= 0 {
		if live := r.w.cluster.jobs[i]; live.UID == a.Job || unwritten {
			return job.Read(live, job.Made(pods, live.UID), nil)
		}
	}
	if unwritten {
		return lifecycle.Sighting{}
	}
	return job.Read(nil, job.Made(pods, a.Job), nil)
}

// act is agentrun's act and do.
func (r *replica) act(c *routine, run *run, o *observation, effects []lifecycle.Effect) (news, error) {
	for _, e := range effects {
		f, err := r.do(c, run, o, e)
		if err != nil || f != (news{}) {
			return f, err
		}
	}
	return news{}, nil
}

func (r *replica) do(c *routine, run *run, o *observation, e lifecycle.Effect) (news, error) {
	ctx, pg := context.Background(), r.w.pg
	switch e := e.(type) {
	case lifecycle.Hold:
		err := r.patch(c, run, "hold", func(live *run_) { live.held = true })
		if err == errGone && o.rec != nil { //nolint:errorlint // our own
			err = nil
		}
		return news{}, err
	case lifecycle.LetGo:
		err := r.patch(c, run, "let go", func(live *run_) { live.held = false })
		if err == errGone { //nolint:errorlint // our own
			err = nil
		}
		return news{}, err
	case lifecycle.Admit:
		edits, set := r.cache.edits, policies[r.cache.policy]
		if err := r.write(c, "project", func() error { return pg.Project(ctx, namespaceUID, set.at(edits)) }); err != nil {
			return news{}, err
		}
		return news{}, r.write(c, "admit", func() error { return pg.Admit(ctx, ledger.Admission{Snapshot: r.w.agent.snapshot}) })
	case lifecycle.Cancel:
		return news{}, r.write(c, "cancel", func() error { return pg.Cancel(ctx, runUID) })
	case lifecycle.Start:
		return r.start(c, e.AttemptKey)
	case lifecycle.Stop:
		return news{}, r.write(c, "delete Job "+nameOf(e.AttemptKey), func() error { r.w.cluster.deleteJob(nameOf(e.AttemptKey)); return nil })
	case lifecycle.Close:
		return news{}, r.write(c, "end attempt "+nameOf(e.AttemptKey)+" "+string(e.End.Class), func() error {
			err := pg.EndAttempt(ctx, runUID, e.AttemptKey, e.End)
			if e.End.Terminated {
				r.w.laws.terminated(e.AttemptKey)
			}
			return err
		})
	case lifecycle.Finish:
		return news{}, r.write(c, "finish "+e.End.Code, func() error {
			_, err := pg.Finish(ctx, runUID, e.End)
			return err
		})
	case lifecycle.Raise:
		return r.raise(c, o, e)
	case lifecycle.Remove:
		return news{}, r.write(c, "delete the run", func() error { r.w.deleteRun(); return nil })
	default:
		r.w.laws.broken("every effect has a model in the simulation: %T has none", e)
		return news{}, nil
	}
}

// write is one write of a replica.
func (r *replica) write(c *routine, what string, f func() error) error {
	c.pause(what)
	return r.w.write(r.name, what, f)
}

// run_ is run under a name that a variable does not hide.
type run_ = run

var errGone = errors.New("the object is gone")

// patch writes the run's metadata or status under its version, as r.patch and Status().Patch do.
func (r *replica) patch(c *routine, run *run, what string, change func(*run_)) error {
	return r.write(c, what, func() error {
		live := &r.w.cluster.run
		switch {
		case live.gone:
			return errGone
		case live.version != run.version:
			return errConflict
		}
		change(live)
		live.version++
		*run = *live
		r.w.cluster.changed(ofRun)
		r.w.released()
		return nil
	})
}

// start is agentrun's: row, Job, the Job's UID.
func (r *replica) start(c *routine, k lifecycle.AttemptKey) (news, error) {
	pg, ctx := r.w.pg, context.Background()
	begin := func() error {
		return r.write(c, "begin attempt "+nameOf(k), func() error {
			r.w.laws.attempted(k)
			return pg.BeginAttempt(ctx, runUID, k)
		})
	}
	if !r.w.bugs.JobFirst {
		if err := begin(); err != nil {
			return news{}, err
		}
	}
	var (
		uid  types.UID
		made bool
	)
	err := r.write(c, "create Job "+nameOf(k), func() error {
		if r.w.cluster.full {
			return errFull
		}
		uid, made = r.w.cluster.createJob(k)
		return nil
	})
	if errors.Is(err, errFull) {
		return news{blocked: err.Error()}, nil
	}
	if err != nil {
		return news{}, err
	}
	if r.w.bugs.JobFirst {
		if err := begin(); err != nil {
			return news{}, err
		}
	}
	if !made {
		c.pause("reads Job " + nameOf(k))
		i := r.w.cluster.job(k)
		if i < 0 {
			return news{}, errGone
		}
		uid = r.w.cluster.jobs[i].UID
	}
	return news{}, r.write(c, "store the UID of Job "+nameOf(k), func() error { return pg.StoreJob(ctx, runUID, k, uid) })
}

// owner is the run as the owner of what is made for it.
var owner = &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: "run", Namespace: "team", UID: runUID}}

// raise is agentrun's.
func (r *replica) raise(c *routine, o *observation, e lifecycle.Raise) (news, error) {
	q := request.Build(owner, v1alpha1.Principal{User: "jane"}, e, o.rec.OutcomeAt)
	there := false
	err := r.write(c, "ask "+q.Name, func() error {
		for _, other := range r.w.cluster.requests {
			if there = other.Name == q.Name; there {
				return nil
			}
		}
		q.UID, q.CreationTimestamp = r.w.cluster.uid("request"), metav1.NewTime(r.w.now)
		r.w.cluster.requests = append(r.w.cluster.requests, q)
		r.w.cluster.changed(ofRequests)
		return nil
	})
	if err != nil || !there {
		return news{}, err
	}
	c.pause("reads " + q.Name)
	for _, other := range r.w.cluster.requests {
		if other.Name == q.Name && !request.Same(other, owner, e) {
			r.w.laws.broken("a request of the name is about the same call: %s", q.Name)
		}
	}
	return news{}, nil
}

// record is agentrun's record and report, as far as anybody reads what they write.
func (r *replica) record(c *routine, run *run, o *observation, d lifecycle.Decision) error {
	rep := d.Report
	if rep.Reason == "" && !rep.Ended {
		return nil
	}
	after := *run
	after.started = after.started || o.rec != nil
	after.reason = rep.Reason
	after.cancelled = after.cancelled || o.Admission != nil && !o.Admission.CancelledAt.IsZero()
	if rep.Ended {
		at := rep.At
		if at.IsZero() {
			at = o.Now
		}
		after.ended = &lifecycle.End{Phase: rep.Phase, Code: rep.Reason, Message: rep.Message, At: at.Truncate(time.Second)}
	}
	if after == *run {
		return nil
	}
	err := r.patch(c, run, "status "+rep.Reason, func(live *run_) {
		live.started, live.reason, live.cancelled, live.ended = after.started, after.reason, after.cancelled, after.ended
	})
	if err == errGone { //nolint:errorlint // our own
		return nil
	}
	return err
}

// answerAll is the approval controller's Reconcile, for one request after the other.
func (r *replica) answerAll(c *routine) (time.Time, error) {
	var next time.Time
	var failed error
	for _, q := range slices.Clone(r.cache.requests) {
		at, err := r.answer(c, q)
		if err != nil {
			failed = err
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next, failed
}

// answer is the approval controller's reconcile. The guard always holds.
func (r *replica) answer(c *routine, q *v1alpha1.ApprovalRequest) (time.Time, error) {
	o := decide.Observed{Request: q, RunGone: r.cache.run.gone && r.w.cluster.run.gone, Guard: decide.Holds}
	turn, index := int(*q.Spec.Call.Turn), int(*q.Spec.Call.Index)
	err := r.write(c, "question about "+q.Name, func() (err error) {
		o.Question, err = r.w.pg.Question(context.Background(), runUID, turn, index, q.UID)
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	if q.Status.Phase == "" && q.Spec.Decision.Verdict == v1alpha1.VerdictApproved {
		for _, other := range r.w.cluster.requests {
			same := other.Spec.Call.Digest == q.Spec.Call.Digest && *other.Spec.Call.Turn == *q.Spec.Call.Turn && *other.Spec.Call.Index == *q.Spec.Call.Index
			if same && other.UID != q.UID && other.Status.Phase == v1alpha1.ApprovalApproved {
				o.Approvers = append(o.Approvers, other.Spec.Decision.By)
			}
		}
	}
	d := decide.Decide(o)
	if err := r.tellRequest(c, &q, d.Report); err != nil {
		if err == errGone { //nolint:errorlint // our own
			return time.Time{}, nil
		}
		return time.Time{}, err
	}
	if d.Deliver != nil {
		err := r.write(c, "deliver "+string(d.Deliver.Phase)+" of "+q.Name, func() error { return r.w.pg.Deliver(context.Background(), runUID, *d.Deliver) })
		if errors.Is(err, ledger.ErrSamePerson) {
			return time.Time{}, r.tellRequest(c, &q, o.SamePerson())
		}
		if err != nil {
			return time.Time{}, err
		}
	}
	if d.Poke {
		r.workers[runs].due = true
	}
	if d.Wake.IsZero() {
		return time.Time{}, nil
	}
	return r.w.now.Add(d.Wake.Sub(o.Now)), nil
}

// tellRequest writes a request's status, unless it says so already. A request that was changed since it was read is a conflict.
func (r *replica) tellRequest(c *routine, q **v1alpha1.ApprovalRequest, rep decide.Report) error {
	if rep.Phase == "" || rep.Phase == (*q).Status.Phase || rep.Phase == v1alpha1.ApprovalPending {
		return nil
	}
	return r.write(c, "status "+string(rep.Phase)+" of "+(*q).Name, func() error {
		for i, live := range r.w.cluster.requests {
			switch {
			case live.UID != (*q).UID:
			case live != *q:
				return errConflict
			default:
				changed := *live
				changed.Status.Phase = rep.Phase
				r.w.cluster.requests[i] = &changed
				r.w.cluster.changed(ofRequests)
				*q = &changed
				return nil
			}
		}
		return errGone
	})
}

// project is the policy controller's Reconcile.
func (r *replica) project(c *routine) (time.Time, error) {
	edits, set := r.cache.edits, policies[r.cache.policy]
	return time.Time{}, r.write(c, "project policy "+itoa(edits), func() error {
		err := r.w.pg.Project(context.Background(), namespaceUID, set.at(edits))
		if errors.Is(err, ledger.ErrStale) { // the cache will show a newer one
			return nil
		}
		return err
	})
}

// sweep is sweep.Sweeper's Sweep. It does nothing about a run whose object is there, and so it is played only once that is gone.
func (r *replica) sweep(c *routine) (time.Time, error) {
	again, ctx := r.w.now.Add(time.Minute), context.Background()
	var found []contract.Identity
	err := r.write(c, "list unfinished runs", func() (err error) {
		found, err = r.w.pg.Unfinished(ctx, r.w.now.Add(r.offset-5*time.Minute), 1)
		return err
	})
	if err != nil || len(found) == 0 {
		return again, nil //nolint:nilerr // as the Sweeper: at the next turn
	}
	if r.write(c, "cancel what has no object", func() error { return r.w.pg.Cancel(ctx, runUID) }) != nil {
		return again, nil //nolint:nilerr // as above
	}
	_ = r.write(c, "finish what has no object", func() error {
		_, err := r.w.pg.Finish(ctx, runUID, lifecycle.End{Phase: v1alpha1.RunCancelled, Code: v1alpha1.ReasonCancelled, Message: "its object was deleted"})
		return err
	})
	return again, nil
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
