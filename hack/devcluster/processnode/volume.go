package processnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	volumewriter "k8s.io/kubernetes/pkg/volume/util"
)

// volumes lays out the volumes of a pod below its folder, each at volumes/NAME,
// with the same writer as a kubelet: files are links into a folder that is
// replaced in one step, so a reader never sees half of an update.
type volumes struct {
	pod    *pod
	folder string

	mu      sync.Mutex
	tokens  map[string]issuedToken // Those in the files now.
	removed bool
}

const (
	// remount is how often a volume that cannot be mounted is tried again.
	remount = 300 * time.Millisecond
	// renewal is how often the content of mounted volumes is brought up to date.
	renewal = 10 * time.Second
)

func newVolumes(p *pod) *volumes {
	return &volumes{pod: p, folder: filepath.Join(p.folder, "volumes"), tokens: map[string]issuedToken{}}
}

// mount returns when all volumes are there, or false when the pod has to end before.
func (v *volumes) mount() bool {
	said := ""
	for {
		err := v.write()
		if err == nil {
			return true
		}
		if err.Error() != said {
			said = err.Error()
			v.pod.event(corev1.EventTypeWarning, "FailedMount", "%s", said)
		}
		if !v.pod.order.wait(remount) {
			return false
		}
	}
}

// refresh follows changes of Secrets and ConfigMaps and renews tokens until the
// pod has ended. A source that has disappeared leaves its last content.
func (v *volumes) refresh() {
	ticker := time.NewTicker(renewal)
	defer ticker.Stop()
	for {
		select {
		case <-v.pod.ended:
			return
		case <-v.pod.order.given:
			return
		case <-ticker.C:
		}
		if err := v.write(); err != nil {
			klog.V(2).InfoS("A volume was not brought up to date", "pod", klog.KObj(v.pod.object), "err", err)
		}
	}
}

// remove takes everything away; a refresh that is late writes nothing any more.
func (v *volumes) remove() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.removed = true
	_ = os.RemoveAll(v.folder)
}

func (v *volumes) write() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.removed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i := range v.pod.object.Spec.Volumes {
		volume := &v.pod.object.Spec.Volumes[i]
		if err := v.writeOne(ctx, volume); err != nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q: %w", volume.Name, err)
		}
	}
	return nil
}

func (v *volumes) writeOne(ctx context.Context, volume *corev1.Volume) error {
	if volume.HostPath != nil {
		return nil // It is its own path.
	}
	folder := filepath.Join(v.folder, volume.Name)
	if volume.EmptyDir != nil {
		return os.MkdirAll(folder, 0o700)
	}
	payload, err := v.payload(ctx, volume)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	writer, err := volumewriter.NewAtomicWriter(folder, "pod "+v.pod.object.Name)
	if err != nil {
		return err
	}
	return writer.Write(payload, nil)
}

// path is where the named volume is on this machine.
func (v *volumes) path(name string) (string, error) {
	for i := range v.pod.object.Spec.Volumes {
		volume := &v.pod.object.Spec.Volumes[i]
		if volume.Name != name {
			continue
		}
		if volume.HostPath != nil {
			return filepath.Clean(volume.HostPath.Path), nil
		}
		return filepath.Join(v.folder, name), nil
	}
	return "", fmt.Errorf("the pod has no volume %s", name)
}
