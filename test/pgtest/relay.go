package pgtest

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// relay carries connections to a server, and knows which are open.
type relay struct {
	server   string
	listener net.Listener
	mu       sync.Mutex
	open     map[net.Conn]struct{}
}

// newRelay listens before the server that the DSN leads to, and tells the DSN that leads through it. The connections and the listener
// end with the test.
func newRelay(t testing.TB, dsn string) (*relay, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{server: u.Host, listener: l, open: map[net.Conn]struct{}{}}
	u.Host = l.Addr().String()
	t.Cleanup(func() { _ = l.Close(); r.cut() })
	return r, u.String()
}

// serve hands each connection and its counterpart to carry, which calls end when either is over. What admit is false for is closed at once.
func (r *relay) serve(admit func() bool, carry func(client, server net.Conn, end func())) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		if !admit() {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.open[client], r.open[server] = struct{}{}, struct{}{}
		r.mu.Unlock()
		carry(client, server, func() {
			_ = client.Close()
			_ = server.Close()
			r.mu.Lock()
			delete(r.open, client)
			delete(r.open, server)
			r.mu.Unlock()
		})
	}
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		_ = c.Close()
	}
}
