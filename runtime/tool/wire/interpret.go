package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/egress"
)

// Interpret is the fault of a request that ended without a response. The transport's own words hold addresses, and may
// repeat what the other side sent: only what is known is told.
func Interpret(err error, sent bool) *Fault {
	if refused, ok := errors.AsType[*egress.Refusal](err); ok && refused.Proxy {
		return &Fault{Certainty: NotDone, Final: true, Text: "nothing was sent: the platform does not let the proxy of this server be dialled (spec.proxy and spec.egress of its ToolServer)"}
	}
	if refused, ok := errors.AsType[*egress.Refusal](err); ok && refused.Host != "" {
		return &Fault{Certainty: NotDone, Final: true, Text: "nothing was sent: the host in the URL of this server's ToolServer is " + refused.Kind}
	}
	if errors.Is(err, egress.ErrRefused) {
		return &Fault{Certainty: NotDone, Final: true, Text: "nothing was sent: the platform does not let this server be dialled (spec.egress of its ToolServer)"}
	}
	if !sent {
		return &Fault{Certainty: NotDone, Text: "nothing was sent: " + unreached(err, whom(err))}
	}
	return &Fault{Certainty: Unknown, Text: broken(err)}
}

// whom names who could not be reached.
func whom(err error) string {
	if egress.AtProxy(err) {
		return "the proxy of the server (spec.proxy of its ToolServer)"
	}
	return "the server"
}

func unreached(err error, whom string) string {
	if refused, ok := errors.AsType[*egress.ProxyError](err); ok {
		return "the proxy of the server (spec.proxy of its ToolServer) makes no connection: it answered " + Status(refused.Status)
	}
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "the name of " + whom + " is not known"
	case errors.As(err, &name):
		return "the name of " + whom + " could not be looked up"
	case errors.As(err, &cert):
		return "the certificate of " + whom + " is not trusted"
	case errors.As(err, &record):
		return whom + " does not speak TLS"
	case errors.As(err, &alert):
		return whom + " refused the TLS handshake"
	case errors.Is(err, syscall.ECONNREFUSED):
		return whom + " refused the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to " + whom
	case timeout(err):
		return "there was no connection to " + whom + " in time"
	default:
		return "there was no connection to " + whom
	}
}

func broken(err error) string {
	if timeout(err) {
		return "no whole answer came in time"
	}
	return "the connection was lost before a whole answer had come"
}

func timeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// Indecisive is the fault of a response whose status leaves open what came of a request that does something, or nil. A
// redirect leaves it open unless the request only reads: servers also point so to the result of what they have carried out.
// It would come again.
func Indecisive(status int, e v1alpha1.Effect) *Fault {
	redirect := status >= 300 && status < 400 && e != v1alpha1.EffectRead
	if redirect || status == http.StatusRequestTimeout || status >= 500 {
		return &Fault{Certainty: Unknown, Final: redirect, Text: Refusal(status)}
	}
	return nil
}

// Status puts a status into words.
func Status(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return fmt.Sprint(status)
}

// Refusal is the clause for a response that is no success.
func Refusal(status int) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "the server does not accept the key that it was given (" + Status(status) + ")"
	case status >= 300 && status < 400:
		return "the server answered with a redirect, which is not followed (" + Status(status) + ")"
	default:
		return "the server answered " + Status(status)
	}
}
