// Package serve starts the servers of tests where those who call them reach them.
package serve

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Host is the address on which they listen: the loopback, unless pods that have a network of their own are to reach them. It is
// set before the first test.
var Host = "127.0.0.1"

// Start starts a server that is closed by whoever started it.
func Start(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(Host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	return server
}
