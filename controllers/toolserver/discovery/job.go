package discovery

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/definition/compile"
	"github.com/ekiden-dev/ekiden/controllers/pod"
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
	// within bounds each of them from when it has a node: the deadline of a Job would run while a gate holds its pod.
	within = 10 * time.Minute
	// endBy bounds all of them together, from when they were let go.
	endBy = 15 * time.Minute
	// keep is how long a Job is kept after its end. When a failed one goes, another is made: this is the pause between two.
	keep = 5 * time.Minute
)

// Name is the name of the Job that asks a server for the tools of its newest spec. It is a function of the server and its
// generation, so that asking twice is a conflict and not a second pod.
func Name(s *v1alpha1.ToolServer) string {
	return fmt.Sprintf("%s-d%d", lifecycle.Stem(s.Name, s.UID), s.Generation)
}

// Build is that Job, with what the platform wants of its pods.
func Build(s *v1alpha1.ToolServer, namespace types.UID, image string, settings v1alpha1.PodSettings) (*batchv1.Job, error) {
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
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(s),
			Namespace:       s.Namespace,
			Labels:          labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, v1alpha1.GroupVersion.WithKind("ToolServer"))},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:            ptr[int32](tries - 1),
			TTLSecondsAfterFinished: ptr(int32(keep.Seconds())),
			PodReplacementPolicy:    ptr(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{AnnotationServer: s.Name}},
				Spec: pod.Spec(pod.Work{
					Container: container, Image: image, Args: []string{"discover"},
					// Kubernetes expands $(NAME) and $$ in a value. Inside a JSON string the escape means the same letter.
					Env:        []corev1.EnvVar{{Name: contract.DiscoveryEnv, Value: strings.ReplaceAll(string(question), "$", `\u0024`)}},
					Credential: server.Credentials.SecretRef, CredentialVolume: "credential",
				}),
			},
		},
	}
	j.Spec.Template.Spec.ActiveDeadlineSeconds = ptr(int64(within.Seconds()))
	if key := server.TLS.CABundle.ConfigMap; key.Name != "" {
		pod.Trust(&j.Spec.Template.Spec, []contract.CABundle{{File: contract.ToolCA(s.Name), Key: key}})
	}
	pod.Dress(j, pod.Queue(settings, s.Labels))
	return j, nil
}

func ptr[T any](v T) *T { return &v }
