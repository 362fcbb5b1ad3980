package contract

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// DiscoveryEnv is the variable in which a discovery pod finds its Discovery, in JSON.
const DiscoveryEnv = "EKIDEN_DISCOVERY"

// MaxTools is the most tools that are taken from one server. A server that offers more is refused whole.
const MaxTools = 128

// MaxContract is the most bytes of one tool's contract.
const MaxContract = 64 << 10

// Discovery says which server is to be asked for its tools.
type Discovery struct {
	NamespaceUID types.UID `json:"namespaceUID"`
	// Generation is that of the ToolServer's spec. What is found is kept under it, once.
	Generation int64 `json:"generation"`
	// Server is how the server is reached.
	Server v1alpha1.CompiledServer `json:"server"`
}

// Faults of a discovery.
const (
	// FaultUnreachable means that the server did not answer as an MCP server does.
	FaultUnreachable FaultCode = "ToolServerUnreachable"
	// FaultUnusable means that what it offers cannot be used: no tools, too many, or contracts that are too large.
	FaultUnusable FaultCode = "ToolServerUnusable"
)
