package contract

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// TermsSchema is the schema of the terms this version writes. It also reads those that carry no number: they are older than it.
const TermsSchema = 1

// Terms are what the manager needs of a snapshot each time it looks at a run. They are stored
// beside it so that a look does not read the whole snapshot.
type Terms struct {
	// Schema is TermsSchema.
	Schema  int                    `json:"schema"`
	Limits  v1alpha1.Limits        `json:"limits"`
	Segment v1alpha1.SegmentTimers `json:"segment"`
	Retry   v1alpha1.Retry         `json:"retry"`
	// ActSeconds is the longest that one act of a segment may take.
	ActSeconds int32 `json:"actSeconds"`
	// Credential is the key to mount. Zero means none.
	Credential v1alpha1.KeyReference `json:"credential"`
	Revision   string                `json:"revision"`
	// Tools are the keys of tool servers to mount.
	Tools []ToolCredential `json:"tools,omitempty"`
	// CABundles are the certificates to mount.
	CABundles []CABundle `json:"caBundles,omitempty"`
}

// CABundle is a key of a ConfigMap with certificates, and the file below CADir in which it is mounted.
type CABundle struct {
	File string                `json:"file"`
	Key  v1alpha1.KeyReference `json:"key"`
}

// ToolCredential is the key of a tool server.
type ToolCredential struct {
	Server string                `json:"server"`
	Key    v1alpha1.KeyReference `json:"key"`
}

// DecodeTerms reads stored terms. The error is ErrSchema for a schema this version does not know.
func DecodeTerms(body []byte) (Terms, error) {
	var t Terms
	if err := json.Unmarshal(body, &t); err != nil {
		return Terms{}, fmt.Errorf("%w: terms do not parse: %w", ErrSchema, err)
	}
	if t.Schema != 0 && t.Schema != TermsSchema {
		return Terms{}, fmt.Errorf("%w: terms have schema %d, this version reads %d", ErrSchema, t.Schema, TermsSchema)
	}
	return t, nil
}

// PodTime is the last bound on a pod: the wait for an earlier claim to lapse, its first act or its hard timer, whichever
// is longer, and the saving. Whatever keeps to its own timers never meets it.
func (t Terms) PodTime() time.Duration {
	return time.Duration(max(t.Segment.HardSeconds, t.ActSeconds))*time.Second + 2*LeaseTTL + SaveTime + time.Minute
}

// Terms are s's terms.
func (s Snapshot) Terms() Terms {
	e := s.Agent.Model.Endpoint
	t := Terms{
		Schema: TermsSchema, Limits: s.Agent.Limits, Segment: s.Agent.Segment, Retry: s.Agent.Retry,
		ActSeconds: e.Timeouts.TotalSeconds, Credential: e.Credentials.SecretRef, Revision: s.Revision,
	}
	t.trust(ModelCA, e.TLS)
	for _, tool := range s.Agent.Tools {
		t.ActSeconds = max(t.ActSeconds, tool.TimeoutSeconds, tool.Probe.TimeoutSeconds)
	}
	for _, server := range s.Agent.Servers {
		if key := server.Credentials.SecretRef; key.Name != "" {
			t.Tools = append(t.Tools, ToolCredential{Server: server.Name, Key: key})
		}
		t.trust(ToolCA(server.Name), server.TLS)
	}
	return t
}

func (t *Terms) trust(file string, tls v1alpha1.TLS) {
	if key := tls.CABundle.ConfigMap; key.Name != "" {
		t.CABundles = append(t.CABundles, CABundle{File: file, Key: key})
	}
}
