// Package openai asks models that speak Chat Completions, the protocol of OpenAI and of the many servers that are
// compatible with it to different degrees. It is written against what those servers send rather than what the
// protocol says, and keeps the assistant's message whole, so that fields it does not know survive the replay.
//
//	prompt ──► request ──► events ──► message ──► Answer
//	             │           │          │
//	             └───────────┴──────────┴───────► CallError, by status and type
//
// It speaks net/http directly: no retries, no redirects, no proxy and nothing from the environment.
package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/egress"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// Client asks one model at one endpoint. It never changes once it is made and is for concurrent use.
type Client struct {
	endpoint  *url.URL
	proxy     *url.URL
	preamble  preamble
	header    http.Header
	timeouts  timeouts
	transport *http.Transport
	redact    func(string) string
	now       func() time.Time
}

var _ segment.Model = (*Client)(nil)

// New is a client of the endpoint e. The key is sent as e.Credentials says; surrounding white space, such as the
// newline at the end of a file, is not part of it. The bundle is what of e.TLS is mounted, or nil.
func New(e v1alpha1.ModelEndpointSpec, sampling v1alpha1.Sampling, key string, bundle []byte) (*Client, error) {
	endpoint, err := completions(e.URL)
	if err != nil {
		return nil, err
	}
	route, err := egress.NewRoute(e.Egress, e.Proxy, bundle)
	if err != nil {
		return nil, err
	}
	key = strings.TrimSpace(key)
	header, err := headers(e, key)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true, // Compression makes proxies hold a stream back, and may inflate without bound.
	}
	route.Equip(transport)
	return &Client{
		endpoint: endpoint, proxy: route.Proxy(),
		preamble:  newPreamble(e.Model, endpoint.Hostname(), sampling),
		header:    header,
		timeouts:  timeoutsOf(e.Timeouts),
		transport: transport,
		redact:    redactor(key),
		now:       time.Now,
	}, nil
}

// Close closes idle connections. Answers in flight go on.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

func completions(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("spec.url does not parse") // The error would repeat the URL, and whatever hides in it.
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, errors.New("spec.url must be an absolute http or https URL, such as https://llm.example/v1")
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return nil, errors.New("spec.url must have no user, query or fragment: credentials belong in spec.credentials")
	}
	return u.JoinPath("chat", "completions"), nil
}

// headers are the headers of every request. What the endpoint asks for may not replace what frames the request.
func headers(e v1alpha1.ModelEndpointSpec, key string) (http.Header, error) {
	h := http.Header{}
	h.Set("Accept", "text/event-stream, application/json")
	h.Set("User-Agent", "ekiden")
	for _, extra := range e.Headers {
		if !httpguts.ValidHeaderFieldName(extra.Name) || !httpguts.ValidHeaderFieldValue(extra.Value) {
			return nil, fmt.Errorf("spec.headers: %q is not a valid header", extra.Name)
		}
		h.Set(extra.Name, extra.Value)
	}
	h.Set("Content-Type", "application/json")
	cred := e.Credentials
	if cred == (v1alpha1.Credentials{}) {
		return h, nil
	}
	if cred.Header == "" {
		cred.Header = "Authorization"
	}
	if cred.Prefix == "" && http.CanonicalHeaderKey(cred.Header) == "Authorization" {
		cred.Prefix = "Bearer "
	}
	if key == "" {
		return nil, errors.New("the key that spec.credentials names is empty")
	}
	if !httpguts.ValidHeaderFieldName(cred.Header) || !httpguts.ValidHeaderFieldValue(cred.Prefix+key) {
		return nil, errors.New("the key that spec.credentials names cannot be sent in a header: it holds control characters")
	}
	h.Set(cred.Header, cred.Prefix+key)
	return h, nil
}

// Answer makes one request and streams the answer.
func (c *Client) Answer(ctx context.Context, p prompt.Prompt, emit func(text string)) (segment.Answer, error) {
	if err := ctx.Err(); err != nil {
		return segment.Answer{}, err
	}
	body, err := c.preamble.request(p)
	if err != nil {
		return segment.Answer{}, &segment.CallError{Code: v1alpha1.ReasonIncompatibleSession, Message: err.Error()}
	}
	if emit == nil {
		emit = func(string) {}
	}
	timed, watch := c.timeouts.watch(ctx)
	defer watch.stop()
	x := &exchange{client: c, body: body, watch: watch, message: newMessage(emit)}
	err = x.run(timed)

	// What goes wrong after the reason to finish has come takes nothing away from the answer.
	if x.message.whole() {
		return x.answer(), nil
	}
	if known, ok := errors.AsType[*segment.CallError](err); ok {
		return x.partial(), known
	}
	if ctx.Err() != nil {
		return x.partial(), ctx.Err()
	}
	if late, ok := errors.AsType[*segment.CallError](context.Cause(timed)); ok {
		return x.partial(), late
	}
	return x.partial(), x.broken(err)
}
