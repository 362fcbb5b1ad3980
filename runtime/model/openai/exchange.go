package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

const (
	// maxAnswer bounds what is kept of one answer, and one line of it. The stream around it may be far longer: some
	// servers wrap each token in half a kilobyte.
	maxAnswer = 16 << 20
	// maxProblem bounds what is read of an error's body.
	maxProblem = 64 << 10
)

// errTooLarge is returned while reading more than maxAnswer.
var errTooLarge = errors.New("answer too large")

// exchange is one request and what came back.
type exchange struct {
	client  *Client
	body    []byte
	watch   *watchdog
	message *message
	usage   usage
	// sent is set, by a goroutine of the transport, once the whole request is out: from then on the model may be at work.
	sent atomic.Bool
	// accepted says that a status of success has come, declined that an error came before any of the answer.
	accepted, declined bool
	requestID          string
}

// run makes the request and reads the answer into the message.
func (x *exchange) run(ctx context.Context) error {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		if i.Err == nil {
			x.sent.Store(true)
		}
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.client.endpoint.String(), bytes.NewReader(x.body))
	if err != nil {
		return err
	}
	req.Header = x.client.header.Clone()
	// The transport itself, not a client around it: nothing here follows redirects, so the key stays with the host it
	// belongs to.
	res, err := x.client.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	x.requestID = requestID(res.Header)
	if res.StatusCode < 200 || res.StatusCode > 299 {
		x.declined = true
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem)) // The status says enough if the body breaks off.
		return x.client.refusal(res, body)
	}
	x.accepted = true
	return x.read(bufio.NewReaderSize(res.Body, 32<<10), res.Header.Get("Content-Type"))
}

// read looks at what came rather than at the content type, which many servers get wrong.
func (x *exchange) read(r *bufio.Reader, contentType string) error {
	first, err := firstByte(r)
	switch {
	case errors.Is(err, io.EOF):
		return x.cut()
	case err != nil:
		return err
	case first == '{' || first == '[':
		return x.document(r)
	case first == '<':
		return x.foreign("a web page")
	}
	err = x.stream(r)
	if err != nil && !x.message.started && !strings.HasPrefix(contentType, "text/event-stream") && errors.Is(err, errNoEvents) {
		return x.foreign("something that is no event stream")
	}
	if errors.Is(err, errNoEvents) {
		return x.cut()
	}
	return err
}

// foreign is the error of a response that no model wrote.
func (x *exchange) foreign(what string) error {
	x.declined = true
	return &segment.CallError{Code: v1alpha1.ReasonRequestRefused, Message: x.client.sentence("the endpoint answered with "+what+" instead of a chat completion: correct spec.url of the ModelEndpoint", "", x.requestID, "")}
}

// firstByte is the first byte that is not white space. It stays unread, and so does all that follows.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch b {
		case ' ', '\t', '\r', '\n':
		case 0xEF: // The byte order mark.
			if mark, err := r.Peek(2); err == nil && mark[0] == 0xBB && mark[1] == 0xBF {
				_, _ = r.Discard(2)
				continue
			}
			return b, r.UnreadByte()
		default:
			return b, r.UnreadByte()
		}
	}
}

// errNoEvents is returned for a body that ended without a single event.
var errNoEvents = errors.New("no events")

// stream reads events until the end of the answer.
func (x *exchange) stream(r *bufio.Reader) error {
	events, some := newEvents(r), false
	for {
		e, err := events.next()
		switch {
		case errors.Is(err, io.EOF) && !some:
			return errNoEvents
		case errors.Is(err, io.EOF):
			return x.cut()
		case err != nil:
			return err
		case e.done():
			x.message.end()
			if !x.message.whole() {
				return x.cut()
			}
			return nil
		}
		some = true
		if err := x.take(e); err != nil {
			return err
		}
	}
}

// take adds one event to the answer.
func (x *exchange) take(e event) error {
	var c chunk
	if err := json.Unmarshal(e.data, &c); err != nil {
		return x.malformed()
	}
	if p, ok := c.problem(e); ok {
		x.declined = !x.message.started
		return x.client.inBand(p, x.requestID)
	}
	x.usage.add(c)
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			continue // One answer was asked for; a second one would be mixed into it.
		}
		grew, err := x.message.add(c.ID, ch)
		if err != nil {
			return err
		}
		if grew {
			x.watch.piece()
		}
	}
	return x.interrupted()
}

// interrupted is the error of an answer that ended for a reason of the endpoint, not of the model.
func (x *exchange) interrupted() error {
	if !failures[strings.ToLower(x.message.reason)] {
		return nil
	}
	return &segment.CallError{Retryable: true, Code: CodeServerError, Message: x.client.sentence("the endpoint gave up within its answer", x.message.reason, x.requestID, "")}
}

// document reads an answer that comes as one JSON value although a stream was asked for.
func (x *exchange) document(r *bufio.Reader) error {
	x.watch.piece()
	body, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(body) > maxAnswer:
		return errTooLarge
	case !json.Valid(body):
		return x.malformed()
	}
	if p, ok := parseProblem(body); ok {
		x.declined = true
		return x.client.inBand(p, x.requestID)
	}
	var c chunk
	if json.Unmarshal(body, &c) != nil || len(c.Choices) == 0 {
		return x.foreign("JSON that is no completion")
	}
	if err := x.take(event{data: body}); err != nil {
		return err
	}
	x.message.end()
	if !x.message.whole() {
		return x.cut()
	}
	return nil
}
