package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
)

const home = "ekiden-system"

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestUninstall(t *testing.T) {
	held := given.Run("held", "support", holding(v1alpha1.Finalizer))
	shared := given.Run("shared", "support", holding("example.org/theirs", v1alpha1.Finalizer))
	leaving := given.Run("leaving", "sales", holding(v1alpha1.Finalizer))
	cases := map[string]struct {
		objects []client.Object
		// change plays somebody who is quicker, before the first patch of a run.
		change func(context.Context, client.Client)
		// left are the finalizers of each run that is there afterwards.
		left map[string]string
		err  string
	}{
		"every run is let go, in all namespaces":              {objects: objects(held, leaving), left: map[string]string{"held": "", "leaving": ""}},
		"finalizers of others stay":                           {objects: objects(shared), left: map[string]string{"shared": "example.org/theirs"}},
		"a run without a finalizer is left alone":             {objects: objects(given.Run("new", "support")), left: map[string]string{"new": ""}},
		"a run that is being deleted goes":                    {objects: objects(dying(held)), left: map[string]string{}},
		"the manager is stopped first":                        {objects: objects(held, deployment(2)), left: map[string]string{"held": ""}},
		"a lease that was given back is free":                 {objects: objects(held, lease("", now)), left: map[string]string{"held": ""}},
		"a lease that was not renewed is free":                {objects: objects(held, lease("manager-1", now.Add(-time.Hour))), left: map[string]string{"held": ""}},
		"a manager that works keeps its runs":                 {objects: objects(held, lease("manager-1", now)), left: map[string]string{"held": v1alpha1.Finalizer}, err: "manager-1 holds the lease ekiden-manager"},
		"a pod of the manager that does not go is waited for": {objects: objects(held, deployment(0), pod()), left: map[string]string{"held": v1alpha1.Finalizer}, err: "there is ekiden-manager-1"},
		"a pod of the manager that was evicted is none":       {objects: objects(held, deployment(0), evicted()), left: map[string]string{"held": ""}},
		"a manager that comes back meanwhile is told of": {
			objects: objects(held),
			change: func(ctx context.Context, c client.Client) {
				if err := c.Create(ctx, lease("manager-2", now)); err != nil {
					t.Error(err)
				}
			},
			left: map[string]string{"held": ""}, err: "a manager came back meanwhile: manager-2 holds the lease",
		},
		"a run that somebody changes meanwhile is let go": {
			objects: objects(held),
			change: func(ctx context.Context, c client.Client) {
				run := given.Run("held", "support")
				if err := c.Get(ctx, client.ObjectKeyFromObject(run), run); err != nil {
					t.Error(err)
				}
				run.Finalizers = append(run.Finalizers, "example.org/late")
				if err := c.Update(ctx, run); err != nil {
					t.Error(err)
				}
			},
			left: map[string]string{"held": "example.org/late"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c := world(t, tc.change, tc.objects...)
			u := Uninstall{Namespace: home, Deployment: "ekiden-manager", Say: t.Logf, Pause: time.Millisecond, Now: func() time.Time { return now }}
			if err := u.Run(ctx, c); tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("the error is %v, want %q", err, tc.err)
			}
			wantLeft(t, c, tc.left)
			var d appsv1.Deployment
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "ekiden-manager"}, &d); err == nil && *d.Spec.Replicas != 0 {
				t.Errorf("%d managers are wanted", *d.Spec.Replicas)
			}
		})
	}
}

// TestWhatMayNotBeDoneIsSaid: an account that lacks a right hears which, at once, and every run it may let go is let go.
func TestWhatMayNotBeDoneIsSaid(t *testing.T) {
	held, other := given.Run("held", "support", holding(v1alpha1.Finalizer)), given.Run("other", "support", holding(v1alpha1.Finalizer))
	forbidden := apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("agentruns").GroupResource(), "held", errors.New("no"))
	c := interceptor.NewClient(world(t, nil, held, other).(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if o.GetName() == "held" {
				return forbidden
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	err := Uninstall{Namespace: home, Say: t.Logf, Pause: time.Millisecond}.Run(t.Context(), c)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "run support/held") {
		t.Errorf("the error is %v", err)
	}
	wantLeft(t, c, map[string]string{"held": v1alpha1.Finalizer, "other": ""})
}

func world(t *testing.T, change func(context.Context, client.Client), objects ...client.Object) client.Client {
	t.Helper()
	mapper := testrestmapper.TestOnlyStaticRESTMapper(scheme(t))
	plain := fake.NewClientBuilder().WithScheme(scheme(t)).WithRESTMapper(mapper).WithObjects(objects...).Build()
	return interceptor.NewClient(plain, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if act := change; act != nil {
				change = nil
				act(ctx, plain)
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

func wantLeft(t *testing.T, c client.Client, want map[string]string) {
	t.Helper()
	var runs v1alpha1.AgentRunList
	if err := c.List(t.Context(), &runs); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range runs.Items {
		got[r.Name] = strings.Join(r.Finalizers, " ")
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the runs are %v, want %v", got, want)
	}
}

func objects(o ...client.Object) []client.Object {
	for i := range o {
		o[i] = o[i].DeepCopyObject().(client.Object)
	}
	return o
}

func holding(finalizers ...string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) { r.Finalizers = finalizers }
}

func dying(r *v1alpha1.AgentRun) *v1alpha1.AgentRun {
	r = r.DeepCopy()
	r.DeletionTimestamp = &metav1.Time{Time: now}
	return r
}

var managers = map[string]string{"app": "manager"}

func deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "ekiden-manager"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: managers}},
	}
}

func pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "ekiden-manager-1", Labels: managers}}
}

func evicted() *corev1.Pod {
	p := pod()
	p.Status.Phase = corev1.PodFailed
	return p
}

func lease(holder string, renewed time.Time) *coordinationv1.Lease {
	seconds, at := int32(15), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: Lease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at},
	}
}
