package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// SnapshotSchema is the schema of the snapshots this version writes, and the only one it reads.
const SnapshotSchema = 1

// ErrSchema is returned for stored values that another version wrote in a form this one does not know.
var ErrSchema = errors.New("unknown schema")

// Snapshot is everything a run was started with. It is written once, when the run is admitted, and
// never changes: an edit of the definition afterwards does not reach the run.
type Snapshot struct {
	// Schema is SnapshotSchema.
	Schema int `json:"schema"`
	// Run says which run this is.
	Run Identity `json:"run"`
	// Revision is the name of the DefinitionRevision that Agent was taken from.
	Revision string `json:"revision"`
	// Definition is the name of the definition that the revision was compiled from.
	Definition string `json:"definition,omitempty"`
	// Agent is the compiled definition, its limits narrowed by policy and run.
	Agent v1alpha1.CompiledAgent `json:"agent"`
	// Tools are the contracts of the agent's tools, in the order of CompiledAgent.Tools.
	Tools []ToolContract `json:"tools,omitempty"`
	// Grant is what of the agent's tools the principal may use, by their model-facing names.
	Grant []string `json:"grant,omitempty"`
	// Principal is who the run acts for.
	Principal v1alpha1.Principal `json:"principal"`
	// Task is the input as the model sees it: text as it is, a JSON value in its canonical form.
	Task string `json:"task"`
}

// ToolContract is what a tool is told to be: what its digest is the digest of.
type ToolContract struct {
	// Name is the tool's name on its server.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments, in canonical form.
	Schema json.RawMessage `json:"schema"`
}

// Encode is the stored form of c and its digest. Equal contracts have equal forms, however their server spells them.
func (c ToolContract) Encode() (body []byte, digest string, err error) {
	if c.Schema, err = Canonical(c.Schema); err != nil {
		return nil, "", fmt.Errorf("the schema of tool %q: %w", c.Name, err)
	}
	if body, err = json.Marshal(c); err != nil {
		return nil, "", fmt.Errorf("encoding the contract of tool %q: %w", c.Name, err)
	}
	return body, Digest(body), nil
}

// Identity names a run for good.
type Identity struct {
	Namespace    string    `json:"namespace"`
	NamespaceUID types.UID `json:"namespaceUID"`
	Name         string    `json:"name"`
	UID          types.UID `json:"uid"`
	RootUID      types.UID `json:"rootUID"`
}

// Encode is the stored form of s and its digest. Equal snapshots have equal forms.
func (s Snapshot) Encode() (body []byte, digest string, err error) {
	s.Schema = SnapshotSchema
	if body, err = json.Marshal(s); err != nil {
		return nil, "", fmt.Errorf("encoding snapshot: %w", err)
	}
	return body, Digest(body), nil
}

// DecodeSnapshot reads a stored snapshot. The error is ErrSchema for a schema this version does not know.
func DecodeSnapshot(body []byte) (Snapshot, error) {
	var s Snapshot
	if err := json.Unmarshal(body, &s); err != nil {
		return Snapshot{}, fmt.Errorf("%w: snapshot does not parse: %w", ErrSchema, err)
	}
	if s.Schema != SnapshotSchema {
		return Snapshot{}, fmt.Errorf("%w: snapshot has schema %d, this version reads %d", ErrSchema, s.Schema, SnapshotSchema)
	}
	return s, nil
}

// Digest is the SHA-256 of b as the API shows digests.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
