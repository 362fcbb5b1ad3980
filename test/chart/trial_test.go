package chart

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestThePasswordOfATrial is kept by a look into the cluster, and cannot become another one.
func TestThePasswordOfATrial(t *testing.T) {
	t.Parallel()
	const kept, other = "abcdefghijklmnop", "ponmlkjihgfedcba"
	trial := t.TempDir() // without what the cluster below does not know
	if err := os.CopyFS(trial, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	for _, others := range []string{"admission", "crds", "hooks", "manager", "rbac"} {
		if err := os.RemoveAll(filepath.Join(trial, "templates", others)); err != nil {
			t.Fatal(err)
		}
	}
	const refused = "postgres.trial.password is another one than the data was made with"
	for name, c := range map[string]struct {
		kept, given string
		want        string
	}{
		"one that is not given is that of before": {kept, "", kept},
		"the same may be given":                   {kept, kept, kept},
		"of the first installation it is given":   {"", other, other},
		"another one is refused":                  {kept, other, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := helm(t, "template", release, trial, "--namespace", namespace, "--kubeconfig", cluster(t, c.kept),
				"--dry-run=server", "--disable-openapi-validation", "--set", "postgres.trial.enabled=true,postgres.trial.password="+c.given)
			if c.want == refused {
				if err == nil || !strings.Contains(err.Error(), refused) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if secret := read(t, []byte(text))["Secret/ekiden-trial-postgres"]; secret.Object["stringData"].(map[string]any)["password"] != c.want {
				t.Errorf("got %v, want %s", secret.Object["stringData"], c.want)
			}
		})
	}
}

// cluster serves what Helm asks for: the Secret of the trial, if there is a password, and nothing else. It is a kubeconfig.
func cluster(t *testing.T, password string) string {
	t.Helper()
	answers := map[string]string{
		"/version": `{"major": "1", "minor": "36", "gitVersion": "v` + oldest + `"}`,
		"/api":     `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":    `{"kind": "APIGroupList", "groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]}]}`,
		"/api/v1": `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [
			{"name": "secrets", "kind": "Secret", "namespaced": true}, {"name": "configmaps", "kind": "ConfigMap", "namespaced": true},
			{"name": "services", "kind": "Service", "namespaced": true}]}`,
		"/apis/apps/v1": `{"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [{"name": "statefulsets", "kind": "StatefulSet", "namespaced": true}]}`,
	}
	if password != "" {
		answers["/api/v1/namespaces/"+namespace+"/secrets/ekiden-trial-postgres"] = fmt.Sprintf(`{"kind": "Secret", "apiVersion": "v1", "metadata": {
			"name": "ekiden-trial-postgres", "namespace": %[1]q, "labels": {"app.kubernetes.io/managed-by": "Helm"},
			"annotations": {"meta.helm.sh/release-name": %[2]q, "meta.helm.sh/release-namespace": %[1]q}}, "data": {"password": %[3]q}}`,
			namespace, release, base64.StdEncoding.EncodeToString([]byte(password)))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
		}
		if _, err := w.Write([]byte(answer)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}],
		contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u}]}`, server.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}
