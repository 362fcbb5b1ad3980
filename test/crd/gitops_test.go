package crd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/test/apitest"
)

// inGit are the kinds that people keep in Git.
var inGit = map[string]bool{"AgentDefinition": true, "AgentPolicy": true, "AgentRun": true, "ModelEndpoint": true, "ToolServer": true}

// declared are the objects of those kinds that people copy: examples, samples, and one of each kind with every field.
func declared(t *testing.T, server *apitest.Server) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	missing := map[string]bool{}
	for kind := range inGit {
		missing[kind] = true
		for nth := range examples[kind] {
			object := example(t, kind, nth, "")
			delete(object.Object, "status")
			if kind == "AgentRun" {
				unstructured.RemoveNestedField(object.Object, "spec", "principal") // it is not the tool's to write
			}
			out = append(out, object)
		}
	}
	for _, folder := range [][]string{{"examples"}, {"config", "samples"}} {
		for _, object := range server.Kustomize(t, apitest.Path(t, folder...)) {
			if inGit[object.GetKind()] {
				out = append(out, object)
				delete(missing, object.GetKind())
			}
		}
	}
	for kind := range missing {
		t.Errorf("neither examples nor samples have a %s", kind)
	}
	return out
}

// TestAppliedAgain: what a GitOps tool applies stays as it is written, whoever else writes the same object: the API server that fills
// in defaults and the principal, the manager with its status, a second tool. No field is fought for, and applying it again writes
// nothing, so that a tool that looks every few minutes sees nothing to do.
func TestAppliedAgain(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin := server.Client(t)
	const tool = "system:serviceaccount:argocd:argocd-application-controller"
	account := server.As(t, tool, "system:serviceaccounts")

	for _, manifest := range declared(t, server) {
		namespace := server.Namespace(t)
		for _, role := range []string{"ekiden-author", "ekiden-caller", "ekiden-platform"} {
			grant(t, admin, namespace, role, tool)
		}
		manifest.SetNamespace(namespace)
		what := manifest.GetKind() + " " + manifest.GetName()
		apply := func(owner string) *unstructured.Unstructured {
			t.Helper()
			apitest.Eventually(t, func() error {
				err := account.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(manifest.DeepCopy()), client.FieldOwner(owner))
				if err != nil && !apierrors.IsForbidden(err) { // the API server hears of a new binding a moment later
					t.Fatalf("%s: applied by %s: %v", what, owner, clip(err))
				}
				return err
			})
			live := manifest.DeepCopy()
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(manifest), live); err != nil {
				t.Fatal(err)
			}
			return live
		}

		first := apply("argocd-controller")
		if path := differs(manifest.Object["spec"], first.Object["spec"], "spec"); path != "" {
			t.Errorf("%s: %s is not as it was written, and a tool would see a drift", what, path)
		}
		report(t, admin, first)
		before := apply("argocd-controller")
		apply("kustomize-controller")
		settled := apply("kustomize-controller")
		last := apply("argocd-controller")
		if diff := cmp.Diff(first.Object["spec"], last.Object["spec"]); diff != "" {
			t.Errorf("%s: its spec has changed (-first +last):\n%s", what, diff)
		}
		if got, want := last.GetResourceVersion(), settled.GetResourceVersion(); got != want {
			t.Errorf("%s: applied again, it was written again", what)
		}
		if got, want := apply("argocd-controller").GetResourceVersion(), last.GetResourceVersion(); got != want {
			t.Errorf("%s: applied again, it was written again", what)
		}
		if first.GetGeneration() != 1 || before.GetGeneration() != 1 || last.GetGeneration() != 1 {
			t.Errorf("%s: its generation has become %d", what, last.GetGeneration())
		}
		if user, _, _ := unstructured.NestedString(last.Object, "spec", "principal", "user"); manifest.GetKind() == "AgentRun" && user != tool {
			t.Errorf("%s: it acts for %q, want the tool's account", what, user)
		}
	}
}

// report writes a status as the manager does, if the kind has one.
func report(t *testing.T, admin client.Client, object *unstructured.Unstructured) {
	t.Helper()
	if object.GetKind() == "ModelEndpoint" {
		return
	}
	patch := fmt.Sprintf(`{"status":{"observedGeneration":%d}}`, object.GetGeneration())
	if err := admin.Status().Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("manager")); err != nil {
		t.Fatalf("%s %s: writing its status: %v", object.GetKind(), object.GetName(), err)
	}
}

// differs is the path of a value that was written and is not what is there, or nothing. What is there besides does not count.
func differs(written, there any, path string) string {
	switch written := written.(type) {
	case map[string]any:
		fields, ok := there.(map[string]any)
		if !ok {
			return path
		}
		for key, value := range written {
			if at := differs(value, fields[key], path+"."+key); at != "" {
				return at
			}
		}
	case []any:
		items, ok := there.([]any)
		if !ok || len(items) != len(written) {
			return path
		}
		for i, value := range written {
			if at := differs(value, items[i], fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at
			}
		}
	default:
		if fmt.Sprint(written) != fmt.Sprint(there) { // numbers come as float64 from YAML and as int64 from the API server
			return path
		}
	}
	return ""
}

// TestAnEditOfARunIsRefused: a run in Git is changed by writing another one. The tool is told so.
func TestAnEditOfARunIsRefused(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	grant(t, admin, namespace, "ekiden-caller", "argocd")
	account := server.As(t, "argocd")
	manifest := example(t, "AgentRun", 1, namespace)
	apply := func() error {
		return account.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(manifest.DeepCopy()), client.FieldOwner("argocd-controller"))
	}
	apitest.Eventually(t, apply)
	set("spec.input", map[string]any{"text": "Another task."})(t, manifest.Object)
	wantRefused(t, apply(), "spec.input is immutable: create another run")
}

// TestHealthChecksJoinArgoCD: the ConfigMap with the health checks adds to the one that Argo CD has, as the guide applies it.
func TestHealthChecksJoinArgoCD(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	content, err := os.ReadFile(apitest.Path(t, "examples", "gitops", "argocd", "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	ours := apitest.Objects(t, content)[0]
	ours.SetNamespace(namespace)
	theirs := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "argocd-cm", Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/name": "argocd-cm", "app.kubernetes.io/part-of": "argocd"}},
		Data:       map[string]string{"url": "https://argocd.example"},
	}
	if err := admin.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	wantAccepted(t, admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(ours), client.FieldOwner("ekiden-health")))
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil {
		t.Fatal(err)
	}
	if theirs.Data["url"] == "" || len(theirs.Data) < 2 {
		t.Errorf("it holds %d entries, and Argo CD's own is %q", len(theirs.Data), theirs.Data["url"])
	}
}

// TestRecordedStates: the objects with which the health checks of GitOps tools are tested are such as the API server takes.
func TestRecordedStates(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin := server.Client(t)
	files, err := filepath.Glob(apitest.Path(t, "test", "gitops", "testdata", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "---\n") {
			state, _, _ := strings.Cut(document, "\n")
			object := apitest.Objects(t, []byte(document))[0]
			object.SetNamespace(server.Namespace(t))
			if err := keep(t, admin, object); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(file), state, clip(err))
			}
		}
	}
}

// keep stores an object with its decision and its status, each as it comes.
func keep(t *testing.T, admin client.Client, object *unstructured.Unstructured) error {
	t.Helper()
	decision, decided, _ := unstructured.NestedMap(object.Object, "spec", "decision")
	status, reported := object.Object["status"]
	unstructured.RemoveNestedField(object.Object, "spec", "decision")
	unstructured.RemoveNestedField(object.Object, "status")
	if err := admin.Create(t.Context(), object, strict); err != nil {
		return err
	}
	if decided {
		if err := unstructured.SetNestedMap(object.Object, decision, "spec", "decision"); err != nil {
			return err
		}
		if err := admin.Update(t.Context(), object, strict); err != nil {
			return err
		}
	}
	if !reported {
		return nil
	}
	object.Object["status"] = status
	return admin.Status().Update(t.Context(), object, strict)
}
