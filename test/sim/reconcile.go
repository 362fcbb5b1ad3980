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
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

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
		o.Admission = rec.Admission(runUID)
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
				r.w.laws.terminated(e.AttemptKey, e.End.Pods)
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
