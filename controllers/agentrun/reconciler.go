// Package agentrun reconciles AgentRuns. It only observes, acts and records; what to do is
// lifecycle.Decide's to say.
package agentrun

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/requeue"
)

// The rights this package needs. controller-gen reads them from here.
// +kubebuilder:rbac:groups=ekiden.dev,resources=agentruns,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=ekiden.dev,resources=agentruns/status,verbs=patch
// +kubebuilder:rbac:groups=ekiden.dev,resources=agentruns/finalizers,verbs=update
// +kubebuilder:rbac:groups=ekiden.dev,resources=agentdefinitions;definitionrevisions;agentpolicies;modelendpoints,verbs=list;watch
// +kubebuilder:rbac:groups=ekiden.dev,resources=approvalrequests,verbs=get;list;watch;create;manage
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=ekiden-postgres,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler drives AgentRuns.
type Reconciler struct {
	// Client reads Secrets and ConfigMaps live and everything else from the cache. Live reads everything from the API server.
	Client client.Client
	Live   client.Reader
	Ledger ledger.Ledger
	Events events.EventRecorder

	// Sound reports an error while the ledger, by the count of its newest beat, may have been set back unnoticed.
	Sound func(ctx context.Context, count int64) error
	// Project makes sure that the policy of a namespace is in the ledger before its first run is.
	Project func(ctx context.Context, ns *corev1.Namespace) error
	// Pods are the settings in force for pods of a namespace.
	Pods func(ctx context.Context, namespace string) (v1alpha1.PodSettings, error)
	// Told are the events of one object, in no order. What cannot be read is as none: the only error is that of ctx.
	Told func(ctx context.Context, namespace string, about types.UID) ([]corev1.Event, error)
	// Woken tells of runs whose calls were decided on. Nil is for tests.
	Woken <-chan event.TypedGenericEvent[client.Object]

	// Namespace is the manager's own: its default policy is the floor under every other.
	Namespace string
	// SegmentImage is the image of segment pods, SegmentDSN the address of Postgres as they see it, without a login.
	SegmentImage string
	SegmentDSN   string
}

// rounds bounds how often one reconcile decides. A deletion whose pod has just ended needs five; more than these would be two decisions undoing each other.
const rounds = 10

// Reconcile observes, decides, acts, records.
func (r *Reconciler) Reconcile(ctx context.Context, run *v1alpha1.AgentRun) (ctrl.Result, error) {
	return requeue.OnConflict(r.reconcile(ctx, run))
}

func (r *Reconciler) reconcile(ctx context.Context, run *v1alpha1.AgentRun) (ctrl.Result, error) {
	var known found
	for range rounds {
		seen, err := r.observe(ctx, run, known)
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("observing: %w", err)
		}
		d := lifecycle.Decide(seen.Observed)
		logf.FromContext(ctx).V(1).Info("decided", "do", fmt.Sprintf("%T", d.Do), "reason", d.Report.Reason, "again", d.Again)
		news, err := r.act(ctx, run, seen, d.Do)
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("acting: %w", err)
		}
		known = news
		known.unfit = seen.unfit
		if d.Again || news != (found{}) { // what acting found out is to be decided about at once: no later look shows it
			continue
		}
		if err := r.record(ctx, run, seen, d); err != nil {
			return ctrl.Result{}, fmt.Errorf("recording: %w", err)
		}
		if d.Report.Ended { // what comes after an end: a pod to stop, a finalizer to let go, a time to live
			continue
		}
		return requeue.At(seen.Now, d.Wake), nil
	}
	return ctrl.Result{}, fmt.Errorf("run %s/%s: no decision held after %d rounds", run.Namespace, run.Name, rounds)
}
