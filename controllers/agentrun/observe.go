package agentrun

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/job"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/request"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// observation is what was gathered: the facts to decide by, and what acting and recording need besides.
type observation struct {
	lifecycle.Observed
	namespace *corev1.Namespace
	record    *ledger.Record
	// admission is what will be frozen, when nothing stands against it.
	admission ledger.Admission
	// unfit is why the newest edit of the definition is not the one used.
	unfit string
	// duplicate is the run that holds the idempotency key.
	duplicate v1alpha1.RunReference
}

// found is what acting has found out that no later look shows.
type found struct {
	duplicate *v1alpha1.RunReference
	// taken says that an object the run needs belongs to somebody else.
	taken string
	// blocked says why the API server refuses an object the run needs.
	blocked string
	// unfit is observation's, from the round in which the run was admitted.
	unfit string
}

// observe makes every read there is. The cluster is read before the ledger: an attempt that is seen to have ended
// has written its outcome by then, so that a missing outcome is a fact and not a race.
func (r *Reconciler) observe(ctx context.Context, run *v1alpha1.AgentRun, f found) (*observation, error) {
	o := &observation{namespace: &corev1.Namespace{}, unfit: f.unfit, Observed: lifecycle.Observed{
		Now:          time.Now(),
		CancelWanted: run.Spec.DesiredState == v1alpha1.DesiredCancelled,
		Deleting:     !run.DeletionTimestamp.IsZero(),
		Held:         controllerutil.ContainsFinalizer(run, v1alpha1.Finalizer),
		TTL:          time.Duration(run.Spec.TTLSecondsAfterFinished) * time.Second,
		Recorded:     recorded(run),
		Remembered:   remembered(run),
		Unmarked:     run.Annotations[v1alpha1.AnnotationRunUID] != string(run.UID),
		Of:           another(run),
	}}
	o.Queued = queuedAt(run, o.Now)
	if err := r.Client.Get(ctx, client.ObjectKey{Name: run.Namespace}, o.namespace); err != nil {
		return nil, fmt.Errorf("namespace %s: %w", run.Namespace, err)
	}
	o.NamespaceGoing = !o.namespace.DeletionTimestamp.IsZero()
	jobs, pods, err := r.cluster(ctx, run)
	if err != nil {
		return nil, err
	}
	o.Remembered = witnessed(o.Remembered, run, jobs)
	if o.record, err = r.Ledger.Look(ctx, run.UID); err != nil {
		return nil, fmt.Errorf("looking into the ledger: %w", err)
	}
	if rec := o.record; rec != nil {
		if err := r.Sound(ctx, rec.Count); err != nil {
			return nil, err
		}
		o.Now = rec.Now
		o.Admission = rec.Admission(run.UID)
		if o.Requests, err = r.requests(ctx, run, rec); err != nil {
			return nil, err
		}
		o.Taken, o.Blocked = f.taken, f.blocked
		o.Sighting, err = r.sight(ctx, run, rec, jobs, pods)
		return o, err
	}
	if o.Recorded != nil || o.CancelWanted || o.Deleting || o.Of != "" || o.Remembered.Admitted { // there is nothing to admit
		return o, nil
	}
	if f.duplicate != nil {
		o.duplicate = *f.duplicate
		o.Refused = &lifecycle.End{Phase: v1alpha1.RunFailed, Code: v1alpha1.ReasonDuplicate, Message: fmt.Sprintf("run %s holds the same spec.idempotencyKey", f.duplicate.Name), At: o.Now}
		return o, nil
	}
	if f.taken != "" {
		o.wait(v1alpha1.ReasonNameTaken, "%s", f.taken)
		return o, nil
	}
	if f.blocked != "" {
		o.wait(v1alpha1.ReasonPodNotStarted, "%s", f.blocked)
		return o, nil
	}
	return o, r.prepare(ctx, run, o)
}

// queuedAt is since when the status says that the run waits, or now.
func queuedAt(run *v1alpha1.AgentRun, now time.Time) time.Time {
	if c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionAccepted); c != nil && c.Status == metav1.ConditionUnknown {
		return c.LastTransitionTime.Time
	}
	return now
}

// recorded is the end that the status shows.
func recorded(run *v1alpha1.AgentRun) *lifecycle.End {
	e := lifecycle.End{Phase: run.Status.Phase, At: run.Status.FinishedAt.Time}
	final := e.Phase == v1alpha1.RunSucceeded || e.Phase == v1alpha1.RunFailed || e.Phase == v1alpha1.RunCancelled
	if !meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionFinished) || !final || e.At.IsZero() {
		return nil // half an end is none: somebody has written it by hand
	}
	if c := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
		e.Code, e.Message = c.Reason, c.Message
	}
	return &e
}

// remembered is how far the run had come when its status was written.
func remembered(run *v1alpha1.AgentRun) lifecycle.Memory {
	s := run.Status
	m := lifecycle.Memory{
		Snapshot: s.SnapshotDigest, Admitted: !s.StartedAt.IsZero(),
		Entries: s.Memory.Entries, Begun: s.Memory.CallsBegun, Settled: s.Memory.CallsSettled, Decisions: s.Memory.Decisions,
	}
	if s.Segment != nil {
		m.Newest = &lifecycle.AttemptKey{Segment: int(*s.Segment)}
		if s.Memory.Attempt != nil {
			m.Newest.Attempt = int(*s.Memory.Attempt)
		}
	}
	return m
}

// witnessed adds what the run's Jobs tell: the row of an attempt is there before its Job is, and its Job before the status says so.
func witnessed(m lifecycle.Memory, run *v1alpha1.AgentRun, jobs []batchv1.Job) lifecycle.Memory {
	for i := range jobs {
		if k, ok := job.Key(jobs[i].Labels); ok && made(&jobs[i], run, k) && jobs[i].Name == job.Name(run.Name, run.UID, k) {
			m.Admitted, m.Newest = true, lifecycle.Later(m.Newest, &k)
		}
	}
	return m
}

// another is the run that the object stands for, if it is not its own: the UID that it carries, or that its status does, is
// not the one under which it was created.
func another(run *v1alpha1.AgentRun) types.UID {
	if of := types.UID(run.Annotations[v1alpha1.AnnotationRunUID]); of != "" && of != run.UID {
		return of
	}
	if root := run.Status.Root; root.Name == run.Name && root.UID != run.UID { // a run that nobody delegated is its own root
		return root.UID
	}
	return ""
}

// cluster lists the run's Jobs and pods in the cache.
func (r *Reconciler) cluster(ctx context.Context, run *v1alpha1.AgentRun) ([]batchv1.Job, []corev1.Pod, error) {
	var (
		jobs batchv1.JobList
		pods corev1.PodList
		ours = []client.ListOption{client.InNamespace(run.Namespace), client.MatchingLabels{v1alpha1.LabelRunUID: string(run.UID)}}
	)
	if err := r.Client.List(ctx, &jobs, ours...); err != nil {
		return nil, nil, fmt.Errorf("listing Jobs: %w", err)
	}
	if err := r.Client.List(ctx, &pods, ours...); err != nil {
		return nil, nil, fmt.Errorf("listing pods: %w", err)
	}
	return jobs.Items, pods.Items, nil
}

// requests are the run's ApprovalRequests in the cache. Only a run that waits is asked for them.
func (r *Reconciler) requests(ctx context.Context, run *v1alpha1.AgentRun, rec *ledger.Record) ([]lifecycle.Request, error) {
	if rec.Outcome == nil || rec.Outcome.Yield != contract.YieldWaiting || rec.End != nil {
		return nil, nil
	}
	var list v1alpha1.ApprovalRequestList
	if err := r.Client.List(ctx, &list, client.InNamespace(run.Namespace), client.MatchingLabels{v1alpha1.LabelRunUID: string(run.UID)}); err != nil {
		return nil, fmt.Errorf("listing approval requests: %w", err)
	}
	var out []lifecycle.Request
	for i := range list.Items {
		if q, ours := request.Read(&list.Items[i], run); ours {
			out = append(out, q)
		}
	}
	return out, nil
}

// sight is what the cluster shows of the newest attempt. A Job that the cache does not have is asked for once more,
// live: the cache may lag behind our own creation.
func (r *Reconciler) sight(ctx context.Context, run *v1alpha1.AgentRun, rec *ledger.Record, jobs []batchv1.Job, pods []corev1.Pod) (lifecycle.Sighting, error) {
	if len(rec.Attempts) == 0 {
		return lifecycle.Sighting{}, nil
	}
	a := rec.Attempts[len(rec.Attempts)-1]
	unwritten := a.Job == ""
	// A Job that was created and not written down is adopted by starting again; once cancelled, it has to be looked for.
	if !a.EndedAt.IsZero() || unwritten && rec.CancelledAt.IsZero() {
		return lifecycle.Sighting{}, nil
	}
	for i := range jobs {
		if jobs[i].UID == a.Job {
			return r.read(ctx, rec, &jobs[i], pods)
		}
	}
	var live batchv1.Job
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: job.Name(run.Name, run.UID, a.AttemptKey)}, &live)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return lifecycle.Sighting{}, fmt.Errorf("looking for the Job of segment %d: %w", a.Segment, err)
	case err == nil && (live.UID == a.Job || unwritten && made(&live, run, a.AttemptKey)):
		return r.read(ctx, rec, &live, pods)
	case unwritten: // it was never created, or is gone unknown: whatever its pod does, the cancel is committed
		return lifecycle.Sighting{}, nil
	default:
		return job.Read(nil, job.Made(pods, a.Job), nil), nil
	}
}

// read is what the Job of the newest attempt and its pods tell. Events are asked for only where nothing else tells what holds a pod up.
func (r *Reconciler) read(ctx context.Context, rec *ledger.Record, j *batchv1.Job, all []corev1.Pod) (lifecycle.Sighting, error) {
	pods := job.Made(all, j.UID)
	s := job.Read(j, pods, nil)
	about := pod.Quiet(j, pods)
	if s.State != lifecycle.Pending || about == "" || rec.Now.Before(rec.Attempts[len(rec.Attempts)-1].BegunAt.Add(lifecycle.Patience)) {
		return s, nil
	}
	told, err := r.Told(ctx, j.Namespace, about)
	if err != nil {
		return lifecycle.Sighting{}, fmt.Errorf("events of Job %s: %w", j.Name, err)
	}
	return job.Read(j, pods, told), nil
}

// made reports whether j is the Job of the run's attempt and not somebody else's of the same name.
func made(j *batchv1.Job, run *v1alpha1.AgentRun, k lifecycle.AttemptKey) bool {
	got, ok := job.Key(j.Labels)
	return ok && got == k && metav1.IsControlledBy(j, run)
}
