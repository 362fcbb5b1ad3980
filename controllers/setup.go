// Package controllers lists the controllers of the manager.
package controllers

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun"
	"github.com/ekiden-dev/ekiden/controllers/approval"
	"github.com/ekiden-dev/ekiden/controllers/approval/guard"
	"github.com/ekiden-dev/ekiden/controllers/definition"
	"github.com/ekiden-dev/ekiden/controllers/ledger"
	"github.com/ekiden-dev/ekiden/controllers/policy"
	"github.com/ekiden-dev/ekiden/controllers/pulse"
	"github.com/ekiden-dev/ekiden/controllers/sweep"
	"github.com/ekiden-dev/ekiden/controllers/toolserver"
)

// Options are what the controllers need besides the manager.
type Options struct {
	Ledger ledger.Ledger
	// Namespace is the manager's own.
	Namespace string
	// SegmentImage is the image of segment pods.
	SegmentImage string
	// Pods are the settings of pods under those of every policy.
	Pods v1alpha1.PodSettings
	// SegmentDSN is the address of Postgres as segment pods see it, without a login.
	SegmentDSN string
	// Keep says for how long what is kept in the ledger.
	Keep sweep.Keep
}

// The rights of leader election and of its events.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=ekiden-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=ekiden-system,resources=leases,resourceNames=ekiden-manager,verbs=get;update
// +kubebuilder:rbac:groups="",resources=events,verbs=create

// Setup adds every controller to the manager.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	c, live, events := mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("ekiden")
	watch, err := guard.New(c, time.Now)
	if err != nil {
		return err
	}
	woken := make(chan event.TypedGenericEvent[client.Object], 1024)
	policies := &policy.Reconciler{Client: c, Ledger: o.Ledger, Events: events, Namespace: o.Namespace, Pods: o.Pods}
	beats := pulse.New(live, c, o.Ledger, o.Namespace)
	runs := &agentrun.Reconciler{
		Client: c, Live: live, Events: events, Ledger: o.Ledger, Sound: beats.Sound, Project: policies.Project, Pods: policies.PodsIn, Told: told(live), Woken: woken,
		Namespace: o.Namespace, SegmentImage: o.SegmentImage, SegmentDSN: o.SegmentDSN,
	}
	servers := &toolserver.Reconciler{
		Client: c, Live: live, Events: events, Ledger: o.Ledger, Provision: provision(runs), Pods: policies.PodsIn, Told: told(live), Image: o.SegmentImage,
	}
	requests := &approval.Reconciler{Client: c, Live: live, Events: events, Ledger: o.Ledger, Guard: watch, Wake: wake(ctx, woken)}
	return errors.Join(
		(&definition.Reconciler{Client: c, Live: live, Events: events}).SetupWithManager(ctx, mgr),
		policies.SetupWithManager(mgr),
		servers.SetupWithManager(mgr),
		requests.SetupWithManager(ctx, mgr),
		runs.SetupWithManager(ctx, mgr),
		mgr.Add(beats),
		mgr.Add(&sweep.Sweeper{Live: live, Ledger: o.Ledger, Keep: o.Keep}),
	)
}

// provision makes a namespace's login for what is not a run.
func provision(runs *agentrun.Reconciler) func(context.Context, *corev1.Namespace) error {
	return func(ctx context.Context, ns *corev1.Namespace) error {
		unfit, err := runs.Provision(ctx, ns)
		if err == nil && unfit != "" {
			return &toolserver.UnfitError{Message: unfit}
		}
		return err
	}
}

// The right to hear why a pod was refused.
// +kubebuilder:rbac:groups="",resources=events,verbs=list

const (
	// mostEvents bounds what is read of what is told of one object. Whoever may write events may write many, of up to 1.5 MiB each, and
	// all workers may read at once: more than these would let one namespace use up the manager's memory.
	mostEvents = 10
	// toldWithin bounds how long that may take.
	toldWithin = 5 * time.Second
)

// told reads the events of one object. They are not cached: a cluster has many, and one is asked for only when a pod does not start.
// They are words and nothing is decided by them, so that not getting them is as if there were none.
func told(live client.Reader) func(context.Context, string, types.UID) ([]corev1.Event, error) {
	return func(ctx context.Context, namespace string, about types.UID) ([]corev1.Event, error) {
		brief, cancel := context.WithTimeout(ctx, toldWithin)
		defer cancel()
		var list corev1.EventList
		err := live.List(brief, &list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": string(about)}, client.Limit(mostEvents))
		switch {
		case err == nil:
			return list.Items, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		default:
			logf.FromContext(ctx).V(1).Info("the events of an object cannot be read", "uid", about, "error", err.Error())
			return nil, nil
		}
	}
}

// wake has runs looked at whose calls were decided on. A poke that is lost with the manager costs nothing: the next one looks
// at every run when it starts.
func wake(ctx context.Context, woken chan<- event.TypedGenericEvent[client.Object]) func(types.NamespacedName) {
	return func(run types.NamespacedName) {
		select {
		case woken <- event.TypedGenericEvent[client.Object]{Object: &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: run.Name}}}:
		case <-ctx.Done():
		}
	}
}
