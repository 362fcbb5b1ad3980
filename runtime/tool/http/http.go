// Package http calls the tools of an HTTP API, as the object that describes the API says: an argument stands in the path,
// in the query or in the body.
//
//	arguments ──► request ──► response ──► Answer
//	                 │            │
//	                 └────────────┴──────► Fault
package http

import (
	"context"
	"errors"
	"io"
	nethttp "net/http"
	"net/url"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// Server is one HTTP API. It never changes once it is made.
type Server struct {
	server    v1alpha1.CompiledServer
	base      *url.URL
	transport *nethttp.Transport
}

var _ wire.Adapter = (*Server)(nil)

// New is the API of s, with the certificates of its bundle or nil. Nothing is dialled before the first call.
func New(s v1alpha1.CompiledServer, bundle []byte) (*Server, error) {
	base, err := wire.Endpoint(s)
	if err != nil {
		return nil, err
	}
	transport, err := wire.Transport(s, bundle)
	if err != nil {
		return nil, err
	}
	return &Server{server: s, base: base, transport: transport}, nil
}

// Close has nothing to take leave of.
func (s *Server) Close() { s.transport.CloseIdleConnections() }

// Prepare finds out whether the arguments make a request.
func (s *Server) Prepare(ctx context.Context, r wire.Request) error {
	_, err := s.request(ctx, r)
	return err
}

// Call makes the request and reads the answer.
func (s *Server) Call(ctx context.Context, r wire.Request) (wire.Answer, error) {
	var trace wire.Trace
	req, err := s.request(trace.Watch(ctx), r)
	if err != nil {
		return wire.Answer{}, err
	}
	// The transport itself, not a client around it: nothing here follows redirects, so the key stays with the host it
	// belongs to.
	res, err := s.transport.RoundTrip(req)
	if err != nil {
		return wire.Answer{}, wire.Interpret(err, trace.Sent())
	}
	defer res.Body.Close()
	if fault := wire.Indecisive(res.StatusCode, r.Tool.Effect); fault != nil {
		return wire.Answer{}, fault
	}
	return answer(res)
}

// answer reads the body. What is cut before its end is no answer, whatever its status says; what is longer than is
// read of any answer is cut by us.
func answer(res *nethttp.Response) (wire.Answer, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, wire.MaxAnswer))
	if err != nil {
		return wire.Answer{}, wire.Interpret(err, true)
	}
	size := max(int64(len(body)), res.ContentLength)
	if len(body) == wire.MaxAnswer && res.ContentLength < 0 {
		if n, err := io.CopyN(io.Discard, res.Body, 1); n > 0 || err != nil && !errors.Is(err, io.EOF) {
			size++ // It goes on. How far is not found out.
		}
	}
	a := wire.Answer{Text: shown(res.Header.Get("Content-Type"), body, size), Bytes: size}
	if res.StatusCode >= 300 {
		a.Failed = true
		said := a.Text
		a.Text = wire.Refusal(res.StatusCode)
		if said != "" {
			a.Text += ": " + said
		}
	}
	a.Bytes = max(a.Bytes, int64(len(a.Text)))
	return a, nil
}
