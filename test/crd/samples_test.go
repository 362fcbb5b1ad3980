package crd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/test/apitest"
)

func convert(from, into any) error {
	content, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// TestSamples applies every sample. There is one of each kind, and the API server has nothing to remark.
func TestSamples(t *testing.T) {
	t.Parallel()
	server := installed(t)
	namespace := server.Namespace(t)
	heard, config := &apitest.Warnings{}, server.Config()
	config.WarningHandler = heard
	admin := apitest.NewClient(t, config)

	files, err := filepath.Glob(apitest.Path(t, "config", "samples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	missing := definitions(t)
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(content), "# ") {
			t.Errorf("%s does not begin by saying what it is", filepath.Base(file))
		}
		for _, object := range apitest.Objects(t, content) {
			delete(missing, object.GetKind())
			object.SetNamespace(namespace)
			if err := admin.Create(t.Context(), object, strict); err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
		}
	}
	for kind := range missing {
		t.Errorf("there is no sample of a %s", kind)
	}
	if warnings := heard.All(); len(warnings) > 0 {
		t.Errorf("the API server warns: %q", warnings)
	}
	if got := len(server.Kustomize(t, apitest.Path(t, "config", "samples"))); got == 0 {
		t.Error("the kustomization of the samples is empty")
	}
}

// TestInstallation: config/default gives no warning, which includes those about what a restricted namespace refuses
// in a Deployment's pods. Of the overlay for the development cluster only the labels are looked at here.
func TestInstallation(t *testing.T) {
	t.Parallel()
	server := installed(t)
	if warnings := server.InstallWarnings(); len(warnings) > 0 {
		t.Errorf("the API server warns: %q", warnings)
	}
	for _, object := range server.Kustomize(t, apitest.Path(t, "config", "devcluster")) {
		labels := object.GetLabels()
		if labels["app.kubernetes.io/name"] != "ekiden" || labels["app.kubernetes.io/part-of"] != "ekiden" {
			t.Errorf("%s %s has no label that says where it belongs: %v", object.GetKind(), object.GetName(), labels)
		}
	}
}

// TestTheManagersPod is admitted where it belongs: a Deployment whose pods are refused is itself accepted.
func TestTheManagersPod(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin := server.Client(t)
	deployment := &appsv1.Deployment{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "ekiden-system", Name: "ekiden-manager"}, deployment); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ekiden-system", Name: "probe", Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}
	wantAccepted(t, admin.Create(t.Context(), pod, client.DryRunAll))

	root := int64(0)
	pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ekiden-system", Name: "probe"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "ekiden-manager", SecurityContext: &corev1.PodSecurityContext{RunAsUser: &root},
			Containers: []corev1.Container{{Name: "root", Image: "root"}},
		},
	}
	wantRefused(t, admin.Create(t.Context(), pod, client.DryRunAll), "restricted")
}
