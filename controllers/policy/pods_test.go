package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/test/given"
)

// TestPodsIn says which layer of settings wins in which namespace.
func TestPodsIn(t *testing.T) {
	t.Parallel()
	memory := func(limit string) map[string]resource.Quantity {
		return map[string]resource.Quantity{"memory": resource.MustParse(limit)}
	}
	file := v1alpha1.PodSettings{ServiceAccountName: "file", PriorityClassName: "file", RuntimeClassName: "file", Resources: v1alpha1.PodResources{Limits: memory("1Gi")}}
	wants := func(s v1alpha1.PodSettings) func(*v1alpha1.AgentPolicy) {
		return func(p *v1alpha1.AgentPolicy) { p.Spec.Pods = s }
	}
	w := newWorld(t,
		policyIn(system, wants(v1alpha1.PodSettings{ServiceAccountName: "floor", PriorityClassName: "floor"})),
		policyIn("team", wants(v1alpha1.PodSettings{ServiceAccountName: "team"})),
	)
	w.Pods = file
	builtIn := pod.BuiltIn().Resources
	for namespace, want := range map[string]v1alpha1.PodSettings{
		"team": {ServiceAccountName: "team", PriorityClassName: "floor", RuntimeClassName: "file"},
		"new":  {ServiceAccountName: "floor", PriorityClassName: "floor", RuntimeClassName: "file"},
		system: {ServiceAccountName: "floor", PriorityClassName: "floor", RuntimeClassName: "file"},
	} {
		want.Resources = v1alpha1.PodResources{Requests: builtIn.Requests, Limits: memory("1Gi")}
		got, err := w.PodsIn(t.Context(), namespace)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", namespace, err, diff)
		}
	}
}

// TestAPolicyOfPodsReachesTheNextOne without anything being projected.
func TestAPolicyOfPodsReachesTheNextOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyIn("team", given.Allows("crm", "crm/*")))
	before, err := w.PodsIn(t.Context(), "team")
	if err != nil || before.ServiceAccountName != "" {
		t.Fatalf("%+v, %v", before, err)
	}
	p := policyIn("team", func(p *v1alpha1.AgentPolicy) { p.Spec.Pods.ServiceAccountName = "agents" })
	if err := w.api.Delete(t.Context(), policyIn("team")); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if after, err := w.PodsIn(t.Context(), "team"); err != nil || after.ServiceAccountName != "agents" {
		t.Errorf("%+v, %v", after, err)
	}
}
