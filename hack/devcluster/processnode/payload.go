package processnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumehost "k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/secret"
	volumewriter "k8s.io/kubernetes/pkg/volume/util"
)

// payload is the content of a volume: its files by their paths in it.
type payload = map[string]volumewriter.FileProjection

func (v *volumes) payload(ctx context.Context, volume *corev1.Volume) (payload, error) {
	switch {
	case volume.Secret != nil:
		source := volume.Secret
		return v.secret(ctx, source.SecretName, source.Items, source.DefaultMode, source.Optional)
	case volume.ConfigMap != nil:
		source := volume.ConfigMap
		return v.configMap(ctx, source.Name, source.Items, source.DefaultMode, source.Optional)
	case volume.DownwardAPI != nil:
		return v.downward(volume.DownwardAPI.Items, volume.DownwardAPI.DefaultMode)
	case volume.Projected != nil:
		return v.projected(ctx, volume)
	default:
		return nil, errors.New("the process node does not support this kind of volume")
	}
}

func (v *volumes) secret(ctx context.Context, name string, items []corev1.KeyToPath, mode *int32, optional *bool) (payload, error) {
	source, err := v.pod.secret(ctx, name, optional)
	if err != nil {
		return nil, err
	}
	source.Name = name // Its errors name it, also where it is not there.
	return secret.MakePayload(items, source, mode, nil, optional != nil && *optional)
}

func (v *volumes) configMap(ctx context.Context, name string, items []corev1.KeyToPath, mode *int32, optional *bool) (payload, error) {
	source, err := v.pod.configMap(ctx, name, optional)
	if err != nil {
		return nil, err
	}
	source.Name = name
	return configmap.MakePayload(items, source, mode, nil, optional != nil && *optional)
}

// allocatable answers the one question the downward API asks a kubelet.
type allocatable struct{ volumehost.VolumeHost }

func (allocatable) GetNodeAllocatable() (corev1.ResourceList, error) { return capacity(), nil }

func (v *volumes) downward(items []corev1.DownwardAPIVolumeFile, mode *int32) (payload, error) {
	return downwardapi.CollectData(items, v.pod.object, allocatable{}, mode, nil)
}

func (v *volumes) projected(ctx context.Context, volume *corev1.Volume) (payload, error) {
	all, mode := payload{}, volume.Projected.DefaultMode
	for i, source := range volume.Projected.Sources {
		var part payload
		var err error
		switch {
		case source.Secret != nil:
			part, err = v.secret(ctx, source.Secret.Name, source.Secret.Items, mode, source.Secret.Optional)
		case source.ConfigMap != nil:
			part, err = v.configMap(ctx, source.ConfigMap.Name, source.ConfigMap.Items, mode, source.ConfigMap.Optional)
		case source.DownwardAPI != nil:
			part, err = v.downward(source.DownwardAPI.Items, mode)
		case source.ServiceAccountToken != nil:
			part, err = v.token(ctx, fmt.Sprintf("%s/%d", volume.Name, i), source.ServiceAccountToken)
		default:
			err = errors.New("the process node does not support this kind of projection")
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(all, part)
	}
	return all, nil
}

// issuedToken is used until it is time for the next one.
type issuedToken struct {
	token string
	renew time.Time
}

// token asks for one that is bound to the pod, and renews it when four fifths of
// its life are over, as a kubelet does.
func (v *volumes) token(ctx context.Context, key string, source *corev1.ServiceAccountTokenProjection) (payload, error) {
	issued := v.tokens[key]
	if time.Now().After(issued.renew) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: source.ExpirationSeconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: v.pod.object.Name, UID: v.pod.object.UID,
			},
		}}
		if source.Audience != "" {
			request.Spec.Audiences = []string{source.Audience}
		}
		now := time.Now()
		answer, err := v.pod.agent.client.CoreV1().ServiceAccounts(v.pod.object.Namespace).
			CreateToken(ctx, v.pod.object.Spec.ServiceAccountName, request, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		life := answer.Status.ExpirationTimestamp.Sub(now)
		issued = issuedToken{token: answer.Status.Token, renew: now.Add(min(life*4/5, 24*time.Hour))}
		v.tokens[key] = issued
	}
	// Closed to others whatever the volume's mode: all pods run as one user.
	return payload{filepath.Clean(source.Path): {Data: []byte(issued.token), Mode: 0o600}}, nil
}
