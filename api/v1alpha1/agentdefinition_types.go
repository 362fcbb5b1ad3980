package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentDefinitionSpec is what an author wants an agent to be.
type AgentDefinitionSpec struct {
	// description says in a sentence what the agent does, for people who choose one.
	// Unset means no description.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// modelRef names the ModelEndpoint that answers the agent's turns.
	// +required
	ModelRef LocalReference `json:"modelRef,omitempty,omitzero"`

	// sampling shapes each answer of the model. Unset means the endpoint's own defaults.
	// +optional
	Sampling Sampling `json:"sampling,omitempty,omitzero"`

	// instructions is the system prompt, passed to the model as it is written: nothing in it is a template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Instructions string `json:"instructions,omitempty"`

	// tools are the tools the agent may use. Unset means none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Tools []ToolSelection `json:"tools,omitempty"`

	// onToolFailure says what follows when a tool answers that it has failed. Unset means TellModel.
	// +optional
	OnToolFailure OnToolFailure `json:"onToolFailure,omitempty"`

	// onIndeterminate says what follows when nobody knows whether a call took effect, and no probe of its tool can tell. Unset
	// means TellModel.
	// +optional
	OnIndeterminate OnIndeterminate `json:"onIndeterminate,omitempty"`

	// limits bound each run of the agent. Unset means the default of each limit.
	// +optional
	Limits Limits `json:"limits,omitempty,omitzero"`

	// segment sets the timers of the segments a run is cut into. Unset means the default of each timer.
	// +optional
	Segment SegmentTimers `json:"segment,omitempty,omitzero"`

	// retry says how often a model call, and a segment that crashes, is tried again. Unset means the default of each field.
	// +optional
	Retry Retry `json:"retry,omitempty,omitzero"`

	// revisionHistoryLimit is how many revisions that are not current are kept. Unset means 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit int32 `json:"revisionHistoryLimit,omitempty"`
}

// ToolSelection takes some tools of one server.
type ToolSelection struct {
	// serverRef names the ToolServer.
	// +required
	ServerRef LocalReference `json:"serverRef,omitempty,omitzero"`

	// names are the names of tools on the server.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Names []string `json:"names,omitempty"`

	// approval says that each call needs an approval whatever the policy allows. Unset means that the policy decides.
	// +optional
	Approval ToolApproval `json:"approval,omitempty"`
}

// ToolApproval says whether calls need an approval in any case.
// +kubebuilder:validation:Enum=Required
type ToolApproval string

// ToolApprovalRequired means that each call needs an approval.
const ToolApprovalRequired ToolApproval = "Required"

// OnToolFailure says what follows when a tool answers that it has failed.
// +kubebuilder:validation:Enum=TellModel;FailRun
type OnToolFailure string

const (
	// ToolFailureTellModel gives the failure to the model as the result of its call.
	ToolFailureTellModel OnToolFailure = "TellModel"
	// ToolFailureFailRun ends the run, for tools that are the source of truth.
	ToolFailureFailRun OnToolFailure = "FailRun"
)

// OnIndeterminate says what follows when nobody knows whether a call took effect.
// +kubebuilder:validation:Enum=TellModel;Ask;FailRun
type OnIndeterminate string

const (
	// IndeterminateTellModel tells the model that nobody knows. Each later call of the tool that is no Read needs an approval.
	IndeterminateTellModel OnIndeterminate = "TellModel"
	// IndeterminateAsk asks a person whether it happened, or whether to try again. The run waits for the answer.
	IndeterminateAsk OnIndeterminate = "Ask"
	// IndeterminateFailRun ends the run.
	IndeterminateFailRun OnIndeterminate = "FailRun"
)

// Sampling shapes each answer of the model.
type Sampling struct {
	// maxOutputTokens bounds one answer, in tokens. An answer that is cut there is continued in the next turn.
	// Unset means that the endpoint decides.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxOutputTokens int32 `json:"maxOutputTokens,omitempty"`
}

// SegmentTimers bound one segment in time.
//
// +kubebuilder:validation:XValidation:rule="(has(self.softSeconds) ? self.softSeconds : 90) < (has(self.hardSeconds) ? self.hardSeconds : 120)",message="softSeconds (90 if unset) must be less than hardSeconds (120 if unset): what lies between is for saving"
type SegmentTimers struct {
	// softSeconds is after how many seconds a segment begins nothing new and hands over. Unset means 90.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	SoftSeconds int32 `json:"softSeconds,omitempty"`

	// hardSeconds is after how many seconds a segment cuts what it is doing, unless it is its first act:
	// that one has the time of its own timeout. Unset means 120.
	// +optional
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=3660
	HardSeconds int32 `json:"hardSeconds,omitempty"`
}

// Retry bounds what is tried again, and how soon.
type Retry struct {
	// maxAttempts is how many requests one model call may cost, and how often a segment may crash, before the run fails.
	// Unset means 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// baseSeconds is the upper bound of the first pause, in seconds; it doubles with each further one. The pause itself is drawn evenly from zero to the bound.
	// Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	BaseSeconds int32 `json:"baseSeconds,omitempty"`

	// capSeconds is the greatest upper bound of a pause, in seconds. Unset means 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	CapSeconds int32 `json:"capSeconds,omitempty"`

	// maxRetryAfterSeconds is the longest Retry-After of a model endpoint that is waited for, in seconds;
	// a longer one ends the run with QuotaExhausted. Unset means 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxRetryAfterSeconds int32 `json:"maxRetryAfterSeconds,omitempty"`
}

// AgentDefinitionStatus is what came of the definition.
type AgentDefinitionStatus struct {
	// conditions report whether the newest edit compiled. Known types: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation this status speaks about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// currentRevision names the DefinitionRevision that new runs use: the newest edit that compiled.
	// Unset means that none has compiled yet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CurrentRevision string `json:"currentRevision,omitempty"`
}

// AgentDefinition is an agent: its model, its instructions and its limits. Applying one
// compiles it into an immutable DefinitionRevision; runs use the current revision.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=adef,categories=ekiden
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.modelRef.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.currentRevision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AgentDefinition struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is what the author wants the agent to be.
	// +required
	Spec AgentDefinitionSpec `json:"spec,omitempty,omitzero"`
	// status is what came of it.
	// +optional
	Status AgentDefinitionStatus `json:"status,omitempty,omitzero"`
}

// AgentDefinitionList is a list of AgentDefinitions.
//
// +kubebuilder:object:root=true
type AgentDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AgentDefinition `json:"items"`
}
