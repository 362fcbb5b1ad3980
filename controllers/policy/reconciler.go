// Package policy projects AgentPolicies into the ledger, where every call reads them. Once a policy's status says that a
// generation is in force, no call begins under an older one.
package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/policy"
)

// The rights this package needs. controller-gen reads them from here.
// +kubebuilder:rbac:groups=ekiden.dev,resources=agentpolicies,verbs=list;watch
// +kubebuilder:rbac:groups=ekiden.dev,resources=agentpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Ledger is what policies need of the record of execution.
type Ledger interface {
	// Project makes the set the one in force in a namespace. It returns once no call can begin under an older version; a set
	// that is in force already costs a look. The error is ledger.ErrStale for one that is older than that.
	Project(ctx context.Context, namespaceUID types.UID, set contract.PolicySet) error
	// Tenants lists the namespaces that have a login: no run was admitted in any other.
	Tenants(ctx context.Context) ([]ledger.Tenant, error)
}

// ErrBusy is returned while the policies of the namespace are projected by somebody else, who a tenant perhaps keeps waiting.
var ErrBusy = errors.New("the policies of the namespace are being projected")

const (
	// patience is how long to wait for another projection into the namespace: longer than one takes that nobody keeps waiting, and
	// so short that workers whose runs are of other namespaces lose nothing.
	patience = 100 * time.Millisecond
	// soon is when to look again after something that passes by itself.
	soon = 100 * time.Millisecond
)

// Reconciler projects policies.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	Ledger Ledger
	Events events.EventRecorder
	// Namespace is the manager's own: its policy is the floor under every other.
	Namespace string
	// Pods are the settings under those of every policy.
	Pods v1alpha1.PodSettings

	// turns holds for each namespace a channel with room for the one whose turn it is.
	turns sync.Map
}

// Reconcile projects the policy of the name into every namespace in which it is in force, and then says so. A policy that
// was deleted is projected too: as none.
func (r *Reconciler) Reconcile(ctx context.Context, name types.NamespacedName) (ctrl.Result, error) {
	err := r.reconcile(ctx, name)
	// It was changed meanwhile, and what was projected is perhaps no longer the newest; or it could not be projected yet.
	if apierrors.IsConflict(err) || err == ErrBusy { //nolint:errorlint // it alone: beside another error it is one
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	return ctrl.Result{}, err
}

func (r *Reconciler) reconcile(ctx context.Context, name types.NamespacedName) error {
	if name.Name != v1alpha1.DefaultPolicyName {
		return nil
	}
	// It is read before it is projected: what is gathered later is this generation or a newer one.
	var p v1alpha1.AgentPolicy
	err := r.Client.Get(ctx, name, &p)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the policy: %w", err)
	}
	if err := r.everywhere(ctx, name.Namespace); err != nil {
		return err
	}
	if p.UID == "" { // it was deleted: nothing is left to say so
		return nil
	}
	if err := r.record(ctx, &p); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return nil
}

// everywhere projects into every namespace that a policy of the given one reaches. One that fails does not keep the others from it.
// The error is ErrBusy itself if there is nothing worse.
func (r *Reconciler) everywhere(ctx context.Context, namespace string) error {
	tenants, err := r.Ledger.Tenants(ctx)
	if err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	var faults []error
	busy := false
	for _, t := range tenants {
		if ctx.Err() != nil {
			faults = append(faults, ctx.Err())
			break
		}
		if namespace != r.Namespace && namespace != t.Namespace {
			continue
		}
		switch err := r.project(ctx, t.Namespace, t.NamespaceUID); {
		case errors.Is(err, ErrBusy):
			busy = true
		case err != nil:
			faults = append(faults, err)
		}
	}
	switch {
	case len(faults) > 0:
		return fmt.Errorf("projecting: %w", errors.Join(faults...))
	case busy:
		return ErrBusy
	default:
		return nil
	}
}

// Project puts in force in a namespace what its policies say. It belongs between the provisioning of the namespace and the
// admission of a run: whichever of this and a change of a policy comes second then sees the other. What it fails with passes:
// ErrBusy, and the errors of the ledger.
func (r *Reconciler) Project(ctx context.Context, ns *corev1.Namespace) error {
	return r.project(ctx, ns.Name, ns.UID)
}

func (r *Reconciler) project(ctx context.Context, namespace string, uid types.UID) error {
	// Gathering and projecting are one step: a set that was gathered earlier must not be projected later.
	kept, _ := r.turns.LoadOrStore(uid, make(chan struct{}, 1))
	turn := kept.(chan struct{})
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return fmt.Errorf("policies of namespace %s: %w", namespace, ctx.Err())
	case <-time.After(patience):
		return fmt.Errorf("policies of namespace %s: %w", namespace, ErrBusy)
	}
	set, err := Gather(ctx, r.Client, namespace, r.Namespace)
	if err != nil {
		return err
	}
	if err := r.Ledger.Project(ctx, uid, set); err != nil {
		return fmt.Errorf("policies of namespace %s: %w", namespace, err)
	}
	return nil
}

// record writes the status, once, and then tells people.
func (r *Reconciler) record(ctx context.Context, p *v1alpha1.AgentPolicy) error {
	before := p.DeepCopy()
	message, kind := inForce, corev1.EventTypeNormal
	if all := problems(p); len(all) > 0 {
		message, kind = message+". "+strings.Join(all, " "), corev1.EventTypeWarning
	}
	message = contract.Clip(message, contract.MaxMessage)
	p.Status.ObservedGeneration = p.Generation
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonInForce,
		Message: message, ObservedGeneration: p.Generation,
	})
	if equality.Semantic.DeepEqual(before.Status, p.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.Events.Eventf(p, nil, kind, v1alpha1.ReasonInForce, "Project", "%s", message)
	return nil
}

// inForce stays true whatever namespaces come: where no run was admitted yet, none is before the policy is projected there.
const inForce = "in force: every call that begins from now on is judged by it"

// problems tells of rules that cannot be evaluated as they are written. They are in force all the same, on the safe side: calls
// that one may be about need approval.
func problems(p *v1alpha1.AgentPolicy) []string {
	return policy.Compile(contract.PolicySet{Sources: []contract.PolicySource{{Namespace: p.Namespace, Name: p.Name, Rules: p.Spec.Rules}}}).Problems()
}
