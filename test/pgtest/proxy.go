package pgtest

import (
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// Proxy stands between a client and the server. It counts transactions, whoever the client is, and loses answers: the
// server has committed and the client does not know.
type Proxy struct {
	// DSN leads through the proxy.
	DSN string

	*relay
	ready   atomic.Int64 // ReadyForQuery outside a transaction
	started atomic.Int64 // sessions, each of which begins with one
	lose    atomic.Int64 // counts down to the transaction that is not answered
	sent    atomic.Int64 // bytes from client to server
	refuse  atomic.Bool
	silent  atomic.Bool
}

// NewProxy makes a proxy to where the DSN leads. The DSN must be one of this package, without TLS.
func NewProxy(t testing.TB, dsn string) *Proxy {
	t.Helper()
	r, through := newRelay(t, dsn)
	p := &Proxy{DSN: through, relay: r}
	go p.serve(func() bool { return !p.refuse.Load() }, func(client, server net.Conn, end func()) {
		go func() { _, _ = io.Copy(io.MultiWriter((*counter)(&p.sent), server), client); end() }()
		go func() { p.answers(client, server); end() }()
	})
	return p
}

// Transactions is how many transactions have ended.
func (p *Proxy) Transactions() int { return int(p.ready.Load() - p.started.Load()) }

// Sent is how many bytes clients have sent, greetings included.
func (p *Proxy) Sent() int64 { return p.sent.Load() }

// Lose lets a transaction reach the server, waits until it was carried out, and cuts the connection instead of telling.
// It is the one after so many that are answered.
func (p *Proxy) Lose(after int) { p.lose.Store(int64(after) + 1) }

// Refuse says whether new connections are closed at once.
func (p *Proxy) Refuse(yes bool) { p.refuse.Store(yes) }

// Silence says whether answers are kept back, while every connection stands: a host that is gone.
func (p *Proxy) Silence(yes bool) { p.silent.Store(yes) }

// Cut closes all connections.
func (p *Proxy) Cut() { p.cut() }

// answers passes on what the server says, up to and including each ReadyForQuery at once.
func (p *Proxy) answers(client io.Writer, server io.Reader) {
	var held []byte
	greeted := false
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(server, head); err != nil {
			_, _ = client.Write(held)
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		held = append(append(held, head...), body...)
		if kind := head[0]; kind == 'Z' && body[0] == 'I' {
			if !greeted {
				greeted = true
				p.started.Add(1)
			} else if p.lose.Add(-1) == 0 {
				p.ready.Add(1)
				return
			}
			p.ready.Add(1)
		} else if greeted && kind != 'Z' && kind != 'E' {
			continue // the client learns nothing before the transaction has ended
		}
		if p.silent.Load() {
			held = held[:0]
			continue
		}
		if _, err := client.Write(held); err != nil {
			return
		}
		held = held[:0]
	}
}

// counter counts the bytes that are written to it.
type counter atomic.Int64

func (c *counter) Write(b []byte) (int, error) {
	(*atomic.Int64)(c).Add(int64(len(b)))
	return len(b), nil
}
