package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// carrier carries the requests of the protocol's client, one by one, and writes down what becomes of those that a call
// waits for.
type carrier struct{ transport *http.Transport }

// exchange is one call, or the opening of a session, as its carrier sees it. It travels in the context.
type exchange struct {
	header http.Header
	// key is the Idempotency-Key of a call, and empty while a session is opened.
	key string

	mu    sync.Mutex
	trace *wire.Trace
	sight sight
}

// sight is what was seen of the newest request.
type sight struct {
	// tried says that a request was made at all, sent that something of it may have left.
	tried, sent bool
	// failure is why no response came, status the status of the one that did.
	failure error
	status  int
	// session says that the request named a session, named that the response is a message that names its request.
	session, named bool
}

type exchangeKey struct{}

func (x *exchange) on(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

func (x *exchange) seen() sight {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.trace != nil {
		x.sight.sent = x.trace.Sent()
	}
	return x.sight
}

// errTwice stops a call that its client sends a second time.
var errTwice = errors.New("this call has been sent before")

// RoundTrip carries one request. Those that a call only causes, such as its cancellation, are carried and not watched.
func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	x, _ := req.Context().Value(exchangeKey{}).(*exchange)
	if x == nil {
		return nil, errors.New("a request that nobody asked for")
	}
	watched := x.key == "" || method(req) == "tools/call"
	ctx := req.Context()
	if watched {
		trace, err := x.begin(req)
		if err != nil {
			return nil, err
		}
		ctx = trace.Watch(ctx)
	}
	req = req.Clone(ctx)
	for name, values := range x.header {
		if _, framed := req.Header[name]; !framed || name == "User-Agent" {
			req.Header[name] = values
		}
	}
	if watched && x.key != "" {
		req.Header.Set(wire.IdempotencyHeader, x.key)
	}
	res, err := c.transport.RoundTrip(req)
	if err == nil {
		err = bound(res)
	}
	if watched {
		x.end(res, err)
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// begin starts watching a request. A call has one request.
func (x *exchange) begin(req *http.Request) (*wire.Trace, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.key != "" && x.sight.tried {
		return nil, errTwice
	}
	x.trace = new(wire.Trace)
	x.sight = sight{tried: true, session: req.Header.Get("Mcp-Session-Id") != ""}
	return x.trace, nil
}

func (x *exchange) end(res *http.Response, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sight.failure = err; err != nil {
		return
	}
	x.sight.status = res.StatusCode
	if res.StatusCode >= 400 {
		x.sight.named = named(res)
	}
}

// method is the method of the message that a request carries.
func method(req *http.Request) string {
	if req.GetBody == nil {
		return ""
	}
	body, err := req.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close()
	var m struct {
		Method string `json:"method"`
	}
	if json.NewDecoder(body).Decode(&m) != nil {
		return ""
	}
	return m.Method
}

// maxProblem bounds what is read of an error's body.
const maxProblem = 64 << 10

// bound keeps a body from growing without end: the client reads documents and streams as far as they go.
func bound(res *http.Response) error {
	if res.StatusCode < 400 {
		res.Body = &bounded{ReadCloser: res.Body, left: wire.MaxAnswer}
		return nil
	}
	// The status decides, so one whose body breaks off is as good.
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	if err := res.Body.Close(); err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// named reports whether a response of an error is a message that names the request it belongs to: one from behind the door.
func named(res *http.Response) bool {
	body, _ := io.ReadAll(res.Body) // from memory
	res.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		ID    json.RawMessage `json:"id"`
		Error json.RawMessage `json:"error"`
	}
	return json.Unmarshal(body, &m) == nil && len(m.Error) > 0 && len(m.ID) > 0 && string(m.ID) != "null"
}

// bounded is a body that breaks off when it has gone too far.
type bounded struct {
	io.ReadCloser
	left int64
}

var errTooLong = errors.New("the answer is too long")

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
