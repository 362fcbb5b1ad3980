package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/tool/wire"
)

// maxPages bounds the list of tools: a server may give the same cursor forever.
const maxPages = 32

var (
	// errEndless is returned for a list of more than maxPages pages.
	errEndless = fmt.Errorf("its list of tools has more than %d pages", maxPages)
	// errMany is returned for a list of more than contract.MaxTools tools.
	errMany = fmt.Errorf("it offers more than %d tools", contract.MaxTools)
)

// session is one session with a server, and what the server offered when it began. It never changes.
type session struct {
	client *sdk.ClientSession
	// digests are those of the contracts by tool. One that stands in the list twice, or makes no contract, has none.
	digests map[string]string
}

// open connects, and asks what there is. The error is a *wire.Fault of NotDone.
func open(ctx context.Context, s v1alpha1.CompiledServer, c *carrier, secret string) (*session, error) {
	x := &exchange{header: wire.Headers(s, secret)}
	client, err := connect(x.on(ctx), s, c)
	if err != nil {
		return nil, interpretOpening(x.seen(), err)
	}
	tools, err := list(x.on(ctx), client)
	if err != nil {
		go (&session{client: client}).close() // nothing is in flight on it, and the client bounds its farewell
		return nil, interpretOpening(x.seen(), err)
	}
	in := &session{client: client, digests: map[string]string{}}
	for _, t := range tools {
		digest := ""
		if _, twice := in.digests[t.Name]; !twice {
			_, digest, _ = Contract(t).Encode() // without one nothing is equal to it
		}
		in.digests[t.Name] = digest
	}
	return in, nil
}

func connect(ctx context.Context, s v1alpha1.CompiledServer, c *carrier) (*sdk.ClientSession, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "ekiden", Version: "v1alpha1"}, &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{}, // The default would offer our roots.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	return client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: httpClient(c), MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: wire.MaxAnswer,
	}, nil)
}

// list asks for all tools.
func list(ctx context.Context, client *sdk.ClientSession) ([]*sdk.Tool, error) {
	var tools []*sdk.Tool
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := client.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		if tools = append(tools, page.Tools...); len(tools) > contract.MaxTools {
			return nil, errMany
		}
		if page.NextCursor == "" {
			return tools, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, errEndless
}

// Contract is what a tool is told to be. Discovery and the check before a call both read it here, so that one server gives
// one digest.
func Contract(t *sdk.Tool) contract.ToolContract {
	schema, err := json.Marshal(t.InputSchema)
	if err != nil {
		schema = nil // It makes no contract.
	}
	return contract.ToolContract{Name: t.Name, Description: contract.Clean(t.Description), Schema: schema}
}

func (in *session) close() { _ = in.client.Close() } // the server may be gone

// List is all that a server offers. Errors: a *wire.Fault; ErrUnusable.
func List(ctx context.Context, s v1alpha1.CompiledServer, secret string, bundle []byte) ([]contract.ToolContract, error) {
	srv, err := New(s, bundle)
	if err != nil {
		return nil, err
	}
	x := &exchange{header: wire.Headers(s, secret)}
	client, err := connect(x.on(ctx), s, srv.carrier)
	if err != nil {
		return nil, interpretOpening(x.seen(), err)
	}
	srv.current = &session{client: client}
	defer srv.Close()
	tools, err := list(x.on(ctx), client)
	if errors.Is(err, errMany) || errors.Is(err, errEndless) {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if err != nil {
		return nil, interpretOpening(x.seen(), err)
	}
	out := make([]contract.ToolContract, 0, len(tools))
	for _, t := range tools {
		out = append(out, Contract(t))
	}
	return out, nil
}

// ErrUnusable is returned for a list of tools that is not taken.
var ErrUnusable = errors.New("the list of tools cannot be used")
