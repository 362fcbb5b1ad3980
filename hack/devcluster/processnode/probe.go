package processnode

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probe asks a run of a container whether it is ready until it ends. Liveness
// and startup probes are not asked: a process that hangs is to be looked at.
func (c *container) probe(p *process) {
	probe := c.spec.ReadinessProbe
	if probe == nil || c.init {
		return
	}
	ticker := time.NewTicker(max(time.Duration(probe.PeriodSeconds)*time.Second, time.Second) / 4)
	defer ticker.Stop()
	failures := int32(0)
	for {
		select {
		case <-p.done:
			return
		case <-c.pod.order.given:
			return
		case <-ticker.C:
		}
		if c.asks(probe) {
			failures = 0
			c.setReady(p, true)
		} else if failures++; failures >= probe.FailureThreshold {
			c.setReady(p, false)
		}
	}
}

func (c *container) setReady(p *process, ready bool) {
	c.mu.Lock()
	changed := c.process == p && c.ready != ready
	if changed {
		c.ready = ready
	}
	c.mu.Unlock()
	if !changed {
		return
	}
	c.change(func(status *corev1.ContainerStatus) {
		if status.State.Running != nil {
			status.Ready = ready
		}
	})
}

// asks makes one attempt. What cannot be asked of a process counts as ready.
func (c *container) asks(probe *corev1.Probe) bool {
	ctx, cancel := context.WithTimeout(context.Background(), max(time.Duration(probe.TimeoutSeconds)*time.Second, time.Second))
	defer cancel()
	switch {
	case probe.HTTPGet != nil:
		return c.answers(ctx, probe.HTTPGet)
	case probe.TCPSocket != nil:
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", c.endpoint(probe.TCPSocket.Host, probe.TCPSocket.Port))
		if err != nil {
			return false
		}
		_ = connection.Close()
		return true
	default:
		return true
	}
}

func (c *container) answers(ctx context.Context, get *corev1.HTTPGetAction) bool {
	scheme := "http"
	if get.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+c.endpoint(get.Host, get.Port)+"/"+trimSlash(get.Path), nil)
	if err != nil {
		return false
	}
	for _, header := range get.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	// As a kubelet: a probe does not check the certificate, and never reuses a connection.
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // See above.
		DisableKeepAlives: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode >= 200 && response.StatusCode < 400
}

// endpoint is where the container listens, by number or by name of the port.
func (c *container) endpoint(host string, port intstr.IntOrString) string {
	if host == "" {
		host = c.pod.address
	}
	number := port.IntValue()
	for _, declared := range c.spec.Ports {
		if port.Type == intstr.String && declared.Name == port.StrVal {
			number = int(declared.ContainerPort)
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(number))
}

func trimSlash(path string) string {
	for len(path) > 0 && path[0] == '/' {
		path = path[1:]
	}
	return path
}
