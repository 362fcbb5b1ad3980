// Package guard tells whether the API server lets only approvers decide. Two things have to hold: the admission policies are
// installed as they were written, and the API server heeds them. The first is watched; the second is tried, in each namespace,
// by a creation that has to be refused.
package guard

import (
	"context"
	"fmt"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/config/admission"
)

// The rights this package needs. controller-gen reads them from here.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings;mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=list;watch
// +kubebuilder:rbac:groups=ekiden.dev,resources=approvalrequests,verbs=create

// lasting is how long a proof counts. A failure counts for nothing: the next look tries again.
const lasting = time.Minute

// Guard looks after the policies. It is for concurrent use.
type Guard struct {
	// client reads policies from the cache and creates live.
	client   client.Client
	now      func() time.Time
	expected []expectation
	policy   string

	mu     sync.Mutex
	proven map[string]time.Time
}

// New is a guard that expects the policies of config/admission.
func New(c client.Client, now func() time.Time) (*Guard, error) {
	objects, err := admission.Objects()
	if err != nil {
		return nil, fmt.Errorf("reading the admission policies: %w", err)
	}
	g := &Guard{client: c, now: now, proven: map[string]time.Time{}}
	for _, o := range objects {
		e, err := expect(o)
		if err != nil {
			return nil, err
		}
		g.expected = append(g.expected, e)
		if _, ok := e.prototype.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok {
			g.policy = e.name
		}
	}
	if g.policy == "" {
		return nil, fmt.Errorf("config/admission holds no ValidatingAdmissionPolicy that guards approvals")
	}
	return g, nil
}

// Guarded reports whether a decision in the namespace can be honoured, and if not what is wrong and the cure. An error means
// that nobody knows.
func (g *Guard) Guarded(ctx context.Context, namespace string) (ok bool, why string, err error) {
	if why, err = g.Installed(ctx); err != nil || why != "" {
		return false, why, err
	}
	if g.fresh(namespace) {
		return true, "", nil
	}
	begun := g.now()
	if why, err = g.try(ctx, namespace); err != nil || why != "" {
		return false, why, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.proven[namespace] = begun
	return true, "", nil
}

func (g *Guard) fresh(namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.proven[namespace]
	if age := g.now().Sub(at); ok && age >= 0 && age < lasting {
		return true
	}
	delete(g.proven, namespace)
	return false
}

// Concerns reports whether the object is one of the policies or bindings.
func (g *Guard) Concerns(o client.Object) bool {
	for _, e := range g.expected {
		if e.is(o) {
			return true
		}
	}
	return false
}

// Since is when the newest of the policies and bindings was made, as the cache shows them, or zero while one is missing.
func (g *Guard) Since(ctx context.Context) (time.Time, error) {
	var newest time.Time
	for _, e := range g.expected {
		found := e.empty()
		err := g.client.Get(ctx, client.ObjectKey{Name: e.name}, found)
		if apierrors.IsNotFound(err) {
			return time.Time{}, nil
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("%s %s: %w", e.kind, e.name, err)
		}
		if at := found.GetCreationTimestamp().Time; at.After(newest) {
			newest = at
		}
	}
	return newest, nil
}

// Installed says what is wrong with the policies as the cache shows them, and the cure. Empty means nothing.
func (g *Guard) Installed(ctx context.Context) (why string, err error) {
	for _, e := range g.expected {
		found := e.empty()
		err := g.client.Get(ctx, client.ObjectKey{Name: e.name}, found)
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Sprintf("%s %s is missing: apply config/admission", e.kind, e.name), nil
		case err != nil:
			return "", fmt.Errorf("%s %s: %w", e.kind, e.name, err)
		case !found.GetDeletionTimestamp().IsZero():
			return fmt.Sprintf("%s %s is being deleted: apply config/admission once it is gone", e.kind, e.name), nil
		}
		field, err := e.differs(found)
		if err != nil {
			return "", err
		}
		if field != "" {
			return fmt.Sprintf("%s of %s %s is not as this version of the manager has it: apply config/admission of the same version", field, e.kind, e.name), nil
		}
	}
	return "", nil
}
