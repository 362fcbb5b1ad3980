// Package ekiden puts Ekiden on the benches: segments as processes, and the manager's pure decisions without Kubernetes around them.
package ekiden

import (
	"encoding/json"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/bench/world"
)

// loopback is where everything of a bench listens.
var loopback = v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}}

// snapshot is a run whose agent has one tool, which writes and knows no idempotency key: the worst there is.
func snapshot(namespace types.UID, task, url string) (contract.Snapshot, error) {
	uid := types.UID(uuid.NewString())
	tool := contract.ToolContract{Name: world.Tool, Description: "Acts upon the world.", Schema: json.RawMessage(`{"type":"object"}`)}
	_, digest, err := tool.Encode()
	return contract.Snapshot{
		Schema: contract.SnapshotSchema, Revision: "bench-1", Definition: "bench", Task: task,
		Run: contract.Identity{Namespace: "bench", NamespaceUID: namespace, Name: "run-" + string(uid), UID: uid, RootUID: uid},
		Agent: v1alpha1.CompiledAgent{
			Model: v1alpha1.CompiledModel{Name: "bench", Endpoint: v1alpha1.ModelEndpointSpec{
				Protocol: v1alpha1.OpenAIChat, URL: url + "/v1", Model: "bench", Egress: loopback,
				Pricing:  v1alpha1.Pricing{Currency: v1alpha1.USD, InputPerMTok: "1", OutputPerMTok: "2"},
				Timeouts: v1alpha1.ModelTimeouts{FirstTokenSeconds: 60, IdleSeconds: 60, TotalSeconds: 60},
			}},
			Instructions: "You act upon the world.",
			Servers:      []v1alpha1.CompiledServer{{Name: "world", UID: "world", Type: v1alpha1.ToolServerHTTP, URL: url, Egress: loopback}},
			Tools: []v1alpha1.CompiledTool{{
				Name: world.Tool, Server: "world", Tool: world.Tool, Digest: digest, Effect: v1alpha1.EffectWrite, Idempotency: v1alpha1.IdempotencyNone,
				Show: v1alpha1.ShowArguments, TimeoutSeconds: 30, MaxResultBytes: 65536,
				HTTP: v1alpha1.CompiledRequest{Method: v1alpha1.HTTPMethod("POST"), Path: "/effects", Body: v1alpha1.HTTPBodyRest},
			}},
			Limits:  v1alpha1.Limits{Segments: 1000, Turns: 2000, ToolCalls: 2000, ActiveSeconds: 7200},
			Segment: v1alpha1.SegmentTimers{SoftSeconds: 90, HardSeconds: 120},
			Retry:   v1alpha1.Retry{MaxAttempts: 20, BaseSeconds: 1, CapSeconds: 1, MaxRetryAfterSeconds: 60},
		},
		Tools: []contract.ToolContract{tool}, Grant: []string{world.Tool}, Principal: v1alpha1.Principal{User: "bench"},
	}, err
}
