package integration

import (
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
)

// TestTheManagerIsTwoAndShowsItself asks both replicas for their health and finds the metrics of the one that works.
func TestTheManagerIsTwoAndShowsItself(t *testing.T) {
	t.Parallel()
	s := tell(t, answer("x")).setUp()
	s.start("measured")
	s.want(s.finished("measured"), v1alpha1.RunSucceeded, v1alpha1.ReasonCompleted)
	var pods corev1.PodList
	if err := api.List(t.Context(), &pods, client.InNamespace(cluster.ManagerNamespace)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 2 {
		t.Fatalf("%d pods of the manager", len(pods.Items))
	}
	counted := 0
	for _, p := range pods.Items {
		for _, path := range []string{":8081/healthz", ":8081/readyz"} {
			if body, code := fetch(t, "http://"+p.Status.PodIP+path); code != http.StatusOK {
				t.Errorf("%s of %s: %d %s", path, p.Name, code, body)
			}
		}
		body, _ := fetch(t, "http://"+p.Status.PodIP+":8080/metrics")
		if strings.Contains(body, `ekiden_runs_ended_total{phase="Succeeded"`) && strings.Contains(body, `ekiden_segment_attempts_ended_total{class="yielded"}`) {
			counted++
		}
	}
	if counted != 1 {
		t.Errorf("%d replicas count runs, want the leader only", counted)
	}
}

func fetch(t *testing.T, url string) (string, int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), response.StatusCode
}
