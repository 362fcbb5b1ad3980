package chart

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestPodsMeetRestrictedPodSecurity: judged as the API server judges them in a namespace that enforces it.
func TestPodsMeetRestrictedPodSecurity(t *testing.T) {
	t.Parallel()
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	judged := map[string]bool{}
	for name, o := range rendered(t, everything) {
		meta, spec := pod(t, o)
		if spec == nil {
			continue
		}
		judged[name] = true
		if result := policy.AggregateCheckResults(judge.EvaluatePod(restricted, meta, spec)); !result.Allowed {
			t.Errorf("%s: %s", name, result.ForbiddenDetail())
		}
		for _, c := range spec.Containers {
			if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s: container %s may write its root filesystem", name, c.Name)
			}
			if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: container %s has no request or no limit of memory", name, c.Name)
			}
		}
	}
	for _, want := range []string{"Deployment/ekiden-manager", "Job/ekiden-uninstall", "Pod/ekiden-check", "StatefulSet/ekiden-trial-postgres"} {
		if !judged[want] {
			t.Errorf("%s was not judged", want)
		}
	}
}

// pod is the pod of an object, or nothing if it has none.
func pod(t *testing.T, o *unstructured.Unstructured) (*metav1.ObjectMeta, *corev1.PodSpec) {
	t.Helper()
	as := func(typed any) {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
			t.Fatalf("reading %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	switch o.GetKind() {
	case "Deployment":
		var d appsv1.Deployment
		as(&d)
		return &d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec
	case "StatefulSet":
		var s appsv1.StatefulSet
		as(&s)
		return &s.Spec.Template.ObjectMeta, &s.Spec.Template.Spec
	case "Job":
		var j batchv1.Job
		as(&j)
		return &j.Spec.Template.ObjectMeta, &j.Spec.Template.Spec
	case "Pod":
		var p corev1.Pod
		as(&p)
		return &p.ObjectMeta, &p.Spec
	default:
		return nil, nil
	}
}
