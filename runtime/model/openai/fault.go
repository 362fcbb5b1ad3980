package openai

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/egress"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// Codes of retryable errors. Terminal ones carry reasons of the API.
const (
	// CodeUnreachable means that no response came: no such name, no connection, no TLS, or the connection was lost.
	CodeUnreachable = "Unreachable"
	// CodeFirstTokenTimeout, CodeIdleTimeout and CodeTotalTimeout name the timeout that ran out.
	CodeFirstTokenTimeout = "FirstTokenTimeout"
	CodeIdleTimeout       = "IdleTimeout"
	CodeTotalTimeout      = "TotalTimeout"
	// CodeStreamCut means that the answer ended before it was whole, CodeStreamMalformed that it could not be read,
	// CodeAnswerTooLarge that it was longer than is kept.
	CodeStreamCut       = "StreamCut"
	CodeStreamMalformed = "StreamMalformed"
	CodeAnswerTooLarge  = "AnswerTooLarge"
	// CodeRateLimited, CodeOverloaded, CodeServerError, CodeRequestTimeout and CodeConflict are what the endpoint says
	// about itself.
	CodeRateLimited    = "RateLimited"
	CodeOverloaded     = "Overloaded"
	CodeServerError    = "ServerError"
	CodeRequestTimeout = "RequestTimeout"
	CodeConflict       = "Conflict"
)

// refusal is the error of a response whose status is not one of success.
func (c *Client) refusal(res *http.Response, body []byte) *segment.CallError {
	p, _ := parseProblem(body)
	code, retryable := class(res.StatusCode, p)
	what := fmt.Sprintf("the endpoint answered %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		what += ": redirects are not followed, because the key belongs to the host in spec.url of the ModelEndpoint"
	case code == v1alpha1.ReasonCredentialsRefused:
		what += ": it refuses the key that spec.credentials of the ModelEndpoint names"
	}
	return &segment.CallError{
		Retryable: retryable, Code: code, RetryAfter: retryAfter(res.Header, res.StatusCode, c.now()),
		Message: c.sentence(strings.TrimSpace(what), p.kind(), requestID(res.Header), p.Message),
	}
}

// inBand is the error of a problem that was reported after a status of success.
func (c *Client) inBand(p problem, requestID string) *segment.CallError {
	code, retryable := CodeServerError, true
	if status := p.status(); status != 0 {
		code, retryable = class(status, p)
	} else if known, ok := byName(p); ok {
		code, retryable = known.code, known.retryable
	} else if p.kind() != "" {
		code, retryable = v1alpha1.ReasonRequestRefused, false
	}
	return &segment.CallError{
		Retryable: retryable, Code: code,
		Message: c.sentence("the endpoint reported an error in place of the answer", p.kind(), requestID, p.Message),
	}
}

// class sorts an error by its status, but for the few names that say more than the status does.
func class(status int, p problem) (code string, retryable bool) {
	if known, ok := byName(p); ok && !known.retryable && known.code != v1alpha1.ReasonRequestRefused && status < 500 {
		return known.code, false
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return v1alpha1.ReasonCredentialsRefused, false
	case status == http.StatusPaymentRequired:
		return v1alpha1.ReasonQuotaExhausted, false
	case status == http.StatusRequestEntityTooLarge:
		return v1alpha1.ReasonContextOverflow, false
	case status == http.StatusTooManyRequests:
		return CodeRateLimited, true
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return CodeRequestTimeout, true
	case status == http.StatusConflict, status == http.StatusTooEarly:
		return CodeConflict, true
	case status == http.StatusServiceUnavailable, status == 529:
		return CodeOverloaded, true
	case status >= 500:
		return CodeServerError, true
	default:
		return v1alpha1.ReasonRequestRefused, false
	}
}

// cut is the error of an answer that ended before it was whole.
func (x *exchange) cut() error {
	return &segment.CallError{Retryable: true, Code: CodeStreamCut, Message: x.client.sentence("the answer ended before it was whole", "", x.requestID, "")}
}

func (x *exchange) malformed() error {
	return &segment.CallError{Retryable: true, Code: CodeStreamMalformed, Message: x.client.sentence("the answer holds something that is no JSON of a completion", "", x.requestID, "")}
}

// broken is the error of an exchange that the transport ended. The transport's own words may repeat what the other
// side sent, so only what is known is told.
func (x *exchange) broken(err error) *segment.CallError {
	if refused, ok := errors.AsType[*egress.Refusal](err); ok {
		whose := "endpoint"
		if refused.Proxy {
			whose = "proxy"
		}
		message := fmt.Sprintf("the %s's address %s is %s", whose, refused.Address(), refused.Kind)
		if refused.Host == "" {
			message += ", and such addresses are dialled only if spec.egress.allow of the ModelEndpoint lists them"
		}
		return &segment.CallError{Code: v1alpha1.ReasonEgressRefused, Message: message}
	}
	out := &segment.CallError{Retryable: true, Code: CodeUnreachable}
	switch {
	case errors.Is(err, errTooLarge):
		out.Code, out.Message = CodeAnswerTooLarge, fmt.Sprintf("the answer is longer than %d MiB", maxAnswer>>20)
	case x.accepted:
		out.Code, out.Message = CodeStreamCut, "the connection was lost before the answer was whole"
	default:
		out.Message = x.unreachable(err)
	}
	out.Message = x.client.sentence(out.Message, "", x.requestID, "")
	return out
}

func (x *exchange) unreachable(err error) string {
	host, hostname := x.client.endpoint.Host, x.client.endpoint.Hostname()
	if egress.AtProxy(err) {
		const named = " (spec.proxy of the ModelEndpoint)"
		host, hostname = x.client.proxy.Host+named, x.client.proxy.Hostname()+named
	}
	if refused, ok := errors.AsType[*egress.ProxyError](err); ok {
		return fmt.Sprintf("the proxy (spec.proxy of the ModelEndpoint) makes no connection to %s: it answered %d %s", host, refused.Status, http.StatusText(refused.Status))
	}
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var network net.Error
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "there is no host " + hostname
	case errors.As(err, &name):
		return "the name " + hostname + " could not be looked up"
	case errors.As(err, &cert):
		return "the certificate of " + host + " is not trusted"
	case errors.As(err, &record):
		return host + " does not speak TLS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return host + " refused the connection"
	case errors.As(err, &network) && network.Timeout():
		return "no connection to " + host + " in time"
	default:
		return "the connection to " + host + " was lost before a response came"
	}
}

// sentence puts an error into words: what happened, the type and the request's id, and what the endpoint says about
// it. What comes from the endpoint is redacted before it is cut, so that no part of the key is left at the cut.
func (c *Client) sentence(what, kind, requestID, said string) string {
	var in []string
	if kind != "" {
		in = append(in, contract.Clip(c.redact(kind), 100))
	}
	if requestID != "" {
		in = append(in, "request "+contract.Clip(c.redact(requestID), 100))
	}
	if len(in) > 0 {
		what += " (" + strings.Join(in, ", ") + ")"
	}
	if said = strings.Join(strings.Fields(c.redact(said)), " "); said != "" {
		what += ": " + contract.Clip(said, maxSaid)
	}
	return what
}

// maxSaid bounds what of the endpoint's own words is passed on.
const maxSaid = 300

// partial is what an exchange without an answer has used. Once the request is out the model may be at work, whether
// or not anything comes back; an error in place of an answer says that it was not.
func (x *exchange) partial() segment.Answer {
	if !x.sent.Load() && !x.accepted || x.declined {
		return segment.Answer{}
	}
	x.message.content.end(x.message.emit)
	return segment.Answer{Text: x.message.content.String(), Tokens: x.usage.spent(len(x.body), x.message.size), Estimated: true}
}

// answer is the whole answer.
func (x *exchange) answer() segment.Answer {
	a := x.message.answer()
	a.Tokens, a.Estimated = x.usage.filled(len(x.body), x.message.size)
	return a
}

func requestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "Cf-Ray"} {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// maxRetryAfter keeps absurd waits from overflowing.
const maxRetryAfter = 365 * 24 * time.Hour
