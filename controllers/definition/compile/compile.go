// Package compile turns a definition and what it refers to into a revision. It is pure.
package compile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/budget"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// Defaults of an AgentDefinition. The API's field comments promise them.
const (
	Segments             = 20
	Turns                = 40
	ToolCalls            = 40
	ActiveSeconds        = 1800
	SoftSeconds          = 90
	HardSeconds          = 120
	MaxAttempts          = 5
	BaseSeconds          = 1
	CapSeconds           = 60
	MaxRetryAfterSeconds = 60
	FirstTokenSeconds    = 120
	IdleSeconds          = 60
	TotalSeconds         = 600
	RevisionHistoryLimit = 10
)

// Problem says why a definition does not compile.
type Problem struct{ Reason, Message string }

// Agent compiles a definition. endpoint is the ModelEndpoint it refers to, or nil if there is none; servers are the
// ToolServers it refers to that exist, by their names.
func Agent(def *v1alpha1.AgentDefinition, endpoint *v1alpha1.ModelEndpoint, servers map[string]*v1alpha1.ToolServer) (*v1alpha1.DefinitionRevision, *Problem) {
	if endpoint == nil {
		return nil, &Problem{v1alpha1.ReasonModelEndpointNotFound, fmt.Sprintf("spec.modelRef.name: there is no ModelEndpoint %q in this namespace", def.Spec.ModelRef.Name)}
	}
	if p := check(endpoint); p != nil {
		return nil, p
	}
	reached, tools, p := toolsOf(def, servers)
	if p != nil {
		return nil, p
	}
	agent := v1alpha1.CompiledAgent{
		Model:           v1alpha1.CompiledModel{Name: endpoint.Name, Endpoint: *endpoint.Spec.DeepCopy()},
		Sampling:        def.Spec.Sampling,
		Instructions:    def.Spec.Instructions,
		Servers:         reached,
		Tools:           tools,
		OnToolFailure:   cmp.Or(def.Spec.OnToolFailure, v1alpha1.ToolFailureTellModel),
		OnIndeterminate: def.Spec.OnIndeterminate, // unset is kept: a default that is filled in would give every definition a new revision
		Limits:          def.Spec.Limits,
		Segment:         def.Spec.Segment,
		Retry:           def.Spec.Retry,
	}
	fill(&agent)
	body, err := json.Marshal(agent)
	if err != nil {
		return nil, &Problem{v1alpha1.ReasonInvalid, "the compiled definition cannot be encoded: " + err.Error()}
	}
	digest := contract.Digest(body)
	return &v1alpha1.DefinitionRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(def.Name, digest),
			Namespace:       def.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(def, v1alpha1.GroupVersion.WithKind("AgentDefinition"))},
		},
		Spec: v1alpha1.DefinitionRevisionSpec{
			DefinitionRef: v1alpha1.DefinitionReference{Kind: v1alpha1.AgentDefinitionKind, Name: def.Name},
			Generation:    def.Generation,
			Digest:        digest,
			Agent:         agent,
		},
	}, nil
}

// Name is the name of a revision: its definition's, and the first eight digits of its digest.
func Name(definition, digest string) string {
	cut := definition[:min(len(definition), 240)]
	return strings.TrimRight(cut, "-.") + "-" + strings.TrimPrefix(digest, "sha256:")[:8]
}

// check refuses what the schema cannot.
func check(e *v1alpha1.ModelEndpoint) *Problem {
	invalid := func(field string, err error) *Problem {
		return &Problem{v1alpha1.ReasonInvalid, fmt.Sprintf("ModelEndpoint %q: spec.%s: %v", e.Name, field, err)}
	}
	if _, err := budget.PriceOf(e.Spec.Pricing); err != nil {
		return invalid("pricing", err)
	}
	if err := CheckEgress(e.Spec.Egress); err != nil {
		return invalid("egress.allow", err)
	}
	return nil
}

// CheckEgress reports an address range that is none.
func CheckEgress(e v1alpha1.Egress) error {
	for _, c := range e.Allow {
		if _, err := netip.ParsePrefix(c); err != nil {
			return err
		}
	}
	return nil
}

// fill puts the defaults where nothing is said, so that a revision shows what it means after the defaults have changed.
func fill(a *v1alpha1.CompiledAgent) {
	t := &a.Model.Endpoint.Timeouts
	for _, f := range []struct {
		field *int32
		value int32
	}{
		{&a.Limits.Segments, Segments},
		{&a.Limits.Turns, Turns},
		{&a.Limits.ToolCalls, ToolCalls},
		{&a.Limits.ActiveSeconds, ActiveSeconds},
		{&a.Segment.SoftSeconds, SoftSeconds},
		{&a.Segment.HardSeconds, HardSeconds},
		{&a.Retry.MaxAttempts, MaxAttempts},
		{&a.Retry.BaseSeconds, BaseSeconds},
		{&a.Retry.CapSeconds, CapSeconds},
		{&a.Retry.MaxRetryAfterSeconds, MaxRetryAfterSeconds},
		{&t.FirstTokenSeconds, FirstTokenSeconds},
		{&t.IdleSeconds, IdleSeconds},
		{&t.TotalSeconds, TotalSeconds},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
}
