// Package definition compiles AgentDefinitions into DefinitionRevisions. An edit that does not compile says so in the
// definition's status and leaves the last good revision current.
package definition

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
	"github.com/ekiden-dev/ekiden/controllers/requeue"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// The rights this package needs. controller-gen reads them from here.
// +kubebuilder:rbac:groups=ekiden.dev,resources=agentdefinitions;modelendpoints;toolservers;agentruns,verbs=list;watch
// +kubebuilder:rbac:groups=ekiden.dev,resources=agentdefinitions/status,verbs=patch
// +kubebuilder:rbac:groups=ekiden.dev,resources=agentdefinitions/finalizers,verbs=update
// +kubebuilder:rbac:groups=ekiden.dev,resources=definitionrevisions,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler compiles definitions.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
}

// Reconcile gathers, compiles, publishes, records, and prunes what the record made superfluous.
func (r *Reconciler) Reconcile(ctx context.Context, def *v1alpha1.AgentDefinition) (ctrl.Result, error) {
	return requeue.Settle(ctrl.Result{}, r.reconcile(ctx, def))
}

func (r *Reconciler) reconcile(ctx context.Context, def *v1alpha1.AgentDefinition) error {
	if !def.DeletionTimestamp.IsZero() {
		return nil
	}
	endpoint, err := r.endpoint(ctx, def)
	if err != nil {
		return fmt.Errorf("gathering: %w", err)
	}
	servers, err := r.servers(ctx, def)
	if err != nil {
		return fmt.Errorf("gathering: %w", err)
	}
	revision, problem := compile.Agent(def, endpoint, servers)
	if problem == nil {
		if problem, err = r.publish(ctx, revision); err != nil {
			return fmt.Errorf("publishing: %w", err)
		}
	}
	if err := r.record(ctx, def, revision, problem); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	if err := r.prune(ctx, def); err != nil {
		return fmt.Errorf("pruning revisions: %w", err)
	}
	return nil
}

func (r *Reconciler) endpoint(ctx context.Context, def *v1alpha1.AgentDefinition) (*v1alpha1.ModelEndpoint, error) {
	var e v1alpha1.ModelEndpoint
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: def.Namespace, Name: def.Spec.ModelRef.Name}, &e)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &e, err
}

// servers are the ToolServers that the definition refers to and that exist, by their names.
func (r *Reconciler) servers(ctx context.Context, def *v1alpha1.AgentDefinition) (map[string]*v1alpha1.ToolServer, error) {
	servers := map[string]*v1alpha1.ToolServer{}
	for _, name := range serverNames(def) {
		var s v1alpha1.ToolServer
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: def.Namespace, Name: name}, &s)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("tool server %s: %w", name, err)
		default:
			servers[name] = &s
		}
	}
	return servers, nil
}

// publish creates the revision, unless it exists already.
func (r *Reconciler) publish(ctx context.Context, revision *v1alpha1.DefinitionRevision) (*compile.Problem, error) {
	var existing v1alpha1.DefinitionRevision
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(revision), &existing)
	if apierrors.IsNotFound(err) {
		if err = r.Client.Create(ctx, revision); !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(revision), &existing)
	}
	if err != nil {
		return nil, err
	}
	owner, ours := metav1.GetControllerOf(&existing), metav1.GetControllerOf(revision)
	if existing.Spec.Digest != revision.Spec.Digest || owner == nil || owner.UID != ours.UID {
		return &compile.Problem{Reason: v1alpha1.ReasonNameTaken, Message: fmt.Sprintf("a DefinitionRevision %q exists and was not made from this definition: delete it", existing.Name)}, nil
	}
	return nil, nil
}

// record writes the status, once, and then tells people.
func (r *Reconciler) record(ctx context.Context, def *v1alpha1.AgentDefinition, revision *v1alpha1.DefinitionRevision, problem *compile.Problem) error {
	before := def.DeepCopy()
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, ObservedGeneration: def.Generation}
	if problem == nil {
		def.Status.CurrentRevision = revision.Name
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, v1alpha1.ReasonCompiled, "revision "+revision.Name+" is current"
	} else {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, problem.Reason, contract.Clip(problem.Message, contract.MaxMessage)
	}
	def.Status.ObservedGeneration = def.Generation
	meta.SetStatusCondition(&def.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before.Status, def.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, def, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	kind := corev1.EventTypeNormal
	if problem != nil {
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(def, nil, kind, ready.Reason, "Compile", "%s", ready.Message)
	return nil
}

func (r *Reconciler) prune(ctx context.Context, def *v1alpha1.AgentDefinition) error {
	var revisions v1alpha1.DefinitionRevisionList
	if err := r.Client.List(ctx, &revisions, client.InNamespace(def.Namespace), client.MatchingFields{byDefinition: def.Name}); err != nil {
		return err
	}
	if len(revisions.Items) <= 1 {
		return nil
	}
	var runs v1alpha1.AgentRunList
	if err := r.Client.List(ctx, &runs, client.InNamespace(def.Namespace)); err != nil {
		return err
	}
	for _, old := range surplus(def, revisions.Items, runs.Items) {
		if err := r.Client.Delete(ctx, &old, client.Preconditions{UID: &old.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
