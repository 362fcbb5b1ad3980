package processnode

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

// given makes a pod of one container on a node whose API holds the objects.
func given(t *testing.T, spec corev1.Container, volumes []corev1.Volume, objects ...runtime.Object) *container {
	t.Helper()
	dir := cluster.Dir(t.TempDir())
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid", Labels: map[string]string{"app": "demo"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{spec}, Volumes: volumes, ServiceAccountName: "worker"},
	}
	agent := &Agent{
		config: Config{Dir: dir, PodNet: 9}, client: fake.NewClientset(objects...),
		server: "https://127.0.0.1:6443", addresses: newAddresses(9),
	}
	p := newPod(agent, object)
	t.Cleanup(p.report.freeze)
	p.address = agent.addresses.take()
	return p.containers[spec.Name]
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

func yes() *bool { b := true; return &b }

func TestEnvironment(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{ObjectMeta: meta("secret"), Data: map[string][]byte{"key": []byte("hidden")}}
	config := &corev1.ConfigMap{ObjectMeta: meta("config"), Data: map[string]string{"a": "1", "b": "2"}}
	secretKey := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional,
		}}
	}
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
	}
	fromConfig := func(name, prefix string, optional *bool) corev1.EnvFromSource {
		return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional,
		}}
	}
	tests := map[string]struct {
		env     []corev1.EnvVar
		envFrom []corev1.EnvFromSource
		want    map[string]string
		fails   bool
	}{
		"a variable sees those declared before it": {
			env:  []corev1.EnvVar{{Name: "A", Value: "x"}, {Name: "B", Value: "$(A)/y"}},
			want: map[string]string{"A": "x", "B": "x/y"},
		},
		"a reference to an unknown variable stays as it is": {
			env:  []corev1.EnvVar{{Name: "A", Value: "$(NONE)"}},
			want: map[string]string{"A": "$(NONE)"},
		},
		"a doubled dollar is not a reference": {
			env:  []corev1.EnvVar{{Name: "A", Value: "$$(A)"}},
			want: map[string]string{"A": "$(A)"},
		},
		"the pod's address and labels come from the pod": {
			env:  []corev1.EnvVar{{Name: "IP", ValueFrom: field("status.podIP")}, {Name: "APP", ValueFrom: field("metadata.labels['app']")}},
			want: map[string]string{"IP": "127.9.0.1", "APP": "demo"},
		},
		"a key of a Secret becomes a variable": {
			env:  []corev1.EnvVar{{Name: "A", ValueFrom: secretKey("secret", "key", nil)}},
			want: map[string]string{"A": "hidden"},
		},
		"an optional key that is missing makes no variable": {
			env:  []corev1.EnvVar{{Name: "A", ValueFrom: secretKey("secret", "none", yes())}},
			want: map[string]string{},
		},
		"a key of an optional Secret that is missing makes no variable": {
			env:  []corev1.EnvVar{{Name: "A", ValueFrom: secretKey("none", "key", yes())}},
			want: map[string]string{},
		},
		"a required key that is missing is an obstacle":    {env: []corev1.EnvVar{{Name: "A", ValueFrom: secretKey("secret", "none", nil)}}, fails: true},
		"a required Secret that is missing is an obstacle": {env: []corev1.EnvVar{{Name: "A", ValueFrom: secretKey("none", "key", nil)}}, fails: true},
		"a whole ConfigMap is imported with a prefix": {
			envFrom: []corev1.EnvFromSource{fromConfig("config", "C_", nil)},
			want:    map[string]string{"C_a": "1", "C_b": "2"},
		},
		"a declared variable replaces an imported one": {
			envFrom: []corev1.EnvFromSource{fromConfig("config", "", nil)},
			env:     []corev1.EnvVar{{Name: "a", Value: "3"}},
			want:    map[string]string{"a": "3", "b": "2"},
		},
		"an optional ConfigMap that is missing imports nothing": {
			envFrom: []corev1.EnvFromSource{fromConfig("none", "", yes())},
			want:    map[string]string{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := given(t, corev1.Container{Name: "main", Env: test.env, EnvFrom: test.envFrom}, nil, secret, config)
			got, err := c.environment()
			if test.fails {
				if err == nil {
					t.Fatalf("environment() = %v, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	mode, closed := int32(0o644), int32(0o400)
	secret := &corev1.Secret{ObjectMeta: meta("secret"), Data: map[string][]byte{"user": []byte("u"), "password": []byte("p")}}
	config := &corev1.ConfigMap{ObjectMeta: meta("config"), Data: map[string]string{"a.yaml": "a: 1"}}
	ofSecret := func(source corev1.SecretVolumeSource) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &source}
	}
	tests := map[string]struct {
		given corev1.VolumeSource
		want  map[string]string
		fails bool
	}{
		"a Secret has a file for each key": {
			given: ofSecret(corev1.SecretVolumeSource{SecretName: "secret", DefaultMode: &mode}),
			want:  map[string]string{"user": "-rw-r--r-- u", "password": "-rw-r--r-- p"},
		},
		"items choose and rename keys": {
			given: ofSecret(corev1.SecretVolumeSource{SecretName: "secret", DefaultMode: &closed, Items: []corev1.KeyToPath{{Key: "user", Path: "deep/name"}}}),
			want:  map[string]string{"deep/name": "-r-------- u"},
		},
		"an optional Secret that is missing is an empty folder": {
			given: ofSecret(corev1.SecretVolumeSource{SecretName: "none", DefaultMode: &mode, Optional: yes()}),
			want:  map[string]string{},
		},
		"an optional key that is missing makes no file": {
			given: ofSecret(corev1.SecretVolumeSource{SecretName: "secret", DefaultMode: &mode, Optional: yes(), Items: []corev1.KeyToPath{{Key: "none", Path: "x"}}}),
			want:  map[string]string{},
		},
		"a required Secret that is missing cannot be mounted": {given: ofSecret(corev1.SecretVolumeSource{SecretName: "none", DefaultMode: &mode}), fails: true},
		"a required key that is missing cannot be mounted": {
			given: ofSecret(corev1.SecretVolumeSource{SecretName: "secret", DefaultMode: &mode, Items: []corev1.KeyToPath{{Key: "none", Path: "x"}}}), fails: true,
		},
		"a projected volume puts its sources together": {
			given: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: yes()}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
					{Path: "name", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}},
				}}},
			}}},
			want: map[string]string{"a.yaml": "-rw-r--r-- a: 1", "name": "-rw-r--r-- pod"},
		},
		"an emptyDir is an empty folder":              {given: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, want: map[string]string{}},
		"a volume this node does not know is refused": {given: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}, fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := given(t, corev1.Container{Name: "main"}, []corev1.Volume{{Name: "v", VolumeSource: test.given}}, secret, config)
			err := c.pod.volumes.write()
			if failed := err != nil; failed != test.fails {
				t.Fatalf("write() = %v, want an error: %v", err, test.fails)
			}
			if test.fails {
				return
			}
			if diff := cmp.Diff(test.want, files(t, filepath.Join(c.pod.volumes.folder, "v"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// files lists what a program sees in a volume: modes and contents by path.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	data := filepath.Join(folder, "..data")
	if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) {
		data = folder
	}
	resolved, err := filepath.EvalSymlinks(data)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.Walk(resolved, func(path string, information os.FileInfo, err error) error {
		if err != nil || information.IsDir() {
			return err
		}
		name, err := filepath.Rel(resolved, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, name)) // Through the link.
		found[name] = information.Mode().String() + " " + string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestInvocation(t *testing.T) {
	t.Parallel()
	volumes := []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	mounts := []corev1.VolumeMount{{Name: "work", MountPath: "/work"}}
	type result struct {
		name, binary string
		arguments    []string
	}
	tests := map[string]struct {
		given corev1.Container
		want  result
	}{
		"without a command the image's binary runs with the arguments": {
			given: corev1.Container{Image: "app:1", Args: []string{"--dir=/work/$(NAME)"}},
			want:  result{"/bin/app-linux", "/bin/app-linux", []string{"--dir=POD/volumes/work/n"}},
		},
		"a command that ends in the image's name is its binary": {
			given: corev1.Container{Image: "example.org/team/app:1", Command: []string{"/app", "serve"}, Args: []string{"-v"}},
			want:  result{"/app", "/bin/app-linux", []string{"serve", "-v"}},
		},
		"another command is one of this machine": {
			given: corev1.Container{Image: "app:1", Command: []string{"/bin/sh", "-c", "ls /work"}},
			want:  result{"/bin/sh", "/bin/sh", []string{"-c", "ls POD/volumes/work"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.given.Name, test.given.VolumeMounts = "main", mounts
			c := given(t, test.given, volumes)
			invoked, err := c.invocation("/bin/app-linux", map[string]string{"NAME": "n"})
			if err != nil {
				t.Fatal(err)
			}
			for i, argument := range test.want.arguments {
				test.want.arguments[i] = strings.ReplaceAll(argument, "POD", c.pod.folder)
			}
			got := result{invoked.name, invoked.binary, invoked.arguments}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	t.Run("the first order decides the cause, the shortest grace the end", func(t *testing.T) {
		t.Parallel()
		o := newOrder()
		o.give(causeDeadline, time.Hour)
		select {
		case <-o.killed:
			t.Fatal("the grace is not over")
		default:
		}
		o.give(causeDeleted, 0)
		<-o.killed
		if o.cause() != causeDeadline {
			t.Errorf("cause() = %q, want %q", o.cause(), causeDeadline)
		}
	})
}
