package discovery

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	// LabelServerUID is the UID of the ToolServer that a Job or a pod asks.
	LabelServerUID = "ekiden.dev/server-uid"
	// AnnotationServer is the name of that ToolServer on its pods. It is an annotation because a name may be longer than a label's value.
	AnnotationServer = "ekiden.dev/tool-server"

	// container is the name of the container that asks.
	container = "discovery"
	// tries is how many pods of one Job may fail before the server is left alone for keep.
	tries = 3
	// within bounds all of them together.
	within = 10 * time.Minute
	// keep is how long a Job is kept after its end. When a failed one goes, another is made: this is the pause between two.
	keep = 5 * time.Minute
)

// Name is the name of the Job that asks a server for the tools of its newest spec. It is a function of the server and its
// generation, so that asking twice is a conflict and not a second pod.
func Name(s *v1alpha1.ToolServer) string {
	return fmt.Sprintf("%s-d%d", lifecycle.Stem(s.Name, s.UID), s.Generation)
}

// Build is that Job.
func Build(s *v1alpha1.ToolServer, namespace types.UID, image string) (*batchv1.Job, error) {
	server := compile.Server(s)
	question, err := json.Marshal(contract.Discovery{NamespaceUID: namespace, Generation: s.Generation, Server: server})
	if err != nil {
		return nil, fmt.Errorf("encoding the discovery of %s: %w", s.Name, err)
	}
	labels := map[string]string{
		LabelServerUID:                 string(s.UID),
		"app.kubernetes.io/name":       "ekiden-discovery",
		"app.kubernetes.io/managed-by": "ekiden",
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(s),
			Namespace:       s.Namespace,
			Labels:          labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, v1alpha1.GroupVersion.WithKind("ToolServer"))},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:            ptr[int32](tries - 1),
			ActiveDeadlineSeconds:   ptr(int64(within.Seconds())),
			TTLSecondsAfterFinished: ptr(int32(keep.Seconds())),
			PodReplacementPolicy:    ptr(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{AnnotationServer: s.Name}},
				Spec:       pod(string(question), server.Credentials.SecretRef, image),
			},
		},
	}, nil
}

func pod(question string, credential v1alpha1.KeyReference, image string) corev1.PodSpec {
	args := []string{
		"discover",
		"--dsn-file=" + contract.PostgresDir + "/" + contract.PostgresKey,
		"--termination-log=" + contract.TerminationLog,
	}
	volumes := []corev1.Volume{secretVolume("postgres", contract.PostgresSecret, contract.PostgresKey, contract.PostgresKey, false)}
	mounts := []corev1.VolumeMount{{Name: "postgres", MountPath: contract.PostgresDir, ReadOnly: true}}
	if credential.Name != "" {
		args = append(args, "--credential-file="+contract.CredentialDir+"/"+contract.CredentialFile)
		// Optional, so that the pod can say which key is missing; a required one would leave it waiting without a word.
		volumes = append(volumes, secretVolume("credential", credential.Name, credential.Key, contract.CredentialFile, true))
		mounts = append(mounts, corev1.VolumeMount{Name: "credential", MountPath: contract.CredentialDir, ReadOnly: true})
	}
	return corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  new(bool),
		EnableServiceLinks:            new(bool),
		TerminationGracePeriodSeconds: ptr(int64(contract.StopGrace.Seconds())),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr(true),
			RunAsUser:      ptr[int64](65532),
			RunAsGroup:     ptr[int64](65532),
			FSGroup:        ptr[int64](65532),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: volumes,
		Containers: []corev1.Container{{
			Name:  container,
			Image: image,
			Args:  args,
			// Kubernetes expands $(NAME) and $$ in a value. Inside a JSON string the escape means the same letter.
			Env:                    []corev1.EnvVar{{Name: contract.DiscoveryEnv, Value: strings.ReplaceAll(question, "$", `\u0024`)}},
			VolumeMounts:           mounts,
			TerminationMessagePath: contract.TerminationLog,
			// Never the log: it may hold the words of the server.
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("48Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(bool),
				ReadOnlyRootFilesystem:   ptr(true),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}

func secretVolume(name, secret, key, path string, optional bool) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, Items: []corev1.KeyToPath{{Key: key, Path: path}},
		DefaultMode: ptr[int32](0o440), Optional: ptr(optional),
	}}}
}

func ptr[T any](v T) *T { return &v }
