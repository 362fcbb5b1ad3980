// Package install is what a Job does once around the life of an installation: it looks whether everything is in place, and
// it prepares the end. Nothing here runs beside the controllers.
package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Uninstall says whose end is prepared.
type Uninstall struct {
	// Namespace is the manager's own.
	Namespace string
	// Deployment is the name of the manager's Deployment. Empty means that somebody else has stopped the manager.
	Deployment string
	// Say is told what happens, a line each.
	Say func(format string, args ...any)
	// Pause lies between two looks at what is waited for.
	Pause time.Duration
	// Now is the clock by which a lease is stale; nil means time.Now.
	Now func() time.Time
}

// page is how many runs are asked for at once: a run may have 100 KiB.
const page = 100

// Run stops the manager and takes its finalizers off everything, so that whatever is deleted afterwards goes. It deletes
// nothing: definitions, runs and the data in Postgres stay, pods that run go on until their segment has ended, and a manager
// that is installed again takes up every run where it stands. It may be run again after a failure. It ends when ctx does.
func (u Uninstall) Run(ctx context.Context, c client.Client) error {
	if u.Deployment != "" {
		if err := u.stop(ctx, c); err != nil {
			return err
		}
	}
	// A manager that still works would put the finalizers on again.
	if err := u.wait(ctx, "the manager's lease is free", func() (string, error) { return u.leased(ctx, c) }); err != nil {
		return err
	}
	if err := u.release(ctx, c); err != nil {
		return err
	}
	switch holder, err := u.leased(ctx, c); {
	case err != nil:
		return err
	case holder != "":
		return fmt.Errorf("a manager came back meanwhile: %s. Suspend whatever sets the replicas of its Deployment again, and repeat this", holder)
	}
	return nil
}

// stop scales the Deployment to zero and waits until its pods are gone. What is not there is stopped.
func (u Uninstall) stop(ctx context.Context, c client.Client) error {
	deployment := &appsv1.Deployment{}
	err := c.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: u.Deployment}, deployment)
	if apierrors.IsNotFound(err) {
		u.Say("there is no Deployment %s/%s: no manager is stopped", u.Namespace, u.Deployment)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Deployment %s/%s: %w", u.Namespace, u.Deployment, err)
	}
	pods, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return fmt.Errorf("reading whose pods those of Deployment %s/%s are: %w", u.Namespace, u.Deployment, err)
	}
	none := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: u.Deployment}}
	if err := c.SubResource("scale").Update(ctx, deployment, client.WithSubResourceBody(none)); err != nil {
		return fmt.Errorf("scaling Deployment %s/%s to 0: %w", u.Namespace, u.Deployment, err)
	}
	return u.wait(ctx, "the manager's pods are gone", func() (string, error) {
		var left corev1.PodList
		if err := c.List(ctx, &left, client.InNamespace(u.Namespace), client.MatchingLabelsSelector{Selector: pods}); err != nil {
			return "", fmt.Errorf("listing the pods of the manager: %w", err)
		}
		return inTheWay(left.Items), nil
	})
}

// inTheWay names the pods that may still work. One that was evicted may lie about for long.
func inTheWay(pods []corev1.Pod) string {
	var names []string
	for _, p := range pods {
		if p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "there is " + strings.Join(names, ", ")
}

// leased says who holds the lease, or nothing.
func (u Uninstall) leased(ctx context.Context, c client.Client) (string, error) {
	leader, err := holder(ctx, c, u.Namespace, u.now())
	if err != nil || leader == "" {
		return "", err
	}
	return fmt.Sprintf("%s holds the lease %s", leader, Lease), nil
}

func (u Uninstall) now() time.Time {
	if u.Now == nil {
		return time.Now()
	}
	return u.Now()
}

// wait looks until nothing is in the way. An answer of the API server that it is not there is waited out as well.
func (u Uninstall) wait(ctx context.Context, what string, look func() (obstacle string, err error)) error {
	said := ""
	for {
		obstacle, err := look()
		if err == nil && obstacle == "" {
			u.Say("%s", what)
			return nil
		}
		if apierrors.IsForbidden(err) {
			return err
		}
		if err != nil {
			obstacle = err.Error()
		}
		if obstacle != said {
			u.Say("waiting until %s: %s", what, obstacle)
			said = obstacle
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %s: %w", what, obstacle, ctx.Err())
		case <-time.After(u.Pause):
		}
	}
}

// release takes the finalizer off every run.
func (u Uninstall) release(ctx context.Context, c client.Client) error {
	released, deleted := 0, 0
	var failed []error
	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AgentRunList"))
	for next := ""; ; next = list.Continue {
		// Runs made meanwhile have no finalizer: only a manager puts it on.
		err := c.List(ctx, &list, client.Limit(page), client.Continue(next))
		if apierrors.IsNotFound(err) {
			u.Say("the API server knows no runs")
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing runs: %w", err)
		}
		for i := range list.Items {
			run := &list.Items[i]
			if !controllerutil.ContainsFinalizer(run, v1alpha1.Finalizer) {
				continue
			}
			if err := letGo(ctx, c, run); err != nil {
				failed = append(failed, fmt.Errorf("run %s/%s: %w", run.Namespace, run.Name, err))
				continue
			}
			released++
			if !run.DeletionTimestamp.IsZero() {
				deleted++
			}
		}
		if list.Continue == "" {
			break
		}
	}
	u.Say("released %d runs, %d of which were being deleted", released, deleted)
	return errors.Join(failed...)
}

// letGo takes our finalizer off a run, and no other. The patch is refused if somebody changed the run since.
func letGo(ctx context.Context, c client.Client, run *metav1.PartialObjectMetadata) error {
	for {
		before := run.DeepCopy()
		if !controllerutil.RemoveFinalizer(run, v1alpha1.Finalizer) {
			return nil
		}
		err := c.Patch(ctx, run, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(before), run); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
}
