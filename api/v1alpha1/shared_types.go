package v1alpha1

// LocalReference names an object of a known kind in the same namespace.
type LocalReference struct {
	// name is the name of the object, in the namespace of the object that refers to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// KeyReference names one key of a Secret or ConfigMap in the same namespace.
type KeyReference struct {
	// name is the name of the Secret or ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key is the key whose value is meant.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// DefinitionKind says what kind of definition a run executes.
// +kubebuilder:validation:Enum=AgentDefinition
type DefinitionKind string

// AgentDefinitionKind is the kind of definitions that describe one agent.
const AgentDefinitionKind DefinitionKind = "AgentDefinition"

// Limits bound a run. A limit only ever narrows on its way down: a policy clips a
// definition, a definition clips a run.
//
// The word appears in three places. In a policy and in a run a field that is unset
// does not narrow; in a definition it means the default given below.
type Limits struct {
	// segments is how many segments a run may use. A checkpoint on the last one ends the run.
	// Unset in a definition means 20.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Segments int32 `json:"segments,omitempty"`

	// turns is how many model turns a run may take. Unset in a definition means 40.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Turns int32 `json:"turns,omitempty"`

	// toolCalls is how many tool calls a run may make. Calls that were refused do not count. Unset in a definition means 40.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	ToolCalls int32 `json:"toolCalls,omitempty"`

	// activeSeconds is how long a run may work, in seconds. Only time in which a segment
	// holds the run counts; waiting does not. Unset in a definition means 1800.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	ActiveSeconds int32 `json:"activeSeconds,omitempty"`
}
