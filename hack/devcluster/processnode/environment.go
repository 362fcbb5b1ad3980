package processnode

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcefield "k8s.io/kubernetes/pkg/api/v1/resource"
	podfield "k8s.io/kubernetes/pkg/apis/core/pods"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

// environment resolves the variables of the container in the order in which they
// are declared, each seeing those before it, as a kubelet does.
func (c *container) environment() (map[string]string, error) {
	ctx := context.Background()
	variables := map[string]string{}
	for _, source := range c.spec.EnvFrom {
		imported, err := c.importAll(ctx, source)
		if err != nil {
			return nil, err
		}
		for key, value := range imported {
			variables[source.Prefix+key] = value
		}
	}
	known := expansion.MappingFuncFor(variables)
	for _, variable := range c.spec.Env {
		if variable.ValueFrom == nil {
			variables[variable.Name] = expansion.Expand(variable.Value, known)
			continue
		}
		value, found, err := c.value(ctx, variable.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
		}
		if found {
			variables[variable.Name] = value
		}
	}
	return variables, nil
}

func (c *container) importAll(ctx context.Context, source corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case source.ConfigMapRef != nil:
		configMap, err := c.pod.configMap(ctx, source.ConfigMapRef.Name, source.ConfigMapRef.Optional)
		return configMap.Data, err
	case source.SecretRef != nil:
		secret, err := c.pod.secret(ctx, source.SecretRef.Name, source.SecretRef.Optional)
		data := map[string]string{}
		for key, value := range secret.Data {
			data[key] = string(value)
		}
		return data, err
	default:
		return nil, nil
	}
}

// value resolves one reference; found is false for an optional one to nothing.
func (c *container) value(ctx context.Context, source *corev1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case source.FieldRef != nil:
		value, err = c.pod.field(source.FieldRef)
		return value, true, err
	case source.ResourceFieldRef != nil:
		name := source.ResourceFieldRef.ContainerName
		if name == "" {
			name = c.spec.Name
		}
		value, err = resourcefield.ExtractResourceValueByContainerNameAndNodeAllocatable(source.ResourceFieldRef, c.pod.object, name, capacity())
		return value, true, err
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		configMap, err := c.pod.configMap(ctx, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		value, found = configMap.Data[ref.Key]
		return value, found, missing(found, ref.Optional, "couldn't find key %s in ConfigMap %s", ref.Key, ref.Name)
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		secret, err := c.pod.secret(ctx, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		content, found := secret.Data[ref.Key]
		return string(content), found, missing(found, ref.Optional, "couldn't find key %s in Secret %s", ref.Key, ref.Name)
	default:
		return "", false, fmt.Errorf("the process node does not support this kind of valueFrom")
	}
}

func missing(found bool, optional *bool, format string, arguments ...any) error {
	if found || optional != nil && *optional {
		return nil
	}
	return fmt.Errorf(format, arguments...)
}

// field is one of the pod's own, partly known only to its node.
func (p *pod) field(ref *corev1.ObjectFieldSelector) (string, error) {
	path, _, err := podfield.ConvertDownwardAPIFieldLabel(ref.APIVersion, ref.FieldPath, "")
	if err != nil {
		return "", err
	}
	switch path {
	case "spec.nodeName":
		return Name, nil
	case "spec.serviceAccountName":
		return p.object.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return cluster.Loopback, nil
	case "status.podIP", "status.podIPs":
		return p.address, nil
	default:
		return fieldpath.ExtractFieldPathAsString(p.object, path)
	}
}

// secret reads one of the pod's namespace; one that is optional and not there is empty.
func (p *pod) secret(ctx context.Context, name string, optional *bool) (*corev1.Secret, error) {
	secret, err := p.agent.client.CoreV1().Secrets(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return &corev1.Secret{}, nil
	}
	if err != nil {
		return &corev1.Secret{}, err
	}
	return secret, nil
}

// configMap reads one of the pod's namespace; one that is optional and not there is empty.
func (p *pod) configMap(ctx context.Context, name string, optional *bool) (*corev1.ConfigMap, error) {
	configMap, err := p.agent.client.CoreV1().ConfigMaps(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return &corev1.ConfigMap{}, nil
	}
	if err != nil {
		return &corev1.ConfigMap{}, err
	}
	return configMap, nil
}

// flatten is the form of variables a process gets, in a stable order.
func flatten(variables map[string]string) []string {
	var flat []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		flat = append(flat, name+"="+variables[name])
	}
	return flat
}

// expandAll replaces $(NAME) in arguments.
func expandAll(texts []string, variables map[string]string) []string {
	known := expansion.MappingFuncFor(variables)
	expanded := make([]string, len(texts))
	for i, text := range texts {
		expanded[i] = expansion.Expand(text, known)
	}
	return expanded
}

// lastName is the last part of a path or an image's name, without its tag.
func lastName(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}
