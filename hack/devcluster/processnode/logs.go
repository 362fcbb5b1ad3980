package processnode

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// containerLogs opens the output of a container for `kubectl logs`.
func (a *Agent) containerLogs(ctx context.Context, namespace, name, container string, options api.ContainerLogOpts) (io.ReadCloser, error) {
	object, exists, err := a.informer.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !exists {
		return nil, errdefs.NotFoundf("pod %s/%s is not on this node", namespace, name)
	}
	a.mu.Lock()
	p := a.pods[object.(*corev1.Pod).UID]
	a.mu.Unlock()
	if p == nil { // It had ended before this node was started; only its logs are here.
		p = &pod{agent: a, object: object.(*corev1.Pod)}
	}
	folder := filepath.Join(p.logs(), container)
	runs, _ := filepath.Glob(filepath.Join(folder, "*.log"))
	number := len(runs) - 1
	if options.Previous {
		number--
	}
	if number < 0 {
		return nil, errdefs.NotFoundf("container %s of pod %s has not run", container, name)
	}
	file, err := os.Open(logFile(folder, number))
	if err != nil {
		return nil, err
	}
	if err := skip(file, options.Tail); err != nil {
		_ = file.Close()
		return nil, err
	}
	log := &logReader{file: file, ctx: ctx, limit: -1}
	if options.LimitBytes > 0 {
		log.limit = options.LimitBytes
	}
	if options.Follow && !options.Previous {
		log.running = p.running(container, number)
	}
	return log, nil
}

// running is open while that run of the container is.
func (p *pod) running(container string, number int) <-chan struct{} {
	if c := p.containers[container]; c != nil {
		if latest := c.latest(); latest != nil && latest.number == number {
			return latest.done
		}
	}
	return nil
}

// skip moves to the last lines of the file; 0 means all of them.
func skip(file *os.File, lines int) error {
	if lines <= 0 {
		return nil
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	_, err = file.Seek(int64(len(content)-len(lastLines(content, lines))), io.SeekStart)
	return err
}

// lastLines returns the end of the content that holds that many lines.
func lastLines(content []byte, lines int) []byte {
	end := len(bytes.TrimSuffix(content, []byte("\n")))
	start := end
	for range lines {
		start = bytes.LastIndexByte(content[:start], '\n')
		if start < 0 {
			return content
		}
	}
	return content[start+1:]
}

// logReader reads a log to its end, and while the container runs waits for more.
type logReader struct {
	file    *os.File
	ctx     context.Context //nolint:containedctx // A Read has no context of its own.
	running <-chan struct{} // nil: do not wait.
	limit   int             // Bytes still to give; negative means all.
}

func (r *logReader) Read(into []byte) (int, error) {
	if r.limit == 0 {
		return 0, io.EOF
	}
	if r.limit > 0 {
		into = into[:min(len(into), r.limit)]
	}
	for {
		n, err := r.file.Read(into)
		if r.limit > 0 {
			r.limit -= n
		}
		if n > 0 || err != io.EOF || r.running == nil {
			return n, err
		}
		select {
		case <-r.running:
			r.running = nil // Once more: what it wrote before it ended.
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (r *logReader) Close() error { return r.file.Close() }
