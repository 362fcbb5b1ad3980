package pod

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// settings reads settings as a policy has them.
func settings(t *testing.T, text string) v1alpha1.PodSettings {
	t.Helper()
	var s v1alpha1.PodSettings
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMerge(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		layers []string
		want   string
	}{
		"where one layer speaks it is what it says": {layers: []string{"{}", all, "{}"}, want: all},
		"nothing is nothing":                        {layers: []string{"{}", "{}"}, want: "{}"},
		"of a single value the last that is set counts": {
			layers: []string{"{serviceAccountName: a, runtimeClassName: gvisor, priorityClassName: low}", "{serviceAccountName: b, priorityClassName: high}", "{}"},
			want:   "{serviceAccountName: b, runtimeClassName: gvisor, priorityClassName: high}",
		},
		"maps are merged key by key": {
			layers: []string{"{nodeSelector: {a: '1', b: '1'}, labels: {a: '1'}, annotations: {a: '1'}}", "{nodeSelector: {b: '2', c: '2'}, labels: {b: '2'}, annotations: {a: '2'}}"},
			want:   "{nodeSelector: {a: '1', b: '2', c: '2'}, labels: {a: '1', b: '2'}, annotations: {a: '2'}}",
		},
		"resources are merged by their names": {
			layers: []string{"{resources: {requests: {cpu: 20m, memory: 48Mi}, limits: {memory: 256Mi}}}", "{resources: {requests: {memory: 64Mi}, limits: {cpu: '1'}}}"},
			want:   "{resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 256Mi, cpu: '1'}}}",
		},
		"variables and image pull secrets are merged by their names, and keep their order": {
			layers: []string{"{env: [{name: A, value: '1'}, {name: B, value: '1'}], imagePullSecrets: [{name: a}]}", "{env: [{name: C, value: '2'}, {name: A, value: '2'}], imagePullSecrets: [{name: b}, {name: a}]}"},
			want:   "{env: [{name: A, value: '2'}, {name: B, value: '1'}, {name: C, value: '2'}], imagePullSecrets: [{name: a}, {name: b}]}",
		},
		"tolerations add up": {
			layers: []string{
				"{tolerations: [{key: a, operator: Exists}, {key: b, effect: NoExecute, tolerationSeconds: 5}]}",
				"{tolerations: [{key: b, effect: NoExecute, tolerationSeconds: 5}, {key: b, effect: NoExecute, tolerationSeconds: 6}, {key: b, effect: NoExecute}]}",
			},
			want: "{tolerations: [{key: a, operator: Exists}, {key: b, effect: NoExecute, tolerationSeconds: 5}, {key: b, effect: NoExecute, tolerationSeconds: 6}, {key: b, effect: NoExecute}]}",
		},
		"three layers are as two and then one": {
			layers: []string{"{labels: {a: '1'}}", "{labels: {a: '2', b: '2'}}", "{labels: {b: '3'}}"}, want: "{labels: {a: '2', b: '3'}}",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var layers, before []v1alpha1.PodSettings
			for _, l := range tc.layers {
				layers, before = append(layers, settings(t, l)), append(before, settings(t, l))
			}
			got := Merge(layers...)
			if diff := cmp.Diff(settings(t, tc.want), got); diff != "" {
				t.Errorf("Merge() (-want +got):\n%s", diff)
			}
			spoil(&got)
			if diff := cmp.Diff(before, layers); diff != "" {
				t.Errorf("a layer was changed: it may be a cache's:\n%s", diff)
			}
			first := dressed(t, Merge(layers...))
			for range 20 {
				if diff := cmp.Diff(first, dressed(t, Merge(before...))); diff != "" {
					t.Fatalf("two managers make two Jobs:\n%s", diff)
				}
			}
		})
	}
}

// spoil writes wherever settings can be written into.
func spoil(s *v1alpha1.PodSettings) {
	for _, m := range []map[string]v1alpha1.PodLabelValue{s.Labels, s.NodeSelector} {
		for key := range m {
			m[key] = "spoilt"
		}
	}
	for key := range s.Annotations {
		s.Annotations[key] = "spoilt"
	}
	for _, m := range []map[string]resource.Quantity{s.Resources.Requests, s.Resources.Limits} {
		for key := range m {
			m[key] = resource.MustParse("666")
		}
	}
	for i := range s.Env {
		s.Env[i].Value = "spoilt"
	}
	for i := range s.ImagePullSecrets {
		s.ImagePullSecrets[i].Name = "spoilt"
	}
	for i := range s.Tolerations {
		s.Tolerations[i].Key = "spoilt"
	}
}

// dressed is a Job with the settings as the API server is sent it.
func dressed(t *testing.T, s v1alpha1.PodSettings) string {
	t.Helper()
	j := &batchv1.Job{}
	j.Spec.Template.Spec = Spec(Work{Container: "segment", Image: "image"})
	Dress(j, s)
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBuiltInIsBounded(t *testing.T) {
	t.Parallel()
	r := BuiltIn().Resources
	cpu, memory, limit := r.Requests["cpu"], r.Requests["memory"], r.Limits["memory"]
	if got, want := fmt.Sprint(cpu.String(), " ", memory.String(), " ", limit.String()), "20m 48Mi 256Mi"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

const all = `
serviceAccountName: agents
imagePullSecrets: [{name: registry}]
nodeSelector: {pool: agents}
tolerations: [{key: dedicated, value: agents, effect: NoExecute, tolerationSeconds: 60}, {key: gpu, operator: Exists}]
resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 512Mi}}
runtimeClassName: gvisor
priorityClassName: agents
labels: {example.com/team: support, kueue.x-k8s.io/queue-name: agents}
annotations: {example.com/owner: support}
env: [{name: GOMEMLIMIT, value: 400MiB}, {name: PRICE, value: $(HOME) $$5}]
`

// TestDress says what of a Job settings change, and shows the whole of it.
func TestDress(t *testing.T) {
	t.Parallel()
	seconds := int64(60)
	own := map[string]string{"ekiden.dev/run-uid": "uid"}
	job := func() *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Labels: own}}
		j.Spec.Template = corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: own, Annotations: map[string]string{"ekiden.dev/run": "r"}},
			Spec:       Spec(Work{Container: "segment", Image: "image", Env: []corev1.EnvVar{{Name: "POD_NAME"}}}),
		}
		return j
	}
	want := job()
	want.Labels = map[string]string{"ekiden.dev/run-uid": "uid", "example.com/team": "support", "kueue.x-k8s.io/queue-name": "agents"}
	want.Spec.Template.Labels = map[string]string{"ekiden.dev/run-uid": "uid", "example.com/team": "support"}
	want.Spec.Template.Annotations = map[string]string{"ekiden.dev/run": "r", "example.com/owner": "support"}
	p := &want.Spec.Template.Spec
	p.ServiceAccountName, p.PriorityClassName, p.RuntimeClassName = "agents", "agents", ptr("gvisor")
	p.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	p.NodeSelector = map[string]string{"pool": "agents"}
	p.Tolerations = []corev1.Toleration{
		{Key: "dedicated", Value: "agents", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		{Key: "gpu", Operator: corev1.TolerationOpExists},
	}
	p.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
	p.Containers[0].Env = []corev1.EnvVar{{Name: "POD_NAME"}, {Name: "GOMEMLIMIT", Value: "400MiB"}, {Name: "PRICE", Value: "$$(HOME) $$$$5"}}
	got := job()
	Dress(got, settings(t, all))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Dress() (-want +got):\n%s", diff)
	}
	if p := got.Spec.Template.Spec; p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
		t.Error("the token of the service account is mounted")
	}
	if len(own) != 1 {
		t.Errorf("labels that others share were changed: %v", own)
	}
}

// TestNothingThatAJobSaysIsReplaced though no schema has looked at the settings.
func TestNothingThatAJobSaysIsReplaced(t *testing.T) {
	t.Parallel()
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"ekiden.dev/run-uid": "uid"}}}
	j.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"ekiden.dev/run-uid": "uid"}, Annotations: map[string]string{"ekiden.dev/run": "r"}},
		Spec:       Spec(Work{Env: []corev1.EnvVar{{Name: "POD_NAME", Value: "own"}}}),
	}
	Dress(j, v1alpha1.PodSettings{
		Labels: map[string]v1alpha1.PodLabelValue{"ekiden.dev/run-uid": "x"}, Annotations: map[string]v1alpha1.PodAnnotationValue{"ekiden.dev/run": "x"}, Env: []v1alpha1.PodEnv{{Name: "POD_NAME", Value: "x"}},
	})
	if t1 := j.Spec.Template; j.Labels["ekiden.dev/run-uid"] != "uid" || t1.Labels["ekiden.dev/run-uid"] != "uid" || t1.Annotations["ekiden.dev/run"] != "r" || len(t1.Spec.Containers[0].Env) != 1 {
		t.Errorf("%+v", j)
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	const queue, class = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
	type labels = map[string]v1alpha1.PodLabelValue
	for name, tc := range map[string]struct {
		policy labels
		object map[string]string
		want   labels
	}{
		"nobody names a queue":            {},
		"the policy does":                 {policy: labels{queue: "a"}, want: labels{queue: "a"}},
		"the object does":                 {object: map[string]string{queue: "b", class: "high", "other": "x"}, want: labels{queue: "b", class: "high"}},
		"both do, and the object chooses": {policy: labels{queue: "a", "team": "x"}, object: map[string]string{queue: "b"}, want: labels{queue: "b", "team": "x"}},
		"the object's is empty":           {policy: labels{queue: "a"}, object: map[string]string{queue: ""}, want: labels{queue: "a"}},
	} {
		before := maps.Clone(tc.policy)
		got := Queue(v1alpha1.PodSettings{Labels: tc.policy}, tc.object).Labels
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before, tc.policy); diff != "" {
			t.Errorf("%s: the policy was changed:\n%s", name, diff)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := Parse([]byte(all))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settings(t, all), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := Parse([]byte("# nothing yet\n")); err != nil || len(got.Env) != 0 {
		t.Errorf("an empty file: %+v, %v", got, err)
	}
	for given, want := range map[string]string{
		"nodeSelectors: {a: b}":                     `unknown field "nodeSelectors"`,
		"spec: {pods: {}}":                          "spec",
		"a: [":                                      "spec.pods of an AgentPolicy",
		"resources: {limits: {memory: much}}":       "quantities must match",
		"resources: {requests: {cpu: '-1'}}":        "resources.requests[cpu]: is negative",
		"serviceAccountName: Not A Name":            "serviceAccountName: ",
		"imagePullSecrets: [{name: '_'}]":           "imagePullSecrets[0].name: ",
		"nodeSelector: {'a b': c}":                  "nodeSelector[a b]: ",
		"labels: {ekiden.dev/run-uid: x}":           "labels[ekiden.dev/run-uid]: is set for each pod",
		"labels: {batch.kubernetes.io/job-name: x}": "labels[batch.kubernetes.io/job-name]: is set for each pod",
		"labels: {app.kubernetes.io/managed-by: x}": "labels[app.kubernetes.io/managed-by]: is set for each pod",
		"labels: {a: 'b c'}":                        "labels[a]: ",
		"annotations: {ekiden.dev/run: x}":          "annotations[ekiden.dev/run]: is set for each pod",
		"annotations: {container.apparmor.security.beta.kubernetes.io/segment: unconfined}": "annotations[container.apparmor.security.beta.kubernetes.io/segment]: would loosen what a pod may do",
		"annotations: {container.seccomp.security.alpha.kubernetes.io/segment: unconfined}": "annotations[container.seccomp.security.alpha.kubernetes.io/segment]: would loosen",
		"annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined}":               "annotations[seccomp.security.alpha.kubernetes.io/pod]: would loosen",
		"tolerations: [{operator: Exists}]":                                                 "tolerations[0].key: ",
		"tolerations: [{key: a, operator: Like}]":                                           "tolerations[0].operator: ",
		"tolerations: [{key: a, effect: Never}]":                                            "tolerations[0].effect: ",
		"tolerations: [{key: a, operator: Exists, value: b}]":                               "tolerations[0]: a value goes with the operator Equal",
		"tolerations: [{key: a, tolerationSeconds: 1}]":                                     "tolerations[0].tolerationSeconds: ",
		"env: [{name: POD_UID, value: x}]":                                                  "env[0].name: POD_UID is set for each pod",
		"env: [{name: PGHOST, value: x}]":                                                   "env[0].name: PGHOST is set for each pod",
		"env: [{name: https_proxy, value: x}]":                                              "set spec.proxy of the ModelEndpoint",
		"env: [{name: A}]":                                                                  "env[0].value: ",
		"env: [{name: 1A, value: x}]":                                                       "env[0].name: ",
		"env: [{name: A, valueFrom: {}}]":                                                   "valueFrom",
	} {
		if _, err := Parse([]byte(given)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
}
