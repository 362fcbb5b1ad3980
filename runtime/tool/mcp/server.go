// Package mcp calls the tools of servers of the Model Context Protocol over streamable HTTP.
//
//	Prepare ──► session: connect, list, compare ──► Call ──► carrier ──► the wire
//	                         │                        │          │
//	                         └────────────────────────┴──────────┴──► interpret ──► Fault
//
// What the client of the protocol says about a failed call does not tell whether the call was sent: it takes every failure
// of a request for one that never left. So the carrier below the client watches the one request that carries the call,
// and interpret believes what the carrier saw. The carrier also sends no call twice, whatever the client wants.
package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// MetaKey is the field of a call's _meta in which its Idempotency-Key travels, beside the header.
const MetaKey = "ekiden.dev/idempotency-key"

// leave bounds the farewell to all sessions.
const leave = 2 * time.Second

// Server is one MCP server. It holds at most one session at a time and makes a new one when that is lost.
type Server struct {
	server  v1alpha1.CompiledServer
	carrier *carrier

	// busy holds a token while a session is being made.
	busy chan struct{}
	mu   sync.Mutex
	// current is the session in use, or nil. lost are those that were given up; nobody waits for them before Close.
	current *session
	lost    []*session
}

var _ wire.Adapter = (*Server)(nil)

// New is the server s, with the certificates of its bundle or nil. Nothing is dialled before the first call.
func New(s v1alpha1.CompiledServer, bundle []byte) (*Server, error) {
	if _, err := wire.Endpoint(s); err != nil {
		return nil, err
	}
	transport, err := wire.Transport(s, bundle)
	if err != nil {
		return nil, err
	}
	return &Server{server: s, carrier: &carrier{transport: transport}, busy: make(chan struct{}, 1)}, nil
}

// Prepare makes sure that there is a session and that its server offers the tool as it was.
func (s *Server) Prepare(ctx context.Context, r wire.Request) error {
	_, err := s.ready(ctx, r)
	return err
}

// Call sends the call once.
func (s *Server) Call(ctx context.Context, r wire.Request) (wire.Answer, error) {
	in, err := s.ready(ctx, r)
	if err != nil {
		return wire.Answer{}, err
	}
	x := &exchange{header: wire.Headers(s.server, r.Secret), key: r.Key}
	res, err := in.client.CallTool(x.on(ctx), &sdk.CallToolParams{
		Meta: sdk.Meta{MetaKey: r.Key}, Name: r.Tool.Tool, Arguments: json.RawMessage(r.Arguments),
	})
	if err == nil {
		return answer(res), nil
	}
	a, err, sound := interpret(x.seen(), r.Tool.Effect, err)
	if !sound {
		s.lose(in)
	}
	return a, err
}

// ready is a session whose server offers the tool as it was.
func (s *Server) ready(ctx context.Context, r wire.Request) (*session, error) {
	in, err := s.session(ctx, r.Secret)
	if err != nil {
		return nil, err
	}
	switch digest, offered := in.digests[r.Tool.Tool]; {
	case !offered:
		return nil, &wire.ChangedError{Server: s.server.Name, Tool: r.Tool.Tool, Gone: true}
	case digest != r.Tool.Digest:
		return nil, &wire.ChangedError{Server: s.server.Name, Tool: r.Tool.Tool}
	}
	return in, nil
}

// session is the session in use, or a new one.
func (s *Server) session(ctx context.Context, secret string) (*session, error) {
	if in := s.inUse(); in != nil {
		return in, nil
	}
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return nil, wire.Interpret(ctx.Err(), false)
	}
	if in := s.inUse(); in != nil {
		return in, nil
	}
	in, err := open(ctx, s.server, s.carrier, secret)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = in
	return in, nil
}

func (s *Server) inUse() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// lose gives a session up. It is closed later: closing waits for the calls of others.
func (s *Server) lose(in *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == in {
		s.current = nil
		s.lost = append(s.lost, in)
	}
}

// Close takes leave of all sessions, within bounds.
func (s *Server) Close() {
	s.mu.Lock()
	open := s.lost
	if s.current != nil {
		open = append(open, s.current)
	}
	s.current, s.lost = nil, nil
	s.mu.Unlock()

	gone := make(chan struct{})
	go func() { // ends by itself: the client bounds its farewells
		var all sync.WaitGroup
		for _, in := range open {
			all.Go(in.close)
		}
		all.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(leave):
	}
	s.carrier.transport.CloseIdleConnections()
}

func httpClient(c *carrier) *http.Client {
	return &http.Client{
		Transport: c,
		// A redirect would take the key to a host that it does not belong to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
