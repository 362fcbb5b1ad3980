package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/egress"
)

// MaxAnswer is the most bytes of one answer that are read.
const MaxAnswer = 8 << 20

// IdempotencyHeader is the header in which the key of a call travels.
const IdempotencyHeader = "Idempotency-Key"

// Transport takes the server's route; the bundle is what of spec.tls is mounted, or nil. Each request gets a connection of its own, and HTTP/1: the client of
// the standard library repeats a request with an Idempotency-Key by itself when a connection that it had used before
// breaks, whether or not the server honours the key. It never does so on a connection's first request.
func Transport(s v1alpha1.CompiledServer, bundle []byte) (*http.Transport, error) {
	route, err := egress.NewRoute(s.Egress, s.Proxy, bundle)
	if err != nil {
		return nil, fmt.Errorf("ToolServer %s: %w", s.Name, err)
	}
	one := new(http.Protocols)
	one.SetHTTP1(true)
	t := &http.Transport{
		TLSHandshakeTimeout:    10 * time.Second,
		DisableKeepAlives:      true,
		Protocols:              one,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true, // What inflates has no size that could be bounded.
	}
	route.Equip(t)
	return t, nil
}

// Endpoint is the server's URL.
func Endpoint(s v1alpha1.CompiledServer) (*url.URL, error) {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the URL of ToolServer %s does not parse", s.Name) // The error would repeat the URL, and whatever hides in it.
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, fmt.Errorf("the URL of ToolServer %s must be an absolute http or https URL", s.Name)
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return nil, fmt.Errorf("the URL of ToolServer %s must have no user, query or fragment", s.Name)
	}
	return u, nil
}

// Headers are the headers that the server asks for in each request, the secret among them.
func Headers(s v1alpha1.CompiledServer, secret string) http.Header {
	h := http.Header{}
	h.Set("User-Agent", "ekiden")
	for _, extra := range s.Headers {
		if httpguts.ValidHeaderFieldName(extra.Name) && httpguts.ValidHeaderFieldValue(extra.Value) {
			h.Set(extra.Name, extra.Value)
		}
	}
	if name, value := Credential(s.Credentials, secret); name != "" {
		h.Set(name, value)
	}
	return h
}

// Credential is the header in which the secret travels, and its value. Empty if the server wants none.
func Credential(c v1alpha1.Credentials, secret string) (name, value string) {
	if c == (v1alpha1.Credentials{}) {
		return "", ""
	}
	name, prefix := c.Header, c.Prefix
	if name == "" {
		name = "Authorization"
	}
	if prefix == "" && http.CanonicalHeaderKey(name) == "Authorization" {
		prefix = "Bearer "
	}
	return name, prefix + secret
}

// CheckSecret is nil for a secret that can travel in a header.
func CheckSecret(c v1alpha1.Credentials, secret string) error {
	name, value := Credential(c, secret)
	if name != "" && (!httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value)) {
		return errors.New("it cannot be sent in a header: it holds control characters")
	}
	return nil
}

// Trace watches one request. It may be read once the request has ended.
type Trace struct{ connected atomic.Bool }

// Watch is a context for the one request that t watches.
func (t *Trace) Watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { t.connected.Store(true) }})
}

// Sent reports whether something of the request may have been sent: there was a connection, and TLS on it if asked for.
// What of it was written is not asked, because what lies in buffers may still leave.
func (t *Trace) Sent() bool { return t.connected.Load() }
