package mcp

import (
	"context"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// interpret is what came of a call with the effect for which the client has only an error, and whether its session is
// still sound.
func interpret(s sight, e v1alpha1.Effect, err error) (a wire.Answer, fault error, sound bool) {
	unknown := func(text string) error { return &wire.Fault{Certainty: wire.Unknown, Text: text} }
	indecisive := wire.Indecisive(s.status, e)
	switch {
	case !s.tried:
		return a, &wire.Fault{Certainty: wire.NotDone, Text: "nothing was sent: " + unsent(err)}, false
	case s.status == 0:
		return a, wire.Interpret(cause(s, err), s.sent), false
	case indecisive != nil:
		return a, indecisive, false
	case s.status == http.StatusNotFound && s.session && !s.named:
		// The protocol gives this response one meaning: there is no such session. Nothing gets past that door.
		return a, &wire.Fault{Certainty: wire.NotDone, Text: "the server turned the call away: it no longer knew the session (404)"}, false
	case s.status == http.StatusBadRequest && s.session && !s.named:
		return a, &wire.Fault{Certainty: wire.TurnedAway, Text: "the server turned the call away (400 Bad Request), perhaps because it no longer knew the session"}, false
	case s.status >= 300:
		return wire.Said(true, join(wire.Refusal(s.status), message(err))), nil, s.named
	}
	if said := message(err); said != "" {
		return wire.Said(true, said), nil, true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return a, unknown("no whole answer came in time"), false
	}
	return a, unknown("the answer was cut, too long, or none of the protocol"), false
}

// interpretOpening is the fault of a session that was not opened. Whatever it is, nothing of a call was sent.
func interpretOpening(s sight, err error) *wire.Fault {
	f := &wire.Fault{Certainty: wire.NotDone}
	switch {
	case errors.Is(err, errMany), errors.Is(err, errEndless):
		f.Final, f.Text = true, "nothing was sent: the server is not the one that was discovered: "+err.Error()
	case s.tried && s.status == 0:
		seen := wire.Interpret(cause(s, err), s.sent)
		f.Final, f.Text = seen.Final, seen.Text
		if seen.Certainty == wire.Unknown {
			f.Text = "nothing was sent: no session could be opened: " + seen.Text
		}
	case s.status >= 300:
		f.Final = s.status < 500 && s.status != http.StatusRequestTimeout && s.status != http.StatusTooManyRequests
		f.Text = "nothing was sent: no session could be opened: " + join(wire.Refusal(s.status), message(err))
	case message(err) != "":
		f.Final, f.Text = true, "nothing was sent: no session could be opened: "+message(err)
	default:
		f.Text = "nothing was sent: no session could be opened: the server did not answer as a server of the protocol does"
	}
	return f
}

// cause is why there was no response: what the carrier saw, unless the client gave up waiting before the carrier did.
func cause(s sight, err error) error {
	if s.failure != nil {
		return s.failure
	}
	return err
}

// unsent says why the client made no request.
func unsent(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "there was no time left"
	}
	return "the session with the server was lost"
}

// rejected is the code by which the client tells its own errors from the server's, in the same type.
const rejected = -32005

// message is what the server says in an error of the protocol.
func message(err error) string {
	var said *jsonrpc.Error
	if errors.Is(err, sdk.ErrConnectionClosed) || !errors.As(err, &said) || said.Code == rejected {
		return ""
	}
	if said.Message == "" {
		return "an error of the protocol without a message"
	}
	return said.Message
}

func join(what, said string) string {
	if said == "" {
		return what
	}
	return what + ": " + said
}
