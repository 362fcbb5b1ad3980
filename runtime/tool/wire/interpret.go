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
	if errors.Is(err, egress.ErrRefused) {
		return &Fault{Certainty: NotDone, Final: true, Text: "nothing was sent: the platform does not let this server be dialled (spec.egress of its ToolServer)"}
	}
	if !sent {
		return &Fault{Certainty: NotDone, Text: "nothing was sent: " + unreached(err)}
	}
	return &Fault{Certainty: Unknown, Text: broken(err)}
}

func unreached(err error) string {
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "the name of the server is not known"
	case errors.As(err, &name):
		return "the name of the server could not be looked up"
	case errors.As(err, &cert):
		return "the certificate of the server is not trusted"
	case errors.As(err, &record):
		return "the server does not speak TLS"
	case errors.As(err, &alert):
		return "the server refused the TLS handshake"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the server refused the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to the server"
	case timeout(err):
		return "there was no connection to the server in time"
	default:
		return "there was no connection to the server"
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
