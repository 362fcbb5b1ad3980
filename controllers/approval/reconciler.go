// Package approval reconciles ApprovalRequests: it takes decisions up, lets requests expire, withdraws those that nobody needs
// any more, and tells the run. It only observes, acts and records; what to do is decide.Decide's to say.
package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/approval/decide"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/requeue"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// The rights this package needs. controller-gen reads them from here.
// +kubebuilder:rbac:groups=ekiden.dev,resources=approvalrequests;agentruns,verbs=list;watch
// +kubebuilder:rbac:groups=ekiden.dev,resources=approvalrequests/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Ledger is what requests need of the record of execution.
type Ledger interface {
	// Question tells how the ledger stands to a request about a call. Of a run that it does not know it tells the time.
	Question(ctx context.Context, run types.UID, turn, index int, request types.UID) (decide.Question, error)
	// Deliver puts what was decided into the run's inbox, once for each request: of one that is there nothing changes.
	Deliver(ctx context.Context, run types.UID, d contract.Delivery) error
}

// Guard tells whether a decision in a namespace can be honoured.
type Guard interface {
	// Guarded says why not, and the cure. An error means that nobody knows.
	Guarded(ctx context.Context, namespace string) (ok bool, why string, err error)
	// Installed says what is wrong with the policies, as far as it shows without asking the API server. Empty means nothing.
	Installed(ctx context.Context) (why string, err error)
	// Since is when the newest of the policies was made, or zero while one is missing.
	Since(ctx context.Context) (time.Time, error)
	// Concerns reports whether the object is one that the answers depend on.
	Concerns(o client.Object) bool
}

// Reconciler takes decisions up.
type Reconciler struct {
	// Client reads from the cache, Live from the API server.
	Client client.Client
	Live   client.Reader
	Ledger Ledger
	Guard  Guard
	Events events.EventRecorder
	// Wake has a run looked at. It does not wait for that.
	Wake func(run types.NamespacedName)
}

// Reconcile observes, decides, records, and tells the run.
func (r *Reconciler) Reconcile(ctx context.Context, request *v1alpha1.ApprovalRequest) (ctrl.Result, error) {
	return requeue.Settle(r.reconcile(ctx, request))
}

func (r *Reconciler) reconcile(ctx context.Context, request *v1alpha1.ApprovalRequest) (ctrl.Result, error) {
	if !request.DeletionTimestamp.IsZero() { // the run asks again, and what was decided here is worth nothing
		return ctrl.Result{}, nil
	}
	seen, err := r.observe(ctx, request)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observing: %w", err)
	}
	d := decide.Decide(seen.Observed)
	if d.AskGuard {
		if err := r.ask(ctx, seen); err != nil {
			return ctrl.Result{}, fmt.Errorf("asking the guard: %w", err)
		}
		d = decide.Decide(seen.Observed)
	}
	logf.FromContext(ctx).V(1).Info("decided", "phase", d.Report.Phase, "reason", d.Report.Reason, "deliver", d.Deliver != nil)
	// The status first: a person may still be deciding, and only the API server can say who was first.
	err = r.record(ctx, seen, d.Report)
	if apierrors.IsNotFound(err) { // it is gone: what it does not say is not delivered
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("recording: %w", err)
	}
	err = r.act(ctx, request, d)
	if errors.Is(err, ledger.ErrSamePerson) { // the other seat's request is gone, and only the ledger remembers who decided on it
		err = r.record(ctx, seen, seen.SamePerson())
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("acting: %w", err)
	}
	return requeue.At(seen.Now, d.Wake), nil
}

// act tells the run.
func (r *Reconciler) act(ctx context.Context, request *v1alpha1.ApprovalRequest, d decide.Decision) error {
	run := request.Spec.RunRef
	if d.Deliver != nil {
		if err := r.Ledger.Deliver(ctx, run.UID, *d.Deliver); err != nil {
			return fmt.Errorf("delivering to run %s: %w", run.Name, err)
		}
	}
	if d.Poke {
		r.Wake(types.NamespacedName{Namespace: request.Namespace, Name: run.Name})
	}
	return nil
}
