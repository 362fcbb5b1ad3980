// Package pod lays out what every pod that the manager has made has in common: no credentials of Kubernetes, no rights, no file
// that it may write but its termination message. It meets the strictest of the Pod Security Standards. It is pure.
package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// user is who the process is. It owns nothing, and reads what is mounted by its group.
const user = 65532

// Work is what one pod is for.
type Work struct {
	// Container is the name of its only container, Image the image of it.
	Container, Image string
	// Args are the command line but for where Postgres, the credential and the termination message are.
	Args []string
	Env  []corev1.EnvVar
	// Credential is a key to mount under the name of a volume; zero means none.
	Credential       v1alpha1.KeyReference
	CredentialVolume string
}

// Spec is the pod for the work. Whoever needs more mounts them with Mount; Dress gives it what the platform wants besides.
func Spec(w Work) corev1.PodSpec {
	p := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  new(bool),
		EnableServiceLinks:            new(bool),
		TerminationGracePeriodSeconds: ptr(int64(contract.StopGrace.Seconds())),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr(true),
			RunAsUser:      ptr[int64](user),
			RunAsGroup:     ptr[int64](user),
			FSGroup:        ptr[int64](user),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name:                   w.Container,
			Image:                  w.Image,
			Args:                   append(w.Args, "--dsn-file="+contract.PostgresDir+"/"+contract.PostgresKey, "--termination-log="+contract.TerminationLog),
			Env:                    w.Env,
			TerminationMessagePath: contract.TerminationLog,
			// Never the log: it may hold words of models and servers, which whoever may see a status need not be shown.
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(bool),
				ReadOnlyRootFilesystem:   ptr(true),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
	Mount(&p, secret("postgres", contract.PostgresSecret, contract.PostgresKey, contract.PostgresKey, false), contract.PostgresDir)
	if w.Credential.Name != "" {
		// Optional, so that the process can say which key is missing; a required one would leave the pod waiting without a word.
		Mount(&p, secret(w.CredentialVolume, w.Credential.Name, w.Credential.Key, contract.CredentialFile, true), contract.CredentialDir,
			"--credential-file="+contract.CredentialDir+"/"+contract.CredentialFile)
	}
	return p
}

// Trust mounts bundles of certificates. Optional, as keys are.
func Trust(p *corev1.PodSpec, bundles []contract.CABundle) {
	if len(bundles) == 0 {
		return
	}
	var sources []corev1.VolumeProjection
	for _, b := range bundles {
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: b.Key.Name},
			Items:                []corev1.KeyToPath{{Key: b.Key.Key, Path: b.File}},
			Optional:             ptr(true),
		}})
	}
	Mount(p, corev1.Volume{Name: "ca", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: ptr[int32](0o440)}}},
		contract.CADir, "--ca-dir="+contract.CADir)
}

// Mount adds a volume, to be read, and the arguments that tell of it.
func Mount(p *corev1.PodSpec, v corev1.Volume, path string, args ...string) {
	c := &p.Containers[0]
	p.Volumes = append(p.Volumes, v)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: path, ReadOnly: true})
	c.Args = append(c.Args, args...)
}

func secret(name, secret, key, path string, optional bool) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, Items: []corev1.KeyToPath{{Key: key, Path: path}},
		DefaultMode: ptr[int32](0o440), Optional: ptr(optional),
	}}}
}

func ptr[T any](v T) *T { return &v }
