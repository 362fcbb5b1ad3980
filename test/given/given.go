// Package given builds the objects that tests begin with. A builder is a function with modifiers:
// given.Run("r", "ns", given.Cancelled()).
package given

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Agent is the name of the definition that runs refer to, Model that of its endpoint.
const (
	Agent = "triage"
	Model = "gpt-main"
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

func with[T any](o *T, change []func(*T)) *T {
	for _, c := range change {
		c(o)
	}
	return o
}
