package discovery

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

func TestName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		name       string
		uid        types.UID
		generation int64
		want       string
	}{
		"the server, its UID, its generation": {"crm", "uid-of-crm", 2, name},
		"another server of that name":         {"crm", "uid-of-another", 2, "crm-ace728f7-d2"},
		"dots are no part of a host's name":   {"crm.eu", "uid-of-crm", 2, "crm-eu-513f8971-d2"},
		"a long name is cut":                  {strings.Repeat("x", 39) + ".yz", "uid-of-crm", 1234567890, strings.Repeat("x", 39) + "-513f8971-d1234567890"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Name(mcp(func(s *v1alpha1.ToolServer) { s.Name, s.UID, s.Generation = tc.name, tc.uid, tc.generation }))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Name() (-want +got):\n%s", diff)
			}
			if errs := validation.IsDNS1123Label(got); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}

// TestBuild compares the whole Job: whatever changes in it is meant.
func TestBuild(t *testing.T) {
	t.Parallel()
	server := mcp(func(s *v1alpha1.ToolServer) {
		s.Spec.Credentials.SecretRef = v1alpha1.KeyReference{Name: "crm", Key: "token"}
		s.Spec.TLS.CABundle.ConfigMap = v1alpha1.KeyReference{Name: "corp", Key: "root"}
		s.Spec.Proxy.URL = "http://proxy.corp:3128"
		s.Spec.Headers = []v1alpha1.Header{{Name: "X-Price", Value: "$(HOME) $$5"}}
	})
	got, err := Build(server, "uid-of-team", "ekiden/segment:1", pod.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"ekiden.dev/server-uid": "uid-of-crm", "app.kubernetes.io/name": "ekiden-discovery", "app.kubernetes.io/managed-by": "ekiden"}
	secret := func(name, secret, key, path string, optional bool) corev1.Volume {
		mode := int32(0o440)
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: secret, Items: []corev1.KeyToPath{{Key: key, Path: path}}, DefaultMode: &mode, Optional: &optional,
		}}}
	}
	question := got.Spec.Template.Spec.Containers[0].Env[0].Value
	want := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "ekiden.dev/v1alpha1", Kind: "ToolServer", Name: "crm", UID: "uid-of-crm", Controller: ptr(true), BlockOwnerDeletion: ptr(true)}},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr[int32](2), TTLSecondsAfterFinished: ptr[int32](300), PodReplacementPolicy: ptr(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"ekiden.dev/tool-server": "crm"}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr(false), EnableServiceLinks: ptr(false),
					TerminationGracePeriodSeconds: ptr[int64](30), ActiveDeadlineSeconds: ptr[int64](600),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr(true), RunAsUser: ptr[int64](65532), RunAsGroup: ptr[int64](65532), FSGroup: ptr[int64](65532),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Volumes: []corev1.Volume{secret("postgres", "ekiden-postgres", "dsn", "dsn", false), secret("credential", "crm", "token", "key", true), {Name: "ca", VolumeSource: corev1.VolumeSource{
						Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr[int32](0o440), Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
							LocalObjectReference: corev1.LocalObjectReference{Name: "corp"}, Items: []corev1.KeyToPath{{Key: "root", Path: "tools/crm/ca.crt"}}, Optional: ptr(true),
						}}}},
					}}},
					Containers: []corev1.Container{{
						Name: "discovery", Image: "ekiden/segment:1",
						Args: []string{"discover", "--dsn-file=/var/run/ekiden/postgres/dsn", "--termination-log=/dev/termination-log", "--credential-file=/var/run/ekiden/model/key", "--ca-dir=/var/run/ekiden/ca"},
						Env:  []corev1.EnvVar{{Name: "EKIDEN_DISCOVERY", Value: question}},
						VolumeMounts: []corev1.VolumeMount{
							{Name: "postgres", MountPath: "/var/run/ekiden/postgres", ReadOnly: true},
							{Name: "credential", MountPath: "/var/run/ekiden/model", ReadOnly: true},
							{Name: "ca", MountPath: "/var/run/ekiden/ca", ReadOnly: true},
						},
						TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("48Mi")},
							Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
						},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
					}},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Build() (-want +got):\n%s", diff)
	}
	if strings.Contains(question, "$") {
		t.Errorf("Kubernetes would expand %s", question)
	}
	var asked contract.Discovery
	if err := json.Unmarshal([]byte(question), &asked); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(contract.Discovery{NamespaceUID: "uid-of-team", Generation: 2, Server: compile.Server(server)}, asked); diff != "" {
		t.Errorf("the question (-want +got):\n%s", diff)
	}
}

func TestAServerWithoutAKeyMountsNone(t *testing.T) {
	t.Parallel()
	j := theJob()
	spec := j.Spec.Template.Spec
	if len(spec.Volumes) != 1 || len(spec.Containers[0].VolumeMounts) != 1 || strings.Contains(strings.Join(spec.Containers[0].Args, " "), "credential") {
		t.Errorf("%+v", spec)
	}
}
