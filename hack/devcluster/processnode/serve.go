package processnode

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

// apiServerName is in the certificate the API server shows to nodes.
const apiServerName = "apiserver-kubelet-client"

// serve answers the API server, and nobody else, on the node's port.
func (a *Agent) serve(ctx context.Context) error {
	security, err := a.security()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(cluster.Loopback, strconv.Itoa(a.config.Port)))
	if err != nil {
		return fmt.Errorf("listening for the API server: %w", err)
	}
	server := &http.Server{Handler: a.routes(), TLSConfig: security, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "Serving the API server")
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

func (a *Agent) security() (*tls.Config, error) {
	pki := a.config.Dir.PKI()
	certificate, err := tls.LoadX509KeyPair(pki+"/node-server.crt", pki+"/node-server.key")
	if err != nil {
		return nil, fmt.Errorf("loading the node's certificate: %w", err)
	}
	authority, err := os.ReadFile(pki + "/ca.crt")
	if err != nil {
		return nil, fmt.Errorf("loading the authority's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; name != apiServerName {
				return fmt.Errorf("%s may not read logs here", name)
			}
			return nil
		},
	}, nil
}

func (a *Agent) routes() http.Handler {
	known := func(context.Context) ([]*corev1.Pod, error) {
		var pods []*corev1.Pod
		for _, object := range a.informer.GetStore().List() {
			pods = append(pods, object.(*corev1.Pod))
		}
		return pods, nil
	}
	return api.PodHandler(api.PodHandlerConfig{
		GetContainerLogs:      a.containerLogs,
		GetPods:               known,
		GetPodsFromKubernetes: known,
		RunInContainer: func(context.Context, string, string, string, []string, api.AttachIO) error {
			return errors.New("exec is not supported by the process node")
		},
		AttachToContainer: func(context.Context, string, string, string, api.AttachIO) error {
			return errors.New("attach is not supported by the process node")
		},
		PortForward: func(context.Context, string, string, int32, io.ReadWriteCloser) error {
			return errors.New("port-forward is not supported by the process node: connect to the pod's address, which is local")
		},
		StreamIdleTimeout: time.Minute, StreamCreationTimeout: 30 * time.Second,
	}, false)
}
