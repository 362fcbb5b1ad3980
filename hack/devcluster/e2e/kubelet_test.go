package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
	"github.com/ekiden-dev/ekiden/hack/devcluster/kubeletnode"
)

// archives is the folder of images: `make images` writes them.
func archives(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(filepath.Dir(binary(t)), "images")
	if _, err := os.Stat(filepath.Join(folder, "pause.tar")); err != nil {
		t.Skip("SKIPPED: no images beside the binary: make images")
	}
	return folder
}

// kubeletCluster belongs to the test alone.
func kubeletCluster(t *testing.T) *running {
	t.Helper()
	images := archives(t)
	if err := kubeletnode.Check(); err != nil {
		t.Skip("SKIPPED:", err)
	}
	r := &running{t: t, dir: cluster.Dir(t.TempDir())}
	before := outside(t)
	t.Cleanup(func() {
		r.do("down")
		r.noProcess()
		r.nothingLeft(before)
	})
	r.do("up", "--node", "kubelet", "--image", "localhost/pause:dev="+filepath.Join(images, "pause.tar"), "--image", "ekiden/segment:dev="+filepath.Join(images, "segment.tar"))
	return r.connect()
}

// outside is what is on the machine that a node must not change: rules and names of network namespaces.
func outside(t *testing.T) string {
	t.Helper()
	rules, err := exec.CommandContext(context.WithoutCancel(t.Context()), "nft", "list", "tables").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(rules) + strings.Join(glob("/run/netns/*"), "\n")
}

// nothingLeft looks for what a node could leave on the machine.
func (r *running) nothingLeft(before string) {
	r.t.Helper()
	if after := outside(r.t); after != before {
		r.t.Errorf("before it was %q, after %q", before, after)
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil || bytes.Contains(mounts, []byte(r.dir)) {
		r.t.Errorf("a mount is left, %v: %s", err, mounts)
	}
	group := kubeletnode.Config{Dir: r.dir}.Cgroup()
	if left := append(glob("/sys/fs/cgroup/*"+group), glob("/sys/fs/cgroup"+group)...); len(left) > 0 {
		r.t.Errorf("control groups are left: %v", left)
	}
	cable := strings.Replace(group, "/devcluster-", "devc-", 1)
	if _, err := os.Stat("/sys/class/net/" + cable); !os.IsNotExist(err) {
		r.t.Errorf("the cable %s is left: %v", cable, err)
	}
}

func glob(pattern string) []string {
	found, _ := filepath.Glob(pattern)
	return found
}

func TestAKubeletRunsImages(t *testing.T) {
	r := kubeletCluster(t)
	namespace := r.namespace()
	d := r.description()
	r.pod(namespace, "usage", `{restartPolicy: Never, containers: [{name: main, image: "ekiden/segment:dev", args: [--help]}]}`)
	r.pod(namespace, "wrong", `{restartPolicy: Never, containers: [{name: main, image: "ekiden/segment:dev", args: [--no-such-flag], terminationMessagePolicy: FallbackToLogsOnError,
		securityContext: {runAsNonRoot: true, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}}]}`)
	// Postgres is asked by a pod: with a login that has no password it says so, and not that it trusts the pod.
	r.pod(namespace, "postgres", fmt.Sprintf(`{restartPolicy: Never, containers: [{name: main, image: "ekiden/segment:dev", terminationMessagePolicy: FallbackToLogsOnError,
		args: ["--run=5a7d7a6e-6ef0-4f4e-9a38-6f2b1a3c0b11", "--dsn=postgres://postgres@%s:%d/postgres?sslmode=disable"]}]}`, d.HostAddress, d.Postgres.Port))
	r.phase(namespace, "usage", corev1.PodSucceeded)
	if got := r.logs(namespace, "usage"); !strings.Contains(got, "Usage: segment") {
		t.Errorf("the log is %q", got)
	}
	if ended := r.phase(namespace, "wrong", corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated; ended.ExitCode != 2 || !strings.Contains(ended.Message, "no-such-flag") {
		t.Errorf("a wrong flag ended with %+v", ended)
	}
	if ended := r.phase(namespace, "postgres", corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated; !strings.Contains(ended.Message, "password") {
		t.Errorf("a pod that is the superuser without a password ended with %+v", ended)
	}
	if err := r.database("postgres"); err != nil {
		t.Errorf("the superuser on loopback: %v", err)
	}
	pod := r.phase(namespace, "usage", corev1.PodSucceeded)
	if !strings.HasPrefix(pod.Status.PodIP, "10.244.") || pod.Spec.NodeName != d.Node.Name {
		t.Errorf("the pod was on %s at %s", pod.Spec.NodeName, pod.Status.PodIP)
	}
}

func TestAKubeletsNodeMayDoWhatANodeMay(t *testing.T) {
	r := kubeletCluster(t)
	kubectl := func(arguments ...string) (string, error) {
		command := exec.CommandContext(t.Context(), os.Getenv("DEVCLUSTER"), append([]string{"kubectl", "--kubeconfig", r.dir.Kubeconfig("node")}, arguments...)...)
		output, err := command.CombinedOutput()
		return string(output), err
	}
	if output, err := kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}"); err != nil || !strings.HasPrefix(output, "system:node:kubelet-node [\"system:nodes\"") {
		t.Errorf("the node is %s, %v", output, err)
	}
	if output, err := kubectl("get", "secrets", "-A"); err == nil || !strings.Contains(output, "orbidden") {
		t.Errorf("the node reads all Secrets: %s, %v", output, err)
	}
}

func TestANodeIsKilledAndComesBack(t *testing.T) {
	r := kubeletCluster(t)
	namespace := r.namespace()
	r.pod(namespace, "once", `{restartPolicy: Never, containers: [{name: main, image: "localhost/pause:dev"}]}`)
	r.pod(namespace, "always", `{containers: [{name: main, image: "localhost/pause:dev"}]}`)
	r.phase(namespace, "once", corev1.PodRunning)
	r.phase(namespace, "always", corev1.PodRunning)

	r.do("node", "kill")
	r.eventually("no container is left", func() error {
		if left := inside(r.description().Node.Cgroup); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	began := time.Now()
	r.eventually("the node is missed", func() error { return r.nodeIs(corev1.ConditionUnknown) })
	t.Logf("missed after %s", time.Since(began).Round(time.Second))

	began = time.Now()
	r.do("node", "start")
	r.eventually("the node is ready", func() error { return r.nodeIs(corev1.ConditionTrue) })
	t.Logf("ready after %s", time.Since(began).Round(time.Second))
	r.phase(namespace, "once", corev1.PodFailed)
	r.eventually("the other pod runs again", func() error {
		pod, err := r.client.CoreV1().Pods(namespace).Get(t.Context(), "always", metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) != 1 {
			return fmt.Errorf("%v", err)
		}
		if s := pod.Status.ContainerStatuses[0]; s.RestartCount != 1 || s.State.Running == nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

func (r *running) nodeIs(want corev1.ConditionStatus) error {
	node, err := r.client.CoreV1().Nodes().Get(context.Background(), kubeletnode.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == want {
			return nil
		}
	}
	return fmt.Errorf("%+v", node.Status.Conditions)
}

// inside are the processes of a control group and those below.
func inside(group string) []string {
	var found []string
	for _, path := range glob("/proc/[0-9]*/cgroup") {
		if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte(group+"/")) {
			found = append(found, path)
		}
	}
	return found
}

// TestNothingOfANodeOutlivesTheSupervisor kills it: containers, mounts and networks go with it, and `down` clears what has no owner.
func TestNothingOfANodeOutlivesTheSupervisor(t *testing.T) {
	r := kubeletCluster(t)
	namespace := r.namespace()
	r.pod(namespace, "here", `{containers: [{name: main, image: "localhost/pause:dev"}]}`)
	r.phase(namespace, "here", corev1.PodRunning)
	group := r.description().Node.Cgroup
	if len(inside(group)) == 0 {
		t.Fatal("the test does not see the containers")
	}
	if err := syscall.Kill(r.description().PIDs["supervisor"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.eventually("no process is left", func() error {
		if left := append(processes(string(r.dir)), inside(group)...); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	t.Logf("no process left after %s", time.Since(began).Round(time.Millisecond))
}
