package toolserver

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ekiden-dev/ekiden/test/serve"
)

// Start starts a server that lives as long as the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	srv := New(o)
	h := serve.Start(t, srv)
	srv.URL = h.URL
	srv.quit = func() { _ = h.Listener.Close(); h.CloseClientConnections() }
	srv.up = func() {
		t.Helper()
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", h.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		again := &httptest.Server{Listener: l, Config: &http.Server{Handler: srv, ReadHeaderTimeout: time.Minute}}
		again.Start()
		t.Cleanup(func() {
			srv.Stop()
			again.CloseClientConnections()
			again.Close()
		})
	}
	t.Cleanup(func() {
		srv.Stop()
		h.CloseClientConnections()
		h.Close()
	})
	return srv
}

// Quit stops a server that Start started from taking connections, as one that goes down.
func (s *Server) Quit() { s.quit() }

// Return has a server that has quit take connections again, at its old address.
func (s *Server) Return() { s.up() }
