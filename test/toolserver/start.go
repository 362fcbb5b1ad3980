package toolserver

import (
	"net/http/httptest"
	"testing"
)

// Start starts a server that lives as long as the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	srv := New(o)
	h := httptest.NewServer(srv)
	srv.URL = h.URL
	srv.quit = func() { _ = h.Listener.Close(); h.CloseClientConnections() }
	t.Cleanup(func() {
		srv.Stop()
		h.CloseClientConnections()
		h.Close()
	})
	return srv
}

// Quit stops a server that Start started from taking connections, as one that goes down. It does not come back.
func (s *Server) Quit() { s.quit() }
