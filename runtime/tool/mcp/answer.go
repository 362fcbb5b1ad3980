package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// answer is what the model can read of a result.
func answer(res *sdk.CallToolResult) wire.Answer {
	if res.NeedsInput() || len(res.InputRequests) > 0 {
		return wire.Said(true, "the tool wants input from a person, which is not supported")
	}
	var parts []string
	legible := false
	for _, c := range res.Content {
		text, ok := part(c)
		parts, legible = append(parts, text), legible || ok
	}
	if !legible && res.StructuredContent != nil {
		if b, err := json.Marshal(res.StructuredContent); err == nil { // It came as JSON.
			parts = append(parts, string(b))
		}
	}
	return wire.Said(res.IsError, strings.Join(parts, "\n"))
}

// part is one piece of a result as text, and whether it was text.
func part(c sdk.Content) (string, bool) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text, true
	case *sdk.ImageContent:
		return wire.NotShown(c.MIMEType, int64(len(c.Data))), false
	case *sdk.AudioContent:
		return wire.NotShown(c.MIMEType, int64(len(c.Data))), false
	case *sdk.EmbeddedResource:
		switch r := c.Resource; {
		case r == nil:
			return "[a resource without content]", false
		case r.Text != "" || r.Blob == nil:
			return r.Text, true
		default:
			return wire.NotShown(r.MIMEType, int64(len(r.Blob))), false
		}
	case *sdk.ResourceLink:
		return fmt.Sprintf("[a link to %s, not followed]", strings.Join(strings.Fields(c.URI), "")), false
	default:
		return "[content of an unknown kind, not shown]", false
	}
}
