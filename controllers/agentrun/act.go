package agentrun

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/job"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/request"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/metrics"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// act makes every write but the status. Doing an effect twice does it once.
func (r *Reconciler) act(ctx context.Context, run *v1alpha1.AgentRun, o *observation, effects []lifecycle.Effect) (found, error) {
	for _, e := range effects {
		f, err := r.do(ctx, run, o, e)
		if err != nil {
			return found{}, fmt.Errorf("%T: %w", e, err)
		}
		if f != (found{}) {
			return f, nil
		}
	}
	return found{}, nil
}

func (r *Reconciler) do(ctx context.Context, run *v1alpha1.AgentRun, o *observation, e lifecycle.Effect) (found, error) {
	switch e := e.(type) {
	case lifecycle.Hold:
		err := r.patch(ctx, run, func() {
			controllerutil.AddFinalizer(run, v1alpha1.Finalizer)
			metav1.SetMetaDataAnnotation(&run.ObjectMeta, v1alpha1.AnnotationRunUID, string(run.UID))
		})
		if o.record != nil { // one that was admitted and is gone is to be brought to its end in the ledger all the same
			err = client.IgnoreNotFound(err)
		}
		return found{}, err
	case lifecycle.LetGo:
		return found{}, client.IgnoreNotFound(r.patch(ctx, run, func() { controllerutil.RemoveFinalizer(run, v1alpha1.Finalizer) }))
	case lifecycle.Admit:
		return r.admit(ctx, o)
	case lifecycle.Cancel:
		return found{}, r.Ledger.Cancel(ctx, run.UID)
	case lifecycle.Start:
		return r.start(ctx, run, o, e.AttemptKey)
	case lifecycle.Stop:
		return found{}, r.stop(ctx, run, e.AttemptKey)
	case lifecycle.Close:
		return found{}, r.close(ctx, run, e)
	case lifecycle.Finish:
		_, err := r.Ledger.Finish(ctx, run.UID, e.End)
		return found{}, err
	case lifecycle.Raise:
		return r.raise(ctx, run, o, e)
	case lifecycle.Remove:
		uid := run.UID
		return found{}, client.IgnoreNotFound(r.Client.Delete(ctx, run, &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))
	default:
		return found{}, fmt.Errorf("no way to carry out %T", e)
	}
}

// patch changes the run's metadata, refusing if somebody else changed it since it was read.
func (r *Reconciler) patch(ctx context.Context, run *v1alpha1.AgentRun, change func()) error {
	before := run.DeepCopy()
	change()
	return r.Client.Patch(ctx, run, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// admit makes sure that the namespace has its login and its policy, and freezes the run.
func (r *Reconciler) admit(ctx context.Context, o *observation) (found, error) {
	if f, err := r.provisioned(ctx, o.namespace); err != nil || f != (found{}) {
		return f, err
	}
	if err := r.Project(ctx, o.namespace); err != nil {
		return found{}, err
	}
	err := r.Ledger.Admit(ctx, o.admission)
	var dup *ledger.DuplicateError
	if errors.As(err, &dup) {
		return found{duplicate: &dup.Of}, nil
	}
	return found{}, err
}

// provisioned provisions the namespace, or finds that its Secret is not ours or is refused.
func (r *Reconciler) provisioned(ctx context.Context, ns *corev1.Namespace) (found, error) {
	err := r.provision(ctx, ns)
	if errors.Is(err, errForeignSecret) {
		return found{taken: err.Error()}, nil
	}
	return refused(err)
}

// refused finds a no of the API server that stands until somebody does something: a quota, a policy, a right that is
// missing. A namespace that goes is none: the run is cancelled as soon as that shows.
func refused(err error) (found, error) {
	no := apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
	if !no || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return found{}, err
	}
	return found{blocked: err.Error()}, nil
}

// start begins an attempt: its row, its Job, the Job's UID, in this order. The row comes first so that no Job runs
// unknown to the ledger, and so that what is refused has a beginning from which its time counts; the UID comes last so that a Job which vanishes is told from one that was never created.
func (r *Reconciler) start(ctx context.Context, run *v1alpha1.AgentRun, o *observation, k lifecycle.AttemptKey) (found, error) {
	if err := r.Ledger.BeginAttempt(ctx, run.UID, k); err != nil {
		return found{}, err
	}
	// Again, because somebody may have deleted the Secret since: the pod would wait for it without a word.
	if f, err := r.provisioned(ctx, o.namespace); err != nil || f != (found{}) {
		return f, err
	}
	settings, err := r.Pods(ctx, run.Namespace)
	if err != nil {
		return found{}, err
	}
	j := job.Build(run, k, o.record.Terms, r.SegmentImage, settings)
	err = r.Client.Create(ctx, j)
	if apierrors.IsAlreadyExists(err) {
		if err = r.Live.Get(ctx, client.ObjectKeyFromObject(j), j); err != nil {
			return found{}, err
		}
		if !made(j, run, k) {
			return found{taken: fmt.Sprintf("a Job named %s exists and belongs to somebody else: delete it and start another run", j.Name)}, nil
		}
	}
	if err != nil {
		return refused(fmt.Errorf("job %s: %w", j.Name, err))
	}
	return found{}, r.Ledger.StoreJob(ctx, run.UID, k, j.UID)
}

// raise asks people about one seat of a call.
func (r *Reconciler) raise(ctx context.Context, run *v1alpha1.AgentRun, o *observation, e lifecycle.Raise) (found, error) {
	q := request.Build(run, run.Spec.Principal, e, o.record.OutcomeAt)
	err := r.Client.Create(ctx, q)
	if err == nil {
		return found{}, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return refused(fmt.Errorf("approval request %s: %w", q.Name, err))
	}
	if err = r.Live.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
		return found{}, err
	}
	if !request.Same(q, run, e) {
		return found{taken: fmt.Sprintf("an ApprovalRequest named %s exists and is not about this call: delete it and start another run", q.Name)}, nil
	}
	return found{}, nil
}

// stop deletes the attempt's Job; its pod is told to stop and has its grace.
func (r *Reconciler) stop(ctx context.Context, run *v1alpha1.AgentRun, k lifecycle.AttemptKey) error {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: job.Name(run.Name, run.UID, k)}}
	return client.IgnoreNotFound(r.Client.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// close writes down how an attempt ended.
func (r *Reconciler) close(ctx context.Context, run *v1alpha1.AgentRun, c lifecycle.Close) error {
	if err := r.Ledger.EndAttempt(ctx, run.UID, c.AttemptKey, c.End); err != nil {
		return err
	}
	metrics.AttemptEnded(string(c.End.Class))
	return nil
}

// dsn is the address of Postgres with the login of a namespace, as its segments see it.
func (r *Reconciler) dsn(t ledger.Tenant) (string, error) {
	return withLogin(r.SegmentDSN, t.Login(), t.Password)
}

// labels mark what the manager makes and nobody else should touch.
var labels = map[string]string{"app.kubernetes.io/managed-by": "ekiden", "app.kubernetes.io/name": contract.PostgresSecret}
