package chart

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestTheManagerListensOnAddressesOfBothFamilies: without brackets one of IPv6 and a port are no address.
func TestTheManagerListensOnAddressesOfBothFamilies(t *testing.T) {
	t.Parallel()
	_, spec := pod(t, rendered(t, "")["Deployment/ekiden-manager"])
	for _, want := range []string{"--metrics-bind-address=[$(POD_IP)]:8080", "--health-probe-bind-address=[$(POD_IP)]:8081"} {
		if !slices.Contains(spec.Containers[0].Args, want) {
			t.Errorf("no argument %s in %q", want, spec.Containers[0].Args)
		}
	}
}

// TestEveryPodMayTalk: in a namespace where nobody may by default, each pod of the chart has a policy that lets it out to where it
// has to go, and lets nobody in who does not call it.
func TestEveryPodMayTalk(t *testing.T) {
	t.Parallel()
	const api, postgres, dns = 6443, 5432, 53
	want := map[string][]int32{
		"Deployment/ekiden-manager":         {dns, api, postgres},
		"Pod/ekiden-check":                  {dns, api, postgres},
		"Job/ekiden-uninstall":              {dns, api},
		"StatefulSet/ekiden-trial-postgres": nil,
	}
	all := rendered(t, everything)
	got := map[string][]int32{}
	for name, o := range all {
		meta, spec := pod(t, o)
		if spec == nil {
			continue
		}
		got[name] = nil
		for _, p := range policiesOf(t, all, meta.Labels) {
			if !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) || !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
				t.Errorf("%s leaves a direction open", p.Name)
			}
			got[name] = append(got[name], ports(p.Spec.Egress)...)
		}
		got[name] = slices.DeleteFunc(got[name], func(port int32) bool { return port == 443 })
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("where pods may go (-want +got):\n%s", diff)
	}
}

// policiesOf are the policies that select a pod.
func policiesOf(t *testing.T, all objects, of map[string]string) []networkingv1.NetworkPolicy {
	t.Helper()
	var found []networkingv1.NetworkPolicy
	for _, o := range all {
		if o.GetKind() != "NetworkPolicy" {
			continue
		}
		var p networkingv1.NetworkPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &p, true); err != nil {
			t.Fatal(err)
		}
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		if selector.Matches(labels.Set(of)) {
			found = append(found, p)
		}
	}
	return found
}

// ports are those to which rules let, each once.
func ports(rules []networkingv1.NetworkPolicyEgressRule) []int32 {
	var found []int32
	for _, r := range rules {
		for _, p := range r.Ports {
			if port := p.Port.IntVal; !slices.Contains(found, port) {
				found = append(found, port)
			}
		}
	}
	return found
}

// TestTheCheckReadsOurPoliciesOnly: rights on what is everybody's are given by name.
func TestTheCheckReadsOurPoliciesOnly(t *testing.T) {
	t.Parallel()
	all := rendered(t, "")
	var role rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all["ClusterRole/ekiden-check"].Object, &role); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, o := range all {
		if strings.Contains(o.GetKind(), "AdmissionPolicy") && !slices.Contains(want, o.GetName()) {
			want = append(want, o.GetName())
		}
	}
	slices.Sort(want)
	for _, r := range role.Rules {
		if diff := cmp.Diff(want, r.ResourceNames); diff != "" {
			t.Errorf("%v: -want +got:\n%s", r.Resources, diff)
		}
	}
}

// TestTheTrialKeepsItsDataApart: images of 18 and later end at once when a volume lies at the folder of older ones.
func TestTheTrialKeepsItsDataApart(t *testing.T) {
	t.Parallel()
	_, spec := pod(t, rendered(t, everything)["StatefulSet/ekiden-trial-postgres"])
	container, at := spec.Containers[0], ""
	for _, m := range container.VolumeMounts {
		if m.Name == "data" {
			at = m.MountPath
		}
	}
	if at == "" || strings.HasPrefix(at, "/var/lib/postgresql") {
		t.Errorf("the data is mounted at %q", at)
	}
	// Below, because the root of a file system may hold other things, such as lost+found.
	for _, e := range container.Env {
		if e.Name == "PGDATA" && path.Dir(e.Value) != at {
			t.Errorf("PGDATA is %s, the volume at %s", e.Value, at)
		}
	}
}
