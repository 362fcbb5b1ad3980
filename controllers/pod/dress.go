package pod

import (
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// QueueLabels are those by which Kueue takes a Job. They are for the Job alone: on a pod they would have it queued once more.
var QueueLabels = []string{"kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"}

// Queue lays the queue labels of the object that a Job is made for over the settings: who asks for a run may choose among the
// queues of its namespace, as for any other Job.
func Queue(s v1alpha1.PodSettings, object map[string]string) v1alpha1.PodSettings {
	own := map[string]v1alpha1.PodLabelValue{}
	for _, key := range QueueLabels {
		if value := object[key]; value != "" {
			own[key] = v1alpha1.PodLabelValue(value)
		}
	}
	s.Labels = over(s.Labels, own)
	return s
}

// Dress gives a Job and its pods what the platform wants of them. What the Job says already stays as it is: the schema keeps
// settings from such names, and nothing they say could loosen what a pod is.
func Dress(j *batchv1.Job, s v1alpha1.PodSettings) {
	t := &j.Spec.Template
	labels := words(s.Labels)
	j.Labels = over(labels, j.Labels)
	t.Labels = over(without(labels, QueueLabels), t.Labels)
	t.Annotations = over(words(s.Annotations), t.Annotations)
	p := &t.Spec
	p.ServiceAccountName = s.ServiceAccountName
	p.NodeSelector = words(s.NodeSelector)
	p.PriorityClassName = s.PriorityClassName
	if s.RuntimeClassName != "" {
		p.RuntimeClassName = ptr(s.RuntimeClassName)
	}
	for _, r := range s.ImagePullSecrets {
		p.ImagePullSecrets = append(p.ImagePullSecrets, corev1.LocalObjectReference{Name: r.Name})
	}
	for _, t := range s.Tolerations {
		p.Tolerations = append(p.Tolerations, toleration(t))
	}
	c := &p.Containers[0]
	c.Resources = corev1.ResourceRequirements{Requests: list(s.Resources.Requests), Limits: list(s.Resources.Limits)}
	for _, e := range s.Env {
		if !slices.ContainsFunc(c.Env, func(own corev1.EnvVar) bool { return own.Name == e.Name }) {
			// Kubernetes would expand $(NAME), and takes $$ for one $.
			c.Env = append(c.Env, corev1.EnvVar{Name: e.Name, Value: strings.ReplaceAll(e.Value, "$", "$$")})
		}
	}
}

// words are the values as Kubernetes has them.
func words[V ~string](m map[string]V) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		out[key] = string(value)
	}
	return out
}

func without(labels map[string]string, keys []string) map[string]string {
	out := maps.Clone(labels)
	for _, key := range keys {
		delete(out, key)
	}
	return out
}

func toleration(t v1alpha1.PodToleration) corev1.Toleration {
	out := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
	if t.TolerationSeconds != nil {
		out.TolerationSeconds = ptr(int64(*t.TolerationSeconds))
	}
	return out
}

func list(amounts map[string]resource.Quantity) corev1.ResourceList {
	if len(amounts) == 0 {
		return nil
	}
	out := corev1.ResourceList{}
	for name, amount := range amounts {
		out[corev1.ResourceName(name)] = amount
	}
	return out
}
