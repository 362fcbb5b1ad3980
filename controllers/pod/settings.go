package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// BuiltIn is what every pod gets where nobody says otherwise.
func BuiltIn() v1alpha1.PodSettings {
	return v1alpha1.PodSettings{Resources: v1alpha1.PodResources{
		Requests: map[string]resource.Quantity{string(corev1.ResourceCPU): resource.MustParse("20m"), string(corev1.ResourceMemory): resource.MustParse("48Mi")},
		Limits:   map[string]resource.Quantity{string(corev1.ResourceMemory): resource.MustParse("256Mi")},
	}}
}

// Merge lays layers over each other, the weakest first:
//
//	BuiltIn ◄ --pod-defaults-file ◄ AgentPolicy of the manager's namespace ◄ AgentPolicy of the pod's namespace
//
// Of a single value the last that is set counts. Maps, resources among them, are merged key by key, variables and image pull
// secrets by their names, and tolerations add up. Equal layers give an equal result, in the same order: two managers make the same Job.
func Merge(layers ...v1alpha1.PodSettings) v1alpha1.PodSettings {
	var out v1alpha1.PodSettings
	for _, l := range layers {
		later(&out.ServiceAccountName, l.ServiceAccountName)
		later(&out.RuntimeClassName, l.RuntimeClassName)
		later(&out.PriorityClassName, l.PriorityClassName)
		out.NodeSelector = over(out.NodeSelector, l.NodeSelector)
		out.Labels = over(out.Labels, l.Labels)
		out.Annotations = over(out.Annotations, l.Annotations)
		out.Resources.Requests = over(out.Resources.Requests, l.Resources.Requests)
		out.Resources.Limits = over(out.Resources.Limits, l.Resources.Limits)
		out.Env = named(out.Env, l.Env, func(e v1alpha1.PodEnv) string { return e.Name })
		out.ImagePullSecrets = named(out.ImagePullSecrets, l.ImagePullSecrets, func(r v1alpha1.LocalReference) string { return r.Name })
		for _, t := range l.Tolerations {
			if !slices.ContainsFunc(out.Tolerations, func(o v1alpha1.PodToleration) bool { return same(o, t) }) {
				out.Tolerations = append(out.Tolerations, t)
			}
		}
	}
	return out
}

func later(to *string, from string) {
	if from != "" {
		*to = from
	}
}

// over is the upper map laid over the lower one. Neither is changed: they may be a cache's.
func over[V any](lower, upper map[string]V) map[string]V {
	if len(upper) == 0 {
		return lower
	}
	out := make(map[string]V, len(lower)+len(upper))
	maps.Copy(out, lower)
	maps.Copy(out, upper)
	return out
}

// named is the lower list with those of the upper one in the place of their namesakes, and the rest of them behind.
func named[T any](lower, upper []T, name func(T) string) []T {
	out := slices.Clone(lower)
	for _, u := range upper {
		if i := slices.IndexFunc(out, func(l T) bool { return name(l) == name(u) }); i >= 0 {
			out[i] = u
		} else {
			out = append(out, u)
		}
	}
	return out
}

func same(a, b v1alpha1.PodToleration) bool {
	if a.TolerationSeconds != nil && b.TolerationSeconds != nil && *a.TolerationSeconds != *b.TolerationSeconds ||
		(a.TolerationSeconds == nil) != (b.TolerationSeconds == nil) {
		return false
	}
	a.TolerationSeconds, b.TolerationSeconds = nil, nil
	return a == b
}
