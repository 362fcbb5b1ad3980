package job

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/controllers/pod"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// keepSeconds is how long a Job is kept after its end, for people who look at its logs.
const keepSeconds = 3600

// AnnotationRun is the name of the run on its pods. It is an annotation because a name may be longer than a label's value.
const AnnotationRun = "ekiden.dev/run"

// Build is the Job of one attempt, with what the platform wants of its pods. It never retries by itself: lifecycle.Decide is the
// only place that does.
func Build(run *v1alpha1.AgentRun, k lifecycle.AttemptKey, t contract.Terms, image string, settings v1alpha1.PodSettings) *batchv1.Job {
	labels := map[string]string{
		v1alpha1.LabelRunUID:           string(run.UID),
		v1alpha1.LabelRootUID:          string(run.UID),
		v1alpha1.LabelSegment:          strconv.Itoa(k.Segment),
		v1alpha1.LabelAttempt:          strconv.Itoa(k.Attempt),
		"app.kubernetes.io/name":       "ekiden-segment",
		"app.kubernetes.io/managed-by": "ekiden",
	}
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(run.Name, run.UID, k),
			Namespace:       run.Namespace,
			Labels:          labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(run, v1alpha1.GroupVersion.WithKind("AgentRun"))},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:            new(int32),
			TTLSecondsAfterFinished: ptr[int32](keepSeconds),
			// A second pod beside one that still terminates would only wait for its lease.
			PodReplacementPolicy: ptr(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{AnnotationRun: run.Name}},
				Spec:       podOf(run, k, t, image),
			},
		},
	}
	pod.Dress(j, pod.Queue(settings, run.Labels))
	return j
}

func podOf(run *v1alpha1.AgentRun, k lifecycle.AttemptKey, t contract.Terms, image string) corev1.PodSpec {
	p := pod.Spec(pod.Work{
		Container: contract.SegmentContainer,
		Image:     image,
		Args:      []string{"--run=" + string(run.UID), "--segment=" + strconv.Itoa(k.Segment), "--attempt=" + strconv.Itoa(k.Attempt)},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: field("metadata.name")},
			{Name: "POD_UID", ValueFrom: field("metadata.uid")},
		},
		Credential: t.Credential, CredentialVolume: "model",
	})
	p.ActiveDeadlineSeconds = ptr(int64((lifecycle.StartWithin + t.PodTime()).Seconds()))
	if len(t.Tools) > 0 {
		pod.Mount(&p, toolVolume(t.Tools), contract.ToolDir, "--tool-credentials-dir="+contract.ToolDir)
	}
	pod.Trust(&p, t.CABundles)
	return p
}

// toolVolume holds a directory for each tool server, with its key. Optional, as the model's key is.
func toolVolume(keys []contract.ToolCredential) corev1.Volume {
	var sources []corev1.VolumeProjection
	for _, k := range keys {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: k.Key.Name},
			Items:                []corev1.KeyToPath{{Key: k.Key.Key, Path: k.Server + "/" + contract.CredentialFile}},
			Optional:             ptr(true),
		}})
	}
	return corev1.Volume{Name: "tools", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: ptr[int32](0o440)}}}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func ptr[T any](v T) *T { return &v }
