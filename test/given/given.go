// Package given builds the objects that tests begin with. A builder is a function with modifiers:
// given.Run("r", "ns", given.Cancelled()).
package given

import (
	"crypto/sha256"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Agent is the name of the definition that runs refer to, Model that of its endpoint, Tools that of a tool server.
const (
	Agent = "triage"
	Model = "gpt-main"
	Tools = "crm"
)

// Run is a run of Agent with a short task.
func Run(name, namespace string, change ...func(*v1alpha1.AgentRun)) *v1alpha1.AgentRun {
	r := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.AgentRunSpec{
			DefinitionRef: v1alpha1.RunDefinitionReference{Kind: v1alpha1.AgentDefinitionKind, Name: Agent},
			Input:         v1alpha1.RunInput{Text: "Sort ticket 4711."},
		},
	}
	return with(r, change)
}

// Cancelled is a run that is not wanted.
func Cancelled() func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) { r.Spec.DesiredState = v1alpha1.DesiredCancelled }
}

// Task gives the run a task.
func Task(text string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) { r.Spec.Input = v1alpha1.RunInput{Text: text} }
}

// Key gives the run an idempotency key.
func Key(key string) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) { r.Spec.IdempotencyKey = key }
}

// Narrowed gives the run limits of its own.
func Narrowed(l v1alpha1.Limits) func(*v1alpha1.AgentRun) {
	return func(r *v1alpha1.AgentRun) { r.Spec.Limits = l }
}

// Definition is the definition Agent.
func Definition(namespace string, change ...func(*v1alpha1.AgentDefinition)) *v1alpha1.AgentDefinition {
	d := &v1alpha1.AgentDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: Agent, Namespace: namespace},
		Spec:       v1alpha1.AgentDefinitionSpec{ModelRef: v1alpha1.LocalReference{Name: Model}, Instructions: "You sort support tickets."},
	}
	return with(d, change)
}

// Slices gives the definition short segments: whatever takes longer than a second is the last act of its segment.
func Slices() func(*v1alpha1.AgentDefinition) {
	return func(d *v1alpha1.AgentDefinition) {
		d.Spec.Segment = v1alpha1.SegmentTimers{SoftSeconds: 1, HardSeconds: 60}
	}
}

// Limited gives the definition limits.
func Limited(l v1alpha1.Limits) func(*v1alpha1.AgentDefinition) {
	return func(d *v1alpha1.AgentDefinition) { d.Spec.Limits = l }
}

// Tries bounds tries.
func Tries(n int32) func(*v1alpha1.AgentDefinition) {
	return func(d *v1alpha1.AgentDefinition) { d.Spec.Retry.MaxAttempts = n }
}

// Uses gives the definition tools of a server. Modifiers add up.
func Uses(server string, names ...string) func(*v1alpha1.AgentDefinition) {
	return func(d *v1alpha1.AgentDefinition) {
		d.Spec.Tools = append(d.Spec.Tools, v1alpha1.ToolSelection{ServerRef: v1alpha1.LocalReference{Name: server}, Names: names})
	}
}

// UsesApproved gives the definition tools of a server that need an approval whatever the policy allows.
func UsesApproved(server string, names ...string) func(*v1alpha1.AgentDefinition) {
	return func(d *v1alpha1.AgentDefinition) {
		Uses(server, names...)(d)
		d.Spec.Tools[len(d.Spec.Tools)-1].Approval = v1alpha1.ToolApprovalRequired
	}
}

// FailsWithItsTools ends runs of the definition when a tool fails.
func FailsWithItsTools() func(*v1alpha1.AgentDefinition) {
	return func(d *v1alpha1.AgentDefinition) { d.Spec.OnToolFailure = v1alpha1.ToolFailureFailRun }
}

// Doubts says what follows in runs of the definition when nobody knows what a call has done.
func Doubts(rule v1alpha1.OnIndeterminate) func(*v1alpha1.AgentDefinition) {
	return func(d *v1alpha1.AgentDefinition) { d.Spec.OnIndeterminate = rule }
}

// Endpoint is the endpoint Model on the loopback, with a key in the Secret llm.
func Endpoint(namespace, url string, change ...func(*v1alpha1.ModelEndpoint)) *v1alpha1.ModelEndpoint {
	e := &v1alpha1.ModelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: Model, Namespace: namespace},
		Spec: v1alpha1.ModelEndpointSpec{
			Protocol: v1alpha1.OpenAIChat, URL: url, Model: "gpt-test",
			Credentials: v1alpha1.Credentials{SecretRef: v1alpha1.KeyReference{Name: "llm", Key: "apiKey"}},
			Egress:      v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}},
			Pricing:     v1alpha1.Pricing{Currency: v1alpha1.USD, InputPerMTok: "1", OutputPerMTok: "2"},
		},
	}
	return with(e, change)
}

// MCPServer is the tool server Tools on the loopback, which speaks MCP. Its tools count as Write unless they are declared.
func MCPServer(namespace, url string, change ...func(*v1alpha1.ToolServer)) *v1alpha1.ToolServer {
	s := &v1alpha1.ToolServer{
		ObjectMeta: metav1.ObjectMeta{Name: Tools, Namespace: namespace},
		Spec: v1alpha1.ToolServerSpec{
			Type: v1alpha1.ToolServerMCP, MCP: v1alpha1.MCPServer{URL: url},
			Egress: v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}},
		},
	}
	return with(s, change)
}

// HTTPServer is the tool server Tools on the loopback, an HTTP API with these tools.
func HTTPServer(namespace, url string, tools []v1alpha1.HTTPTool, change ...func(*v1alpha1.ToolServer)) *v1alpha1.ToolServer {
	s := &v1alpha1.ToolServer{
		ObjectMeta: metav1.ObjectMeta{Name: Tools, Namespace: namespace},
		Spec: v1alpha1.ToolServerSpec{
			Type: v1alpha1.ToolServerHTTP, HTTP: v1alpha1.HTTPServer{URL: url, Tools: tools},
			Egress: v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}},
		},
	}
	return with(s, change)
}

// HTTPTool is a tool of an HTTP API whose arguments are words: those of the path, and whatever else is given as the body.
func HTTPTool(name string, method v1alpha1.HTTPMethod, path string) v1alpha1.HTTPTool {
	return v1alpha1.HTTPTool{
		Name: name, Description: "Does " + name + ".", Method: method, Path: path,
		Input: v1alpha1.ToolInput{Schema: &apiextensionsv1.JSON{Raw: []byte(`{"type":"object","additionalProperties":{"type":"string"}}`)}},
	}
}

// ServerNamed gives the tool server another name.
func ServerNamed(name string) func(*v1alpha1.ToolServer) {
	return func(s *v1alpha1.ToolServer) { s.Name = name }
}

// Declared says what tools of the server do.
func Declared(effect v1alpha1.Effect, names ...string) func(*v1alpha1.ToolServer) {
	return func(s *v1alpha1.ToolServer) {
		for _, name := range names {
			s.Spec.Tools = append(s.Spec.Tools, v1alpha1.ToolDeclaration{Name: name, Effect: effect})
		}
	}
}

// DeclaredTool says all there is to say about a tool of the server.
func DeclaredTool(tool v1alpha1.ToolDeclaration) func(*v1alpha1.ToolServer) {
	return func(s *v1alpha1.ToolServer) { s.Spec.Tools = append(s.Spec.Tools, tool) }
}

// Policy is the policy in force in the namespace.
func Policy(namespace string, change ...func(*v1alpha1.AgentPolicy)) *v1alpha1.AgentPolicy {
	p := &v1alpha1.AgentPolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultPolicyName, Namespace: namespace}}
	return with(p, change)
}

// Bounded gives the policy upper limits.
func Bounded(l v1alpha1.Limits) func(*v1alpha1.AgentPolicy) {
	return func(p *v1alpha1.AgentPolicy) { p.Spec.Limits = l }
}

// Allows adds a rule to the policy: these tools may be called.
func Allows(name string, tools ...string) func(*v1alpha1.AgentPolicy) {
	return ruled(v1alpha1.PolicyRule{Name: name, Match: v1alpha1.PolicyMatch{Tools: tools}, Action: v1alpha1.PolicyAllow})
}

// Denies adds a rule to the policy: these tools may not be called.
func Denies(name string, tools ...string) func(*v1alpha1.AgentPolicy) {
	return ruled(v1alpha1.PolicyRule{Name: name, Match: v1alpha1.PolicyMatch{Tools: tools}, Action: v1alpha1.PolicyDeny})
}

// Asks adds a rule to the policy: these tools need the approval of so many people of a pool.
func Asks(name, pool string, seats int32, tools ...string) func(*v1alpha1.AgentPolicy) {
	return ruled(v1alpha1.PolicyRule{
		Name: name, Match: v1alpha1.PolicyMatch{Tools: tools}, Action: v1alpha1.PolicyRequireApproval,
		Approval: v1alpha1.PolicyApproval{Pool: pool, Seats: seats},
	})
}

// Where narrows the newest rule of the policy to calls of which the expression is true.
func Where(expression string) func(*v1alpha1.AgentPolicy) {
	return func(p *v1alpha1.AgentPolicy) { p.Spec.Rules[len(p.Spec.Rules)-1].Match.Expression = expression }
}

// Within bounds, in seconds, how long the people have whom the newest rule of the policy asks.
func Within(seconds int32) func(*v1alpha1.AgentPolicy) {
	return func(p *v1alpha1.AgentPolicy) { p.Spec.Rules[len(p.Spec.Rules)-1].Approval.ExpiresSeconds = seconds }
}

func ruled(rule v1alpha1.PolicyRule) func(*v1alpha1.AgentPolicy) {
	return func(p *v1alpha1.AgentPolicy) { p.Spec.Rules = append(p.Spec.Rules, rule) }
}

// Pool is the pool that Request asks, Requester the user its run acts for.
const (
	Pool      = "finance"
	Requester = "dana"
)

// Request asks Pool whether a run may refund 120. It is open and has one seat.
func Request(name, namespace string, change ...func(*v1alpha1.ApprovalRequest)) *v1alpha1.ApprovalRequest {
	r := &v1alpha1.ApprovalRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.ApprovalRequestSpec{
			Type:      v1alpha1.ApprovalCall,
			RunRef:    v1alpha1.RunReference{Name: "triage-4711", UID: "5f0c3f4e-0000-4000-8000-000000000000"},
			Requester: v1alpha1.Principal{User: Requester},
			Pool:      Pool, Seat: 1, Seats: 1,
			ExpiresAt: metav1.NewTime(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)),
		},
	}
	Asking(3, 0, "payments/refund", `{"amount":120,"customer":"4711"}`)(r)
	return with(r, change)
}

// Asking makes the request one about this call, whose arguments are canonical JSON.
func Asking(turn, index int32, tool, arguments string) func(*v1alpha1.ApprovalRequest) {
	return func(r *v1alpha1.ApprovalRequest) {
		r.Spec.Call = v1alpha1.ApprovalRequestCall{
			Turn: &turn, Index: &index, Tool: tool, Effect: v1alpha1.EffectSend, Arguments: arguments,
			Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(arguments))),
		}
	}
}

// OfRun makes the request one of this run: about it, for its principal, and removed with it.
func OfRun(run *v1alpha1.AgentRun) func(*v1alpha1.ApprovalRequest) {
	return func(r *v1alpha1.ApprovalRequest) {
		r.Spec.RunRef = v1alpha1.RunReference{Name: run.Name, UID: run.UID}
		if run.Spec.Principal.User != "" {
			r.Spec.Requester = run.Spec.Principal
		}
		r.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(run, v1alpha1.GroupVersion.WithKind("AgentRun")),
		}
	}
}

// Seated makes the request one seat of several.
func Seated(seat, seats int32) func(*v1alpha1.ApprovalRequest) {
	return func(r *v1alpha1.ApprovalRequest) { r.Spec.Seat, r.Spec.Seats = seat, seats }
}

// AskingPool makes the request one to another pool.
func AskingPool(pool string) func(*v1alpha1.ApprovalRequest) {
	return func(r *v1alpha1.ApprovalRequest) { r.Spec.Pool = pool }
}

// Expiring is when the request expires.
func Expiring(at time.Time) func(*v1alpha1.ApprovalRequest) {
	return func(r *v1alpha1.ApprovalRequest) { r.Spec.ExpiresAt = metav1.NewTime(at) }
}

// Decided gives the request a decision. The API server takes no such request.
func Decided(verdict v1alpha1.Verdict, by string) func(*v1alpha1.ApprovalRequest) {
	return func(r *v1alpha1.ApprovalRequest) {
		r.Spec.Decision = v1alpha1.Decision{Verdict: verdict, By: by, Groups: []string{"system:authenticated"}}
	}
}

func with[T any](o *T, change []func(*T)) *T {
	for _, c := range change {
		c(o)
	}
	return o
}
