package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func (r *running) secret(namespace, name, key, value string) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{key: value}}
	if _, err := r.client.CoreV1().Secrets(namespace).Create(r.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func TestAJobReadsItsVolumesAndLeavesAMessage(t *testing.T) {
	r := sharedCluster(t)
	namespace := r.namespace()
	r.secret(namespace, "database", "password", "hunter2")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"app.yaml": "a: 1"}}
	if _, err := r.client.CoreV1().ConfigMaps(namespace).Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	err := yaml.UnmarshalStrict([]byte(`
backoffLimit: 0
template:
  spec:
    restartPolicy: Never
    volumes:
    - {name: database, secret: {secretName: database, items: [{key: password, path: pw}]}}
    - {name: config, configMap: {name: config}}
    - {name: none, secret: {secretName: none, optional: true}}
    initContainers:
    - {name: first, image: sh, args: [-c, "echo -n first > /shared/order"], volumeMounts: [{name: shared, mountPath: /shared}]}
    - {name: second, image: sh, args: [-c, "echo -n ,second >> /shared/order"], volumeMounts: [{name: shared, mountPath: /shared}]}
    containers:
    - name: main
      image: sh
      command: [/bin/sh, -c, "cat /etc/db/pw $CONFIG /shared/order > $MESSAGE; ls /none; ls /tmp >/dev/null && echo -n $(ADDRESS)"]
      env:
      - {name: CONFIG, value: /etc/config/app.yaml}
      - {name: MESSAGE, value: /dev/termination-log}
      - {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
      volumeMounts:
      - {name: database, mountPath: /etc/db}
      - {name: config, mountPath: /etc/config}
      - {name: none, mountPath: /none}
      - {name: shared, mountPath: /shared}
`), &job.Spec)
	if err != nil {
		t.Fatal(err)
	}
	job.Spec.Template.Spec.Volumes = append(job.Spec.Template.Spec.Volumes, corev1.Volume{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	if _, err := r.client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the Job is complete", func() error {
		job, err := r.client.BatchV1().Jobs(namespace).Get(t.Context(), "reader", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 1 {
			err = fmt.Errorf("%+v", job.Status)
		}
		return err
	})
	pods, err := r.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("pods of the Job: %v %v", pods, err)
	}
	pod := pods.Items[0]
	ended := pod.Status.ContainerStatuses[0].State.Terminated
	if want := "hunter2a: 1first,second"; ended == nil || ended.Message != want {
		t.Errorf("the message is %+v, want %q", ended, want)
	}
	if got := r.logs(namespace, pod.Name); got != pod.Status.PodIP || !strings.HasPrefix(got, "127.") {
		t.Errorf("the log is %q, want the pod's address %q", got, pod.Status.PodIP)
	}
	if left, _ := filepath.Glob(r.dir.Path("pods", string(pod.UID), "volumes", "*")); len(left) > 0 {
		t.Errorf("secrets of an ended pod are left: %v", left)
	}
}

func TestExitCodesAndSignalsAreReported(t *testing.T) {
	r := sharedCluster(t)
	namespace := r.namespace()
	tests := map[string]struct {
		script string
		code   int32
		phase  corev1.PodPhase
	}{
		"zero":   {"exit 0", 0, corev1.PodSucceeded},
		"three":  {"echo why >&2; exit 3", 3, corev1.PodFailed},
		"signal": {"kill -9 $$$$", 137, corev1.PodFailed},
	}
	// In a pod's arguments "$$" stands for one "$".
	for name, test := range tests {
		r.pod(namespace, name, fmt.Sprintf(`{restartPolicy: Never, containers: [{name: main, image: sh, args: [-c, %q], terminationMessagePolicy: FallbackToLogsOnError}]}`, test.script))
	}
	for name, test := range tests {
		ended := r.phase(namespace, name, test.phase).Status.ContainerStatuses[0].State.Terminated
		if ended.ExitCode != test.code {
			t.Errorf("%s: exit code %d, want %d", name, ended.ExitCode, test.code)
		}
		if name == "three" && ended.Message != "why\n" {
			t.Errorf("the message of a failed container without one is its log, not %q", ended.Message)
		}
	}
	r.pod(namespace, "none", `{restartPolicy: Never, containers: [{name: main, image: sh, command: [/no/such/command]}]}`)
	if ended := r.phase(namespace, "none", corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated; ended.Reason != "StartError" {
		t.Errorf("a command that is not there: %+v", ended)
	}
}

func TestADeletedPodGoesWhenItsProcessHas(t *testing.T) {
	r := sharedCluster(t)
	namespace := r.namespace()
	r.pod(namespace, "polite", `{restartPolicy: Never, terminationGracePeriodSeconds: 60, containers: [{name: main, image: sh,
		args: [-c, "trap 'echo got TERM; exit 0' TERM; echo up; sleep 1000 & wait"]}]}`)
	pod := r.phase(namespace, "polite", corev1.PodRunning)
	r.eventually("it has set its trap", func() error {
		if !strings.Contains(r.logs(namespace, "polite"), "up") {
			return fmt.Errorf("no output")
		}
		return nil
	})
	began := time.Now()
	if err := r.client.CoreV1().Pods(namespace).Delete(t.Context(), "polite", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.gone(namespace, "polite")
	t.Logf("gone after %s", time.Since(began).Round(time.Millisecond))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s, as if the grace had to pass", took)
	}
	// The object is gone, its log is not.
	log, err := os.ReadFile(filepath.Join(r.dir.PodLogs(), namespace+"_polite_"+string(pod.UID), "main", "0.log"))
	if err != nil || !strings.Contains(string(log), "got TERM") {
		t.Errorf("the log is %q, %v", log, err)
	}
	if left := processes(r.dir.Path("pods", string(pod.UID))); len(left) > 0 {
		t.Errorf("processes of the pod are left: %v", left)
	}

	r.pod(namespace, "deaf", `{restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{name: main, image: sh,
		args: [-c, "trap '' TERM; while :; do sleep 0.1; done"]}]}`)
	r.phase(namespace, "deaf", corev1.PodRunning)
	if err := r.client.CoreV1().Pods(namespace).Delete(t.Context(), "deaf", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.gone(namespace, "deaf")
}

func (r *running) gone(namespace, name string) {
	r.t.Helper()
	r.eventually("pod "+name+" is gone", func() error {
		_, err := r.client.CoreV1().Pods(namespace).Get(r.t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v", err)
	})
}

func TestADeadlineEndsAPod(t *testing.T) {
	r := sharedCluster(t)
	namespace := r.namespace()
	r.pod(namespace, "late", `{restartPolicy: Never, activeDeadlineSeconds: 1, containers: [{name: main, image: sh,
		args: [-c, "trap 'echo -n stopped > /dev/termination-log; exit 5' TERM; sleep 1000 & wait"]}]}`)
	pod := r.phase(namespace, "late", corev1.PodFailed)
	ended := pod.Status.ContainerStatuses[0].State.Terminated
	if pod.Status.Reason != "DeadlineExceeded" || ended.ExitCode != 5 || ended.Message != "stopped" {
		t.Errorf("reason %q, container %+v", pod.Status.Reason, ended)
	}
}

func TestATokenIsGivenWithAKubeconfig(t *testing.T) {
	r := sharedCluster(t)
	namespace := r.namespace()
	r.pod(namespace, "with", `{restartPolicy: Never, containers: [{name: main, image: "kubectl:1", command: [kubectl, auth, whoami, -o, "jsonpath={.status.userInfo.username}"]}]}`)
	r.phase(namespace, "with", corev1.PodSucceeded)
	if got, want := r.logs(namespace, "with"), "system:serviceaccount:"+namespace+":default"; got != want {
		t.Errorf("the pod is %q, want %q", got, want)
	}
	r.pod(namespace, "without", `{restartPolicy: Never, automountServiceAccountToken: false, containers: [{name: main, image: sh, args: [-c, "echo \"<$KUBECONFIG>\"; env | sort | cut -d= -f1"]}]}`)
	r.phase(namespace, "without", corev1.PodSucceeded)
	if got := r.logs(namespace, "without"); got != "<>\nHOME\nPATH\nPWD\nTMPDIR\n" {
		t.Errorf("a pod without a token sees %q", got)
	}
}

func TestAPodWaitsForWhatItNeeds(t *testing.T) {
	r := sharedCluster(t)
	namespace := r.namespace()
	r.pod(namespace, "needy", `{restartPolicy: Never, volumes: [{name: s, secret: {secretName: later}}],
		containers: [{name: main, image: "unknown:1", args: [-c, "cat /s/key"], volumeMounts: [{name: s, mountPath: /s}]}]}`)
	r.eventually("an Event names the missing Secret", func() error {
		events, err := r.client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == "FailedMount" && strings.Contains(event.Message, `"later" not found`) {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(events.Items))
	})
	r.secret(namespace, "later", "key", "here")
	r.eventually("the pod waits for its image", func() error {
		pod, err := r.client.CoreV1().Pods(namespace).Get(t.Context(), "needy", metav1.GetOptions{})
		if err != nil {
			return err
		}
		state := pod.Status.ContainerStatuses[0].State.Waiting
		if pod.Status.Phase == corev1.PodPending && state != nil && state.Reason == "ImagePullBackOff" &&
			strings.Contains(state.Message, "unknown:1") && strings.Contains(state.Message, r.dir.Images()) {
			return nil
		}
		return fmt.Errorf("%s %+v", pod.Status.Phase, state)
	})
	if err := r.dir.AddImages(map[string]string{"unknown:1": "/bin/sh"}); err != nil {
		t.Fatal(err)
	}
	r.phase(namespace, "needy", corev1.PodSucceeded)
	if got := r.logs(namespace, "needy"); got != "here" {
		t.Errorf("the log is %q", got)
	}
}

func TestAnEndIsReportedAtOnce(t *testing.T) {
	r := sharedCluster(t)
	namespace := r.namespace()
	watch, err := r.client.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	r.pod(namespace, "quick", `{restartPolicy: Never, containers: [{name: main, image: sh, args: [-c, "sleep 0.5; date +%s%N > /dev/termination-log"]}]}`)
	for event := range watch.ResultChan() {
		pod := event.Object.(*corev1.Pod)
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Terminated == nil {
			continue
		}
		var wrote int64
		if _, err := fmt.Sscan(pod.Status.ContainerStatuses[0].State.Terminated.Message, &wrote); err != nil {
			t.Fatal(err)
		}
		delay := time.Since(time.Unix(0, wrote))
		t.Logf("seen %s after the process wrote its last line", delay.Round(time.Millisecond))
		if delay > time.Second {
			t.Errorf("the end was seen after %s", delay)
		}
		return
	}
	t.Fatal("the watch ended")
}
