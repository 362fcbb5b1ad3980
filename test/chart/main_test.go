// Package chart tests the Helm chart against config/, without a cluster: what it renders, what it refuses, and that nothing of it
// is out of step. What only a cluster can show is not tested here: what is left after `helm uninstall`.
package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ekiden-dev/ekiden/test/apitest"
)

const (
	repo  = "../.."
	chart = repo + "/charts/ekiden"
	// release and namespace are those of the README.
	release, namespace = "ekiden", "ekiden-system"
	// oldest is the oldest version of Kubernetes that is supported.
	oldest = "1.36.0"
)

// tools are the paths of helm and kustomize, each built of the version that its module pins.
var tools = map[string]string{"helm": "", "kustomize": ""}

func TestMain(m *testing.M) {
	for name, module := range map[string]string{"helm": "hack/helm/go.mod", "kustomize": "hack/tools/go.mod"} {
		// With -n the tool is built and its path printed.
		build := exec.Command("go", "tool", "-n", "-modfile="+module, name)
		build.Dir, build.Stderr = repo, os.Stderr
		path, err := build.Output()
		if err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n", name, err)
			os.Exit(1)
		}
		tools[name] = strings.TrimSpace(string(path))
	}
	os.Exit(m.Run())
}

// helm runs helm, which finds no configuration and no cluster, and returns what it prints, or its complaint.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), tools["helm"], args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, complaint.String())
	}
	return out.String(), nil
}

// images are the values without which the chart renders nothing: the names that config/ has.
const images = `
manager: {image: {repository: ekiden/manager}}
segment: {image: {repository: ekiden/segment}}
`

// written is a file of values, given as YAML.
func written(t *testing.T, values string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// template renders the chart with the images and with values, given as YAML.
func template(t *testing.T, values string, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{
		"template", release, chart, "--namespace", namespace, "--kube-version", oldest, "--values", written(t, images), "--values", written(t, values),
	}, args...)...)
}

// rendered are the objects that the chart renders, by kind and name.
func rendered(t *testing.T, values string) objects {
	t.Helper()
	text, err := template(t, values)
	if err != nil {
		t.Fatalf("rendering the chart: %v", err)
	}
	return read(t, []byte(text))
}

// kustomized are the objects of a folder of config/, by kind and name.
func kustomized(t *testing.T, folder string) objects {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tools["kustomize"], "build", repo+"/config/"+folder)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("kustomize build config/%s: %v", folder, err)
	}
	return read(t, text)
}

// objects are manifests by kind and name.
type objects map[string]*unstructured.Unstructured

func read(t *testing.T, text []byte) objects {
	t.Helper()
	found := objects{}
	for _, o := range apitest.Objects(t, text) {
		name := o.GetKind() + "/" + o.GetName()
		if found[name] != nil {
			t.Fatalf("%s is there twice", name)
		}
		found[name] = o
	}
	return found
}
