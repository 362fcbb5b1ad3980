package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTheChartIsConfigDefault: object by object and field by field, but for the marks of Helm. The namespace is the only object
// that the chart leaves to others.
func TestTheChartIsConfigDefault(t *testing.T) {
	t.Parallel()
	chart, config := objects{}, kustomized(t, "default")
	for name, o := range rendered(t, "") {
		if !hook(o) {
			chart[name] = o
		}
	}
	if config["Namespace/"+namespace] == nil {
		t.Error("config/default has no namespace: this test leaves out one that is not there")
	}
	delete(config, "Namespace/"+namespace)
	same(t, chart, config)
}

// TestTheHookIsConfigUninstall: who has no Helm runs the same Job with the same rights.
func TestTheHookIsConfigUninstall(t *testing.T) {
	t.Parallel()
	chart := objects{}
	for name, o := range rendered(t, "") {
		if o.GetAnnotations()["helm.sh/hook"] == "pre-delete" {
			chart[name] = o
		}
	}
	same(t, chart, kustomized(t, "uninstall"))
}

func hook(o *unstructured.Unstructured) bool { return o.GetAnnotations()["helm.sh/hook"] != "" }

func same(t *testing.T, chart, config objects) {
	t.Helper()
	names := maps.Clone(chart)
	maps.Copy(names, config)
	if len(names) == 0 {
		t.Fatal("nothing is compared")
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c, k := chart[name], config[name]
		switch {
		case c == nil:
			t.Errorf("the chart has no %s", name)
		case k == nil:
			t.Errorf("config has no %s", name)
		default:
			if diff := cmp.Diff(k.Object, unmarked(c).Object); diff != "" {
				t.Errorf("%s differs (-config +chart):\n%s", name, diff)
			}
		}
	}
}

// marks are the labels that Helm wants and nobody else has a use for.
var marks = []string{"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"}

// unmarked is an object without the marks of Helm.
func unmarked(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	for _, mark := range marks {
		delete(labels, mark)
	}
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, "helm.sh/") })
	o.SetLabels(labels)
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
	return o
}

// TestEveryObjectBearsTheMarks: by them Helm and people find what belongs to the release.
func TestEveryObjectBearsTheMarks(t *testing.T) {
	t.Parallel()
	for name, o := range rendered(t, everything) {
		for _, mark := range append([]string{"app.kubernetes.io/name", "app.kubernetes.io/part-of"}, marks...) {
			if o.GetLabels()[mark] == "" {
				t.Errorf("%s has no label %s", name, mark)
			}
		}
		if ns := o.GetNamespace(); ns != "" && ns != namespace {
			t.Errorf("%s is in namespace %s, which is not the release's", name, ns)
		}
	}
}

// TestTheReleaseMayBeAnywhere: no name of a namespace is written in a template.
func TestTheReleaseMayBeAnywhere(t *testing.T) {
	t.Parallel()
	text, err := helm(t, "template", release, chart, "--namespace", "elsewhere", "--kube-version", oldest, "--values", written(t, images), "--set", "postgres.trial.enabled=true,networkPolicy.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, namespace) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			t.Errorf("in another namespace: %s", line)
		}
	}
}
