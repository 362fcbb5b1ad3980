package crd

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/test/apitest"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// examples are objects in which every field of the schema is set, in one example or another.
var examples = map[string][]string{
	"AgentRun": {`
spec:
  definitionRef: {kind: AgentDefinition, name: triage, revision: triage-01234567}
  input: {text: Hello.}
  limits: {segments: 3, turns: 4, toolCalls: 6, activeSeconds: 5}
  idempotencyKey: ticket-4711
  desiredState: Running
  ttlSecondsAfterFinished: 60
  principal: {user: dana, groups: [support]}
status:
  conditions:
  - {type: Succeeded, status: Unknown, reason: Running, message: At work., observedGeneration: 1, lastTransitionTime: "2026-12-01T10:00:00Z"}
  observedGeneration: 1
  phase: Running
  waitingOn:
  - {kind: Approval, names: [triage-4711-1f3a9c0d-t3c0-gate], count: 1, until: "2026-12-01T10:00:00Z"}
  revision: triage-01234567
  snapshotDigest: ` + digest + `
  root: {name: run, uid: 5f0c3f4e-0000-4000-8000-000000000000}
  duplicateOf: {name: run, uid: 5f0c3f4e-0000-4000-8000-000000000000}
  limits: {segments: 3, turns: 4, toolCalls: 6, activeSeconds: 5}
  segment: 0
  startedAt: "2026-12-01T10:00:00Z"
  finishedAt: "2026-12-01T10:00:01Z"
  activeSeconds: 1
  usage: {turns: 1, toolCalls: 1, inputTokens: 10, cachedInputTokens: 5, outputTokens: 3, cost: "0.0182"}
  memory: {attempt: 1, entries: 4, callsBegun: 2, callsSettled: 1, decisions: 1}
  result: {text: Hello., partialReason: LimitReached, completeness: Whole, bytes: 6, digest: "` + digest + `"}
  error: {code: RequestRefused, message: The endpoint answered 400.}
`, `
spec:
  definitionRef: {kind: AgentDefinition, name: triage}
  input: {json: {customer: 4711, tags: [a, b], nested: {x: 1}}}
`, `
spec:
  definitionRef: {kind: AgentDefinition, name: triage}
  input: {from: {configMap: {name: tasks, key: today.txt}}}
`},
	"AgentDefinition": {`
spec:
  description: Sorts tickets.
  modelRef: {name: gpt-main}
  sampling: {maxOutputTokens: 2000}
  instructions: You sort tickets.
  tools:
  - {serverRef: {name: payments}, names: [refund], approval: Required}
  onToolFailure: TellModel
  onIndeterminate: TellModel
  limits: {segments: 20, turns: 40, toolCalls: 40, activeSeconds: 1800}
  segment: {softSeconds: 90, hardSeconds: 120}
  retry: {maxAttempts: 5, baseSeconds: 1, capSeconds: 60, maxRetryAfterSeconds: 60}
  revisionHistoryLimit: 10
status:
  conditions:
  - {type: Ready, status: "True", reason: Compiled, message: Compiled., observedGeneration: 1, lastTransitionTime: "2026-12-01T10:00:00Z"}
  observedGeneration: 1
  currentRevision: triage-01234567
`},
	"AgentPolicy": {`
metadata: {name: default}
spec:
  rules:
  - name: money
    match: {tools: [payments/*], effects: [Send], expression: args.amount > 100}
    action: RequireApproval
    approval: {pool: finance, seats: 2, expiresSeconds: 3600}
  limits: {segments: 20, turns: 40, toolCalls: 40, activeSeconds: 1800}
  pods:
    serviceAccountName: agents
    imagePullSecrets: [{name: registry}]
    nodeSelector: {node-pool: agents}
    tolerations: [{key: dedicated, operator: Equal, value: agents, effect: NoExecute, tolerationSeconds: 60}]
    resources: {requests: {cpu: 100m}, limits: {memory: 512Mi}}
    runtimeClassName: gvisor
    priorityClassName: agents
    labels: {example.com/team: support}
    annotations: {example.com/owner: support}
    env: [{name: GOMEMLIMIT, value: 400MiB}]
status:
  conditions:
  - {type: Ready, status: "True", reason: InForce, message: In force., observedGeneration: 1, lastTransitionTime: "2026-12-01T10:00:00Z"}
  observedGeneration: 1
`},
	"ApprovalRequest": {`
spec:
  type: Call
  call: {turn: 3, index: 0, tool: payments/refund, effect: Send, arguments: '{"amount":120}', digest: ` + digest + `}
  runRef: {name: triage-4711, uid: 5f0c3f4e-0000-4000-8000-000000000000}
  requester: {user: dana, groups: [support]}
  policy: {name: default, namespace: support, rule: money}
  note: Look first whether this was done already.
  pool: finance
  seat: 2
  seats: 2
  expiresAt: "2026-12-01T10:00:00Z"
status:
  conditions:
  - {type: Decided, status: Unknown, reason: AwaitingDecision, message: Open., observedGeneration: 1, lastTransitionTime: "2026-12-01T10:00:00Z"}
  observedGeneration: 1
  phase: Pending
  decidedAt: "2026-12-01T10:00:00Z"
`},
	"ToolServer": {`
spec:
  type: MCP
  mcp: {url: http://crm-mcp.support.svc:8080/mcp}
  release: "2026-12"
  credentials: {secretRef: {name: crm, key: token}, header: Authorization, prefix: "Bearer "}
  headers: [{name: X-Team, value: support}]
  tls: {caBundle: {configMap: {name: corp-ca, key: ca.crt}}}
  proxy: {url: "http://proxy.corp"}
  egress: {allow: [10.20.0.0/16]}
  tools:
  - {name: refund, effect: Send, idempotency: Key, show: Arguments, as: pay_back, timeoutSeconds: 60, maxResultBytes: 65536, probe: {tool: find, arguments: "{'key': key}", happened: answer.found}}
  - {name: find, effect: Read}
status:
  conditions:
  - {type: Ready, status: "True", reason: Discovered, message: Discovered., observedGeneration: 1, lastTransitionTime: "2026-12-01T10:00:00Z"}
  observedGeneration: 1
  discoveredGeneration: 1
  tools:
  - {name: refund, digest: "` + digest + `", effect: Send, description: Pays back.}
`, `
spec:
  type: HTTP
  http:
    url: https://crm.example/api
    tools:
    - name: get_customer
      description: Looks up a customer.
      method: GET
      path: /customers/{id}
      query: [expand]
      body: Rest
      input: {schema: {type: object}}
`},
	"ModelEndpoint": {`
spec:
` + indent(endpoint, 2)},
	"DefinitionRevision": {`
spec:
  definitionRef: {kind: AgentDefinition, name: triage}
  generation: 1
  digest: ` + digest + `
  agent:
    model:
      name: gpt-main
      endpoint:
` + indent(endpoint, 8) + `
    sampling: {maxOutputTokens: 2000}
    instructions: You sort tickets.
    servers:
    - name: payments
      uid: 5f0c3f4e-0000-4000-8000-000000000000
      type: HTTP
      url: https://crm.example/api
      credentials: {secretRef: {name: crm, key: token}, header: Authorization, prefix: "Bearer "}
      headers: [{name: X-Team, value: support}]
      tls: {caBundle: {configMap: {name: corp-ca, key: ca.crt}}}
      proxy: {url: "http://proxy.corp"}
      egress: {allow: [10.20.0.0/16]}
    tools:
    - name: payments__refund
      server: payments
      tool: refund
      digest: ` + digest + `
      effect: Send
      idempotency: Key
      show: Arguments
      approval: Required
      timeoutSeconds: 60
      maxResultBytes: 65536
      http: {method: POST, path: "/refunds/{id}", query: [expand], body: Rest}
      probe:
        tool: find
        digest: ` + digest + `
        arguments: "{'key': key}"
        happened: answer.found
        timeoutSeconds: 60
        maxResultBytes: 65536
        http: {method: GET, path: "/refunds/{key}", query: [expand], body: None}
    onToolFailure: TellModel
    onIndeterminate: Ask
    limits: {segments: 20, turns: 40, toolCalls: 40, activeSeconds: 1800}
    segment: {softSeconds: 90, hardSeconds: 120}
    retry: {maxAttempts: 5, baseSeconds: 1, capSeconds: 60, maxRetryAfterSeconds: 60}
`},
}

const endpoint = `protocol: OpenAIChat
url: https://llm.example/v1
model: gpt-5.4
credentials: {secretRef: {name: llm, key: apiKey}, header: Authorization, prefix: "Bearer "}
headers: [{name: X-Team, value: support}]
tls: {caBundle: {configMap: {name: corp-ca, key: ca.crt}}}
proxy: {url: "http://proxy.corp"}
egress: {allow: [10.20.0.0/16]}
timeouts: {firstTokenSeconds: 120, idleSeconds: 60, totalSeconds: 600}
contextWindowTokens: 400000
pricing: {currency: USD, inputPerMTok: "1.25", outputPerMTok: "10", cacheReadPerMTok: "0.125"}
`

func indent(text string, by int) string {
	prefix := strings.Repeat(" ", by)
	return prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix)
}

// example is the nth example of a kind, in a namespace, with edits.
func example(t *testing.T, kind string, nth int, namespace string, edits ...edit) *unstructured.Unstructured {
	t.Helper()
	object := apitest.Objects(t, []byte(examples[kind][nth]))[0]
	object.SetAPIVersion("ekiden.dev/v1alpha1")
	object.SetKind(kind)
	object.SetNamespace(namespace)
	if object.GetName() == "" {
		object.SetName("example")
	}
	for _, edit := range edits {
		edit(t, object.Object)
	}
	return object
}

// edit changes an object. A path is written spec.headers[0].name.
type edit func(t *testing.T, object map[string]any)

func set(path string, value any) edit {
	return func(t *testing.T, object map[string]any) {
		t.Helper()
		parent, last := descend(t, object, path)
		switch parent := parent.(type) {
		case map[string]any:
			parent[last] = runtime.DeepCopyJSONValue(value)
		case []any:
			index, err := strconv.Atoi(last)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			parent[index] = runtime.DeepCopyJSONValue(value)
		default:
			t.Fatalf("%s is in no object and no list", path)
		}
	}
}

func without(path string) edit {
	return func(t *testing.T, object map[string]any) {
		t.Helper()
		t.Helper()
		parent, last := descend(t, object, path)
		delete(parent.(map[string]any), last)
	}
}

// descend returns what the last step of the path is a step of. Objects on the way are made when they are missing.
func descend(t *testing.T, object map[string]any, path string) (parent any, last string) {
	t.Helper()
	steps := strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(path), ".")
	parent = object
	for _, step := range steps[:len(steps)-1] {
		switch at := parent.(type) {
		case map[string]any:
			if at[step] == nil {
				at[step] = map[string]any{}
			}
			parent = at[step]
		case []any:
			index, err := strconv.Atoi(step)
			if err != nil || index >= len(at) {
				t.Fatalf("%s: no item %s", path, step)
			}
			parent = at[index]
		default:
			t.Fatalf("%s: %s is a step into a value", path, step)
		}
	}
	return parent, steps[len(steps)-1]
}

// has says whether the path leads to something.
func has(object map[string]any, path string) bool {
	var at any = object
	for step := range strings.SplitSeq(strings.NewReplacer("[", ".", "]", "").Replace(path), ".") {
		switch from := at.(type) {
		case map[string]any:
			next, found := from[step]
			if !found {
				return false
			}
			at = next
		case []any:
			index, err := strconv.Atoi(step)
			if err != nil || index >= len(from) {
				return false
			}
			at = from[index]
		default:
			return false
		}
	}
	return true
}

// tried asks the API server whether it would create the object.
func tried(t *testing.T, c client.Client, object *unstructured.Unstructured) error {
	t.Helper()
	return c.Create(t.Context(), object.DeepCopy(), client.DryRunAll, strict)
}

// strict refuses unknown and repeated fields, as kubectl does.
const strict = client.FieldValidation(metav1.FieldValidationStrict)

var numbers atomic.Int64

// fresh is a name that nothing else has.
func fresh(what string) string { return fmt.Sprintf("%s-%d", what, numbers.Add(1)) }

// stored creates the object under a name of its own, with its status.
func stored(t *testing.T, c client.Client, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	kept := object.DeepCopy()
	if kept.GetName() == "example" {
		kept.SetName(fresh("example"))
	}
	status, has := maps.Clone(kept.Object)["status"]
	if err := c.Create(t.Context(), kept); err != nil {
		t.Fatalf("creating a %s: %v", kept.GetKind(), err)
	}
	if has {
		kept.Object["status"] = status
		if err := c.Status().Update(t.Context(), kept); err != nil {
			t.Fatalf("writing the status of a %s: %v", kept.GetKind(), err)
		}
	}
	return kept
}

// wantRefused checks that the API server said no and that its answer holds all words.
func wantRefused(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("accepted, want it refused with %q", words)
		return
	}
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
		t.Errorf("failed for another reason: %v", clip(err))
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("refused without a word of %q: %v", word, clip(err))
		}
	}
}

func wantAccepted(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("refused: %v", clip(err))
	}
}

// clip shortens an answer: the API server repeats the values it refuses.
func clip(err error) string {
	text := err.Error()
	if len(text) > 1200 {
		text = text[:600] + " … " + text[len(text)-600:]
	}
	return text
}
