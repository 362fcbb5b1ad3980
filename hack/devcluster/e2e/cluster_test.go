package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/lib/pq"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// kill ends a process of the cluster with SIGKILL.
func (r *running) kill(name string) int {
	r.t.Helper()
	pid := r.description().PIDs[name]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		r.t.Fatalf("killing %s: %v", name, err)
	}
	return pid
}

// back waits until the process has been replaced and answers.
func (r *running) back(name string, killed int, answers func() error) {
	r.t.Helper()
	began := time.Now()
	r.eventually(name+" is back", func() error {
		if now := r.description().PIDs[name]; now == killed || now == 0 {
			return fmt.Errorf("process %d", now)
		}
		return answers()
	})
	r.t.Logf("%s back after %s", name, time.Since(began).Round(time.Millisecond))
}

func (r *running) database(user string) error {
	dsn := strings.Replace(r.description().Postgres.SuperuserDSN, "postgres@", user+"@", 1)
	database, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer func() { _ = database.Close() }()
	_, err = database.ExecContext(r.t.Context(), "select 1")
	return err
}

func (r *running) noProcess() {
	r.t.Helper()
	r.eventually("no process is left", func() error {
		if left := processes(string(r.dir)); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}

func TestServersThatAreKilledComeBack(t *testing.T) {
	r := ownCluster(t)
	namespace := r.namespace()
	r.pod(namespace, "meanwhile", `{restartPolicy: Never, containers: [{name: main, image: sh, args: [-c, "sleep 1; exit 4"]}]}`)
	r.phase(namespace, "meanwhile", corev1.PodRunning)
	killed := r.kill("kube-apiserver")
	r.back("kube-apiserver", killed, func() error {
		_, err := r.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err
	})
	if ended := r.phase(namespace, "meanwhile", corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated; ended.ExitCode != 4 {
		t.Errorf("a pod that ended while there was no API server: %+v", ended)
	}
	killed = r.kill("postgres")
	r.back("postgres", killed, func() error { return r.database("postgres") })
	killed = r.kill("etcd")
	r.back("etcd", killed, func() error {
		_, err := r.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err
	})
	r.pod(namespace, "after", `{restartPolicy: Never, containers: [{name: main, image: sh, args: [-c, "exit 0"]}]}`)
	r.phase(namespace, "after", corev1.PodSucceeded)
}

func TestOnlyTheSuperuserNeedsNoPassword(t *testing.T) {
	r := sharedCluster(t)
	database, err := sql.Open("postgres", r.description().Postgres.SuperuserDSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close() }()
	if _, err := database.ExecContext(t.Context(), "create role app login password 'right'"); err != nil {
		t.Fatal(err)
	}
	if err := r.database("app:right"); err != nil {
		t.Errorf("with the password: %v", err)
	}
	if err := r.database("app:wrong"); err == nil {
		t.Error("a wrong password is accepted")
	}
	var fsync string
	if err := database.QueryRowContext(t.Context(), "show fsync").Scan(&fsync); err != nil || fsync != "on" {
		t.Errorf("fsync is %q, %v", fsync, err)
	}
}

func TestNothingRunsForeverAfterTheNodeWasKilled(t *testing.T) {
	r := ownCluster(t)
	namespace := r.namespace()
	r.pod(namespace, "once", `{restartPolicy: Never, containers: [{name: main, image: sh, args: [-c, "sleep 1000 & wait"]}]}`)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "always"}}
	err := yaml.UnmarshalStrict([]byte(`
replicas: 2
selector: {matchLabels: {app: always}}
template:
  metadata: {labels: {app: always}}
  spec: {containers: [{name: main, image: sh, args: [-c, "exec sleep 1000"]}]}
`), &deployment.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.AppsV1().Deployments(namespace).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.phase(namespace, "once", corev1.PodRunning)
	available := func(restarts int32) {
		t.Helper()
		r.eventually("both replicas run", func() error {
			pods, err := r.client.CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "app=always"})
			if err != nil {
				return err
			}
			addresses := map[string]bool{}
			for _, pod := range pods.Items {
				if len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready && pod.Status.ContainerStatuses[0].RestartCount == restarts {
					addresses[pod.Status.PodIP] = true
				}
			}
			if len(addresses) != 2 {
				return fmt.Errorf("%d with an address of their own", len(addresses))
			}
			return nil
		})
	}
	available(0)

	r.back("node", r.kill("node"), func() error { return nil })
	pod := r.phase(namespace, "once", corev1.PodFailed)
	if ended := pod.Status.ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 137 || ended.Reason != "NodeRestarted" {
		t.Errorf("the pod that ran ended as %+v", ended)
	}
	available(1)
	if left := processes(r.dir.Path("pods", string(pod.UID))); len(left) > 0 {
		t.Errorf("processes of the failed pod are left: %v", left)
	}
}

func TestTwoClustersLiveSideBySideAndEndAlone(t *testing.T) {
	r, other := ownCluster(t), sharedCluster(t)
	if r.description().Server == other.description().Server || r.description().Postgres.Port == other.description().Postgres.Port {
		t.Fatal("the clusters share a port")
	}
	namespace := r.namespace()
	r.pod(namespace, "here", `{restartPolicy: Never, containers: [{name: main, image: sh, args: [-c, "sleep 1000 & wait"]}]}`)
	r.phase(namespace, "here", corev1.PodRunning)

	began := time.Now()
	r.do("down")
	t.Logf("down after %s", time.Since(began).Round(time.Millisecond))
	r.noProcess()
	r.do("down")
	if err := other.database("postgres"); err != nil {
		t.Errorf("the other cluster: %v", err)
	}

	// The directory is the cluster: started again, it knows what it had.
	r.up()
	pod := r.phase(namespace, "here", corev1.PodFailed)
	if pod.Status.Reason != "NodeRestarted" {
		t.Errorf("the pod that ran when the cluster was stopped ended with %q", pod.Status.Reason)
	}
}

func TestNoProcessOutlivesTheSupervisor(t *testing.T) {
	r := ownCluster(t)
	namespace := r.namespace()
	r.pod(namespace, "here", `{restartPolicy: Never, containers: [{name: main, image: sh, args: [-c, "trap '' TERM; sleep 1000 & sleep 1001 & wait"]}]}`)
	r.phase(namespace, "here", corev1.PodRunning)
	r.kill("supervisor")
	began := time.Now()
	r.noProcess()
	t.Logf("no process left after %s", time.Since(began).Round(time.Millisecond))
}
