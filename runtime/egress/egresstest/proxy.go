// Package egresstest has what tests of a route go through and arrive at.
package egresstest

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is an HTTP proxy on the loopback that counts what it is asked for.
type Proxy struct {
	URL string
	// Connects counts tunnels, Forwards requests without one. Refuse is the status with which both are refused; zero lets them pass.
	Connects, Forwards atomic.Int64
	Refuse             int

	mu    sync.Mutex
	hosts []string
}

// Start starts a proxy.
func Start(t testing.TB) *Proxy {
	t.Helper()
	p := &Proxy{}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	p.URL = srv.URL
	return p
}

// Hosts are the hosts that were asked for, in order.
func (p *Proxy) Hosts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hosts
}

// ServeHTTP makes a tunnel, or forwards.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.hosts = append(p.hosts, r.Host)
	p.mu.Unlock()
	tunnel := r.Method == http.MethodConnect
	if tunnel {
		p.Connects.Add(1)
	} else {
		p.Forwards.Add(1)
	}
	switch {
	case p.Refuse != 0:
		w.WriteHeader(p.Refuse)
	case tunnel:
		connect(w, r)
	default:
		forward(w, r)
	}
}

// connect joins the two ends until one of them leaves. Every name leads to the loopback.
func connect(w http.ResponseWriter, r *http.Request) {
	_, port, _ := net.SplitHostPort(r.Host)
	there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	if _, err := io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{}, 2)
	for _, way := range []func(){
		func() { _, _ = io.Copy(there, buffered) }, // one end leaves, and that is the end
		func() { _, _ = io.Copy(here, there) },
	} {
		go func() {
			way()
			done <- struct{}{}
		}()
	}
	<-done
}

func forward(w http.ResponseWriter, r *http.Request) {
	_, port, _ := net.SplitHostPort(r.Host)
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Host = "", net.JoinHostPort("127.0.0.1", port)
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body) // a reader that is gone is none of the proxy's business
}

// Bundle is the certificate of the server's authority, in PEM. It stands for 127.0.0.1 and example.com.
func Bundle(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
