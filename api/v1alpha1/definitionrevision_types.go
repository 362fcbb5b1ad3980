package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DefinitionRevisionSpec is a compiled definition: every reference resolved, every default filled in.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a revision is immutable: edit the definition, and a new revision is made"
type DefinitionRevisionSpec struct {
	// definitionRef names the definition this revision was compiled from.
	// +required
	DefinitionRef DefinitionReference `json:"definitionRef,omitempty,omitzero"`

	// generation is the generation of the definition it was first compiled from.
	// +required
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`

	// digest is the SHA-256 of the compiled content, as sha256: and 64 hex digits. The revision's name ends in its first eight.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`

	// agent is the compiled agent.
	// +required
	Agent CompiledAgent `json:"agent,omitempty,omitzero"`
}

// DefinitionReference names a definition.
type DefinitionReference struct {
	// kind is the kind of the definition.
	// +required
	Kind DefinitionKind `json:"kind,omitempty"`

	// name is the name of the definition, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// CompiledAgent is an agent with nothing left to look up.
type CompiledAgent struct {
	// model is the endpoint as it was when the revision was compiled.
	// +required
	Model CompiledModel `json:"model,omitempty,omitzero"`

	// sampling shapes each answer of the model.
	// +optional
	Sampling Sampling `json:"sampling,omitempty,omitzero"`

	// instructions is the system prompt.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Instructions string `json:"instructions,omitempty"`

	// limits bound each run. Every field is set.
	// +required
	Limits Limits `json:"limits,omitempty,omitzero"`

	// segment sets the timers of segments. Every field is set.
	// +required
	Segment SegmentTimers `json:"segment,omitempty,omitzero"`

	// retry bounds what is tried again. Every field is set.
	// +required
	Retry Retry `json:"retry,omitempty,omitzero"`
}

// CompiledModel is a ModelEndpoint and the name it has.
type CompiledModel struct {
	// name is the name of the ModelEndpoint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// endpoint is the content of the ModelEndpoint.
	// +required
	Endpoint ModelEndpointSpec `json:"endpoint,omitempty,omitzero"`
}

// DefinitionRevision is one immutable, compiled version of a definition. The manager writes it; a run can pin it by name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=drev,categories=ekiden
// +kubebuilder:printcolumn:name="Definition",type=string,JSONPath=`.spec.definitionRef.name`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.agent.model.endpoint.model`
// +kubebuilder:printcolumn:name="Generation",type=integer,JSONPath=`.spec.generation`
// +kubebuilder:printcolumn:name="Digest",type=string,JSONPath=`.spec.digest`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DefinitionRevision struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the compiled definition.
	// +required
	Spec DefinitionRevisionSpec `json:"spec,omitempty,omitzero"`
}

// DefinitionRevisionList is a list of DefinitionRevisions.
//
// +kubebuilder:object:root=true
type DefinitionRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DefinitionRevision `json:"items"`
}
