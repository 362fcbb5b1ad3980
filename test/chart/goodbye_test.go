package chart

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// stays are the kinds of what is left when Ekiden goes: those of ekiden.dev, and what guards their objects. Without the guards
// anybody who may create a run could name somebody else as its principal, and an Ekiden that is installed later would believe it.
var stays = map[string]bool{
	"CustomResourceDefinition":         true,
	"MutatingAdmissionPolicy":          true,
	"MutatingAdmissionPolicyBinding":   true,
	"ValidatingAdmissionPolicy":        true,
	"ValidatingAdmissionPolicyBinding": true,
}

func TestHelmKeepsTheKindsAndTheirGuards(t *testing.T) {
	t.Parallel()
	for name, o := range rendered(t, everything) {
		if kept := o.GetAnnotations()["helm.sh/resource-policy"] == "keep"; kept != stays[o.GetKind()] {
			t.Errorf("%s is kept: %t", name, kept)
		}
	}
}

// The commands of the guide, which the tests below carry out on config/default.
const (
	deletesTheManager = "kubectl -n ekiden-system delete deployment,service,pdb -l app.kubernetes.io/component=manager"
	deletesWhatStays  = "kubectl delete crd,validatingadmissionpolicy,validatingadmissionpolicybinding,mutatingadmissionpolicy,mutatingadmissionpolicybinding" +
		" -l app.kubernetes.io/name=ekiden"
)

// TestKubectlKeepsTheSame: and the namespace besides, which holds the Secret with the DSN and the platform's AgentPolicy.
func TestKubectlKeepsTheSame(t *testing.T) {
	t.Parallel()
	said(t, repo+"/docs/guides/install.md", deletesTheManager, "kubectl delete -k ekiden/config/rbac")
	said(t, repo+"/config/uninstall/kustomization.yaml", deletesTheManager, "kubectl delete -k config/rbac")
	left, rights := kustomized(t, "default"), kustomized(t, "rbac")
	maps.DeleteFunc(left, func(name string, _ *unstructured.Unstructured) bool { return rights[name] != nil })
	for name, o := range left {
		if slices.Contains([]string{"Deployment", "Service", "PodDisruptionBudget"}, o.GetKind()) && o.GetLabels()["app.kubernetes.io/component"] == "manager" {
			delete(left, name)
		}
	}
	want := []string{"Namespace/" + namespace}
	for name, o := range kustomized(t, "default") {
		if stays[o.GetKind()] {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(left))); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// TestWhatStaysIsFoundByItsLabel: whoever wants to be rid of the data too deletes by it, however Ekiden was installed.
func TestWhatStaysIsFoundByItsLabel(t *testing.T) {
	t.Parallel()
	said(t, repo+"/docs/guides/install.md", deletesWhatStays)
	said(t, chart+"/README.md", deletesWhatStays)
	for from, all := range map[string]objects{"config": kustomized(t, "default"), "the chart": rendered(t, "")} {
		for name, o := range all {
			if stays[o.GetKind()] && o.GetLabels()["app.kubernetes.io/name"] != "ekiden" {
				t.Errorf("%s of %s bears no label", name, from)
			}
		}
	}
}

// said checks that a page tells to type the commands.
func said(t *testing.T, page string, commands ...string) {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		if !strings.Contains(string(content), c) {
			t.Errorf("%s does not say: %s", page, c)
		}
	}
}
