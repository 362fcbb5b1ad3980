// Package e2e starts real clusters. It runs where DEVCLUSTER names the built
// binary, and is skipped elsewhere:
//
//	./build.sh /tmp/devcluster && DEVCLUSTER=/tmp/devcluster go test ./e2e/
package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

// patience is for machines that do much else at the same time.
const patience = 60 * time.Second

// running is a cluster of a test.
type running struct {
	t      *testing.T
	dir    cluster.Dir
	client kubernetes.Interface
}

// shared is the cluster of all tests that leave it as it was.
var shared struct {
	once sync.Once
	dir  cluster.Dir
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.dir != "" {
		if output, err := exec.Command(os.Getenv("DEVCLUSTER"), "down", "--dir", string(shared.dir)).CombinedOutput(); err != nil {
			fmt.Printf("stopping the shared cluster: %v\n%s", err, output)
			code = 1
		}
		if left := processes(string(shared.dir)); len(left) > 0 {
			fmt.Println("processes left by the shared cluster:", left)
			code = 1
		}
		_ = os.RemoveAll(string(shared.dir))
	}
	os.Exit(code)
}

func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("DEVCLUSTER")
	if path == "" {
		t.Skip("DEVCLUSTER does not name the built binary")
	}
	return path
}

// sharedCluster is started by the first test that needs it.
func sharedCluster(t *testing.T) *running {
	t.Helper()
	devcluster := binary(t)
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "devcluster-e2e-")
		if err != nil {
			t.Fatal(err)
		}
		kubectl := filepath.Join(dir, "kubectl")
		if err := os.Symlink(devcluster, kubectl); err != nil {
			t.Fatal(err)
		}
		shared.dir = cluster.Dir(dir)
		(&running{t: t, dir: shared.dir}).do("up", "--image", "kubectl:1="+kubectl, "--image", "sh=/bin/sh")
	})
	return (&running{t: t, dir: shared.dir}).connect()
}

// ownCluster belongs to the test alone and is stopped at its end.
func ownCluster(t *testing.T) *running {
	t.Helper()
	binary(t)
	r := &running{t: t, dir: cluster.Dir(t.TempDir())}
	t.Cleanup(func() { r.do("down") })
	r.up()
	return r
}

func (r *running) up() { r.do("up", "--image", "sh=/bin/sh"); r.connect() }

// do runs a verb of the binary on the cluster's directory.
func (r *running) do(verb string, flags ...string) string {
	r.t.Helper()
	command := exec.Command(os.Getenv("DEVCLUSTER"), slices.Concat([]string{verb}, flags, []string{"--dir", string(r.dir)})...)
	output, err := command.CombinedOutput()
	r.t.Logf("%s: %s", verb, bytes.ReplaceAll(bytes.TrimSpace(output), []byte("\n"), []byte(", ")))
	if err != nil {
		r.t.Fatalf("%s: %v", verb, err)
	}
	return string(output)
}

func (r *running) connect() *running {
	r.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", r.description().Kubeconfig)
	if err != nil {
		r.t.Fatal(err)
	}
	config.QPS = -1
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		r.t.Fatal(err)
	}
	return r
}

func (r *running) description() cluster.Description {
	r.t.Helper()
	description, err := r.dir.Read()
	if err != nil {
		r.t.Fatal(err)
	}
	return description
}

// namespace is new, and has its default ServiceAccount.
func (r *running) namespace() string {
	r.t.Helper()
	created, err := r.client.CoreV1().Namespaces().Create(r.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = r.client.CoreV1().Namespaces().Delete(context.Background(), created.Name, metav1.DeleteOptions{})
	})
	r.eventually("the namespace has its ServiceAccount", func() error {
		_, err := r.client.CoreV1().ServiceAccounts(created.Name).Get(r.t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return created.Name
}

// pod creates one from its spec in YAML.
func (r *running) pod(namespace, name, spec string) {
	r.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.client.CoreV1().Pods(namespace).Create(r.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// phase waits until the pod is in the phase.
func (r *running) phase(namespace, name string, want corev1.PodPhase) *corev1.Pod {
	r.t.Helper()
	var pod *corev1.Pod
	r.eventually(fmt.Sprintf("pod %s is %s", name, want), func() (err error) {
		if pod, err = r.client.CoreV1().Pods(namespace).Get(r.t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pod.Status.Phase != want {
			return fmt.Errorf("it is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return nil
	})
	return pod
}

// logs are what `kubectl logs` shows.
func (r *running) logs(namespace, name string) string {
	r.t.Helper()
	content, err := r.client.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return string(content)
}

func (r *running) eventually(what string, holds func() error) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("not so: %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// processes lists those whose command line or HOME names the directory.
func processes(dir string) []string {
	found := []string{}
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		if pid, _ := strconv.Atoi(filepath.Base(folder)); pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile(folder + "/cmdline")
		environment, _ := os.ReadFile(folder + "/environ")
		if bytes.Contains(line, []byte(dir)) || bytes.Contains(environment, []byte("HOME="+dir)) {
			found = append(found, filepath.Base(folder)+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
