package modelserver

import (
	"testing"

	"github.com/ekiden-dev/ekiden/test/serve"
)

// Start starts a server that lives as long as the test. The test fails if a request breaks the protocol.
func Start(t testing.TB, s Script) *Server {
	t.Helper()
	srv := StartLenient(t, s)
	t.Cleanup(func() {
		for _, e := range srv.Report().Log {
			if e.Violation != "" {
				t.Errorf("request %d of %q broke the protocol: %s", e.N, clip(e.Key, 80), e.Violation)
			}
		}
	})
	return srv
}

// StartLenient is Start for tests that break the protocol on purpose.
func StartLenient(t testing.TB, s Script) *Server {
	t.Helper()
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	srv := New(s, nil)
	h := serve.Start(t, srv)
	srv.URL = h.URL + "/v1"
	t.Cleanup(func() {
		srv.Stop()
		h.CloseClientConnections()
		h.Close()
	})
	return srv
}
