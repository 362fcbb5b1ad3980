package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	schemas "github.com/ekiden-dev/ekiden/runtime/schema"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/tool/mcp"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

const (
	// maxName is the most bytes of a tool's name.
	maxName = 128
	// discoverWithin bounds a discovery: a server that never answers would hold its pod.
	discoverWithin = time.Minute
)

// Discover asks an MCP server for its tools, with its key and the certificates of its bundle. What cannot be used of them is left out, and warnings say why, a sentence for
// each. The error is a *segment.FaultError, with contract.FaultUnreachable or contract.FaultUnusable.
func Discover(ctx context.Context, d contract.Discovery, key string, bundle []byte) (tools []contract.ToolContract, warnings []string, err error) {
	if d.Server.Type != v1alpha1.ToolServerMCP {
		return nil, nil, unusable("the server has the type %q: only tools of MCP servers are discovered", d.Server.Type)
	}
	ctx, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	redact := redactor([]string{key})
	offered, err := mcp.List(ctx, d.Server, key, bundle)
	if err != nil {
		return nil, nil, interpret(d.Server, err, redact)
	}
	seen := map[string]bool{}
	for _, t := range offered {
		if seen[t.Name] {
			return nil, nil, unusable("the server offers two tools of the name %q", contract.Clip(redact(t.Name), maxName))
		}
		seen[t.Name] = true
		whole, why := usable(t)
		if why != "" {
			warnings = append(warnings, contract.Clean(redact(fmt.Sprintf("tool %q is left out: %s", contract.Clip(t.Name, maxName), why))))
			continue
		}
		tools = append(tools, whole)
	}
	if len(tools) == 0 {
		return nil, warnings, unusable("the server offers no tool that can be used")
	}
	return tools, warnings, nil
}

// usable is the contract in its stored form, or why it cannot be used.
func usable(t contract.ToolContract) (contract.ToolContract, string) {
	switch {
	case t.Name == "":
		return t, "it has no name"
	case len(t.Name) > maxName:
		return t, fmt.Sprintf("its name is longer than %d bytes", maxName)
	case contract.Clean(t.Name) != t.Name:
		return t, "its name is no text"
	case strings.ContainsFunc(t.Name, func(r rune) bool { return !unicode.IsPrint(r) }): // people decide by it on calls
		return t, "its name holds what a screen does not show"
	}
	schema, err := contract.Canonical(t.Schema)
	if err != nil {
		return t, "its schema is no usable JSON: " + err.Error()
	}
	if !bytes.HasPrefix(schema, []byte("{")) {
		return t, "its schema is no object"
	}
	if bytes.Contains(schema, []byte(`\u0000`)) {
		return t, "its schema holds a NUL"
	}
	if err := schemas.CheckSchema(schema); err != nil {
		return t, "its schema cannot be used: " + err.Error()
	}
	t.Schema = schema
	body, _, err := t.Encode()
	if err != nil {
		return t, err.Error()
	}
	if len(body) > contract.MaxContract {
		return t, fmt.Sprintf("its contract has %d bytes, and at most %d are taken", len(body), contract.MaxContract)
	}
	return t, ""
}

// interpret puts the failure of a listing into the words of a fault, with nothing of an address but the host that the
// object names.
func interpret(s v1alpha1.CompiledServer, err error, redact func(string) string) error {
	var fault *wire.Fault
	switch {
	case errors.Is(err, mcp.ErrUnusable):
		return unusable("%s", redact(err.Error()))
	case errors.As(err, &fault):
		return faulty(contract.FaultUnreachable, "%s: %s", host(s), contract.Clean(redact(fault.Text)))
	default:
		return unusable("%s", contract.Clean(redact(err.Error())))
	}
}

func host(s v1alpha1.CompiledServer) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "the server"
	}
	return u.Host
}

func unusable(format string, args ...any) error {
	return faulty(contract.FaultUnusable, format, args...)
}

func faulty(code contract.FaultCode, format string, args ...any) error {
	return &segment.FaultError{Fault: contract.Fault{Code: code, Message: contract.Clip(fmt.Sprintf(format, args...), contract.MaxMessage)}}
}
