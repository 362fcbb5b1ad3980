package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AgentRunSpec is what the caller asks for.
//
// +kubebuilder:validation:XValidation:rule="self.definitionRef == oldSelf.definitionRef",message="spec.definitionRef is immutable: create another run"
// +kubebuilder:validation:XValidation:rule="self.input == oldSelf.input",message="spec.input is immutable: create another run"
// +kubebuilder:validation:XValidation:rule="has(self.limits) == has(oldSelf.limits) && (!has(self.limits) || self.limits == oldSelf.limits)",message="spec.limits is immutable: create another run"
// +kubebuilder:validation:XValidation:rule="has(self.idempotencyKey) == has(oldSelf.idempotencyKey) && (!has(self.idempotencyKey) || self.idempotencyKey == oldSelf.idempotencyKey)",message="spec.idempotencyKey is immutable: create another run"
// +kubebuilder:validation:XValidation:rule="has(self.principal) == has(oldSelf.principal) && (!has(self.principal) || self.principal == oldSelf.principal)",message="spec.principal is immutable: it says who created the run"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.desiredState) || oldSelf.desiredState != 'Cancelled' || (has(self.desiredState) && self.desiredState == 'Cancelled')",message="spec.desiredState: a cancelled run cannot be taken up again: create another run"
type AgentRunSpec struct {
	// definitionRef names the definition to run, in this namespace.
	// +required
	DefinitionRef RunDefinitionReference `json:"definitionRef,omitempty,omitzero"`

	// input is the task. Exactly one of its fields is set.
	// +required
	Input RunInput `json:"input,omitempty,omitzero"`

	// limits narrow the definition's for this run; a wider one changes nothing. Unset means the definition's.
	// +optional
	Limits Limits `json:"limits,omitempty,omitzero"`

	// idempotencyKey makes a start repeatable: of two runs of a namespace with the same key the second one fails with
	// Duplicate and names the first in status.duplicateOf. Unset means no key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[\x21-\x7e]+$`
	IdempotencyKey string `json:"idempotencyKey,omitempty"`

	// desiredState says whether the run should go on. Cancelled is final. Unset means Running.
	// +optional
	DesiredState DesiredState `json:"desiredState,omitempty"`

	// ttlSecondsAfterFinished is after how many seconds a run that has ended is deleted. Unset means never.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=315360000
	TTLSecondsAfterFinished int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// principal is who the run acts for. It is stamped with the user who creates the run; naming another one
	// takes the verb actas on the virtual resource principals of ekiden.dev.
	// +optional
	Principal Principal `json:"principal,omitempty,omitzero"`
}

// RunDefinitionReference names a definition, and perhaps one of its revisions.
type RunDefinitionReference struct {
	// kind is the kind of the definition.
	// +required
	Kind DefinitionKind `json:"kind,omitempty"`

	// name is the name of the definition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// revision pins the run to one DefinitionRevision, by name. Unset means the definition's current revision.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`
}

// RunInput is the task of a run.
//
// +kubebuilder:validation:XValidation:rule="!has(self.text) || size(bytes(self.text)) <= 32768",message="spec.input.text must have at most 32 KiB: put a longer task into a ConfigMap and name it in spec.input.from",fieldPath=".text"
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type RunInput struct {
	// text is the task in words, up to 32 KiB.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Text string `json:"text,omitempty"`

	// json is the task as a JSON value, up to 32 KiB.
	// +optional
	JSON *apiextensionsv1.JSON `json:"json,omitempty"`

	// from takes the task from elsewhere, up to 1 MiB. It is read once, when the run is admitted.
	// +optional
	From *RunInputSource `json:"from,omitempty"`
}

// RunInputSource says where the task is.
type RunInputSource struct {
	// configMap names the key of a ConfigMap of this namespace that holds the task as text.
	// +required
	ConfigMap KeyReference `json:"configMap,omitempty,omitzero"`
}

// DesiredState says whether a run should go on.
// +kubebuilder:validation:Enum=Running;Cancelled
type DesiredState string

const (
	// DesiredRunning lets the run go on to its own end.
	DesiredRunning DesiredState = "Running"
	// DesiredCancelled ends the run at its next safe point.
	DesiredCancelled DesiredState = "Cancelled"
)

// Principal is a user as the API server knows it.
type Principal struct {
	// user is the name of the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	User string `json:"user,omitempty"`

	// groups are the groups of the user at the time of creation.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Groups []string `json:"groups,omitempty"`
}

// RunPhase is the state of a run in a word, for people and for selectors. It is a printout of the conditions:
// nothing is decided by it.
// +kubebuilder:validation:Enum=Queued;Running;Waiting;Succeeded;Failed;Cancelled
type RunPhase string

const (
	// RunQueued means that the run is not admitted yet.
	RunQueued RunPhase = "Queued"
	// RunRunning means that the run has been admitted and not ended.
	RunRunning RunPhase = "Running"
	// RunWaiting means that the run waits for people, without a pod and without using active time.
	RunWaiting RunPhase = "Waiting"
	// RunSucceeded means that the run ended with a result.
	RunSucceeded RunPhase = "Succeeded"
	// RunFailed means that the run ended with an error.
	RunFailed RunPhase = "Failed"
	// RunCancelled means that the run was ended by desiredState or by its deletion.
	RunCancelled RunPhase = "Cancelled"
)

// AgentRunStatus is how the run stands. It stays under 8 KiB whatever the run does.
//
// Fields are either memory, written once and read back because their source may be gone, or report, computed
// afresh and never read. Memory are the conditions of an ended run, snapshotDigest, root, segment, startedAt and memory.
type AgentRunStatus struct {
	// conditions report the run's state. Known types: Accepted, Succeeded, Finished, CancelRequested.
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

	// phase is the state in a word.
	// +optional
	Phase RunPhase `json:"phase,omitempty"`

	// waitingOn says what the run waits for, while its phase is Waiting.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1
	WaitingOn []RunWait `json:"waitingOn,omitempty"`

	// revision names the DefinitionRevision that the run executes, once it is admitted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`

	// snapshotDigest is the SHA-256 of everything the run was started with, once it is admitted.
	// +optional
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	SnapshotDigest string `json:"snapshotDigest,omitempty"`

	// root is the run at the top of the tree. A run that nobody delegated is its own root.
	// +optional
	Root RunReference `json:"root,omitempty,omitzero"`

	// duplicateOf is the run that already holds this run's idempotencyKey.
	// +optional
	DuplicateOf RunReference `json:"duplicateOf,omitempty,omitzero"`

	// limits are the limits in force: the definition's, narrowed by policy and by the run.
	// +optional
	Limits Limits `json:"limits,omitempty,omitzero"`

	// segment is the number of the newest segment, counted from 0. Unset before the first.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Segment *int32 `json:"segment,omitempty"`

	// startedAt is when the run was admitted.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty,omitzero"`

	// finishedAt is when the run ended.
	// +optional
	FinishedAt metav1.Time `json:"finishedAt,omitempty,omitzero"`

	// activeSeconds is how long segments have worked on the run, in seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveSeconds *int32 `json:"activeSeconds,omitempty"`

	// usage is what the run has used so far.
	// +optional
	Usage RunUsage `json:"usage,omitempty,omitzero"`

	// memory is how far the run had come when this status was written. It is read back: a Postgres that knows less was restored
	// to an earlier moment, and the run ends with LedgerRolledBack.
	// +optional
	Memory RunMemory `json:"memory,omitempty,omitzero"`

	// result is what the run came to, once it has succeeded.
	// +optional
	Result RunResult `json:"result,omitempty,omitzero"`

	// error says why the run failed.
	// +optional
	Error RunError `json:"error,omitempty,omitzero"`
}

// WaitKind says what kind of thing a run waits for.
// +kubebuilder:validation:Enum=Approval
type WaitKind string

// WaitApproval means that people have to decide on calls.
const WaitApproval WaitKind = "Approval"

// RunWait is one kind of thing that a run waits for.
type RunWait struct {
	// kind is what is waited for.
	// +required
	Kind WaitKind `json:"kind,omitempty"`

	// names are the objects that are waited for: at most eight of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=80
	Names []string `json:"names,omitempty"`

	// count is how many there are.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`

	// until is when the first of them ends by itself.
	// +optional
	Until metav1.Time `json:"until,omitempty,omitzero"`
}

// RunReference names a run for good: a run that is created again under the same name has another UID.
type RunReference struct {
	// name is the name of the run, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// uid is the UID of the run.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid,omitempty"`
}

// RunUsage is what a run has used.
type RunUsage struct {
	// turns is how many model turns have been completed. Unset means none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Turns int32 `json:"turns,omitempty"`

	// toolCalls is how many tool calls have been sent. Unset means none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ToolCalls int32 `json:"toolCalls,omitempty"`

	// inputTokens counts all tokens that were read, those from a cache included. Unset means none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	InputTokens int64 `json:"inputTokens,omitempty"`

	// cachedInputTokens counts those of inputTokens that were read from a cache. Unset means none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	CachedInputTokens int64 `json:"cachedInputTokens,omitempty"`

	// outputTokens counts all tokens that were written, reasoning included. Unset means none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	OutputTokens int64 `json:"outputTokens,omitempty"`

	// cost is the price of the usage in the currency of the model endpoint, with up to six decimals, such as "0.0182".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Cost string `json:"cost,omitempty"`
}

// RunMemory is how far a run had come.
type RunMemory struct {
	// attempt is the number of the newest attempt at the newest segment, counted from 0. Unset before the first.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt *int32 `json:"attempt,omitempty"`

	// entries is the length of the transcript. Unset means none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Entries int64 `json:"entries,omitempty"`

	// callsBegun is how many tool calls were begun. Unset means none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	CallsBegun int64 `json:"callsBegun,omitempty"`

	// callsSettled is how many tool calls have an outcome, those that were refused included. Unset means none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	CallsSettled int64 `json:"callsSettled,omitempty"`

	// decisions is how many decisions on calls were taken up. Unset means none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Decisions int64 `json:"decisions,omitempty"`
}

// Completeness says whether all of a text is shown.
// +kubebuilder:validation:Enum=Whole;Truncated
type Completeness string

const (
	// Whole means that nothing is missing.
	Whole Completeness = "Whole"
	// Truncated means that only the beginning is shown; kubectl ekiden result prints all of it.
	Truncated Completeness = "Truncated"
)

// RunResult is what a run came to.
type RunResult struct {
	// text is the answer, up to 4 KiB.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Text string `json:"text,omitempty"`

	// partialReason says why the run stopped before the agent was done. Unset means that it was done.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	PartialReason string `json:"partialReason,omitempty"`

	// completeness says whether text is all of the answer.
	// +optional
	Completeness Completeness `json:"completeness,omitempty"`

	// bytes is the size of the whole answer.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Bytes int64 `json:"bytes,omitempty"`

	// digest is the SHA-256 of the whole answer, as sha256: and 64 hex digits.
	// +optional
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`
}

// RunError is why a run failed.
type RunError struct {
	// code is the reason in a word; docs/reference/reasons.md lists them with what to do.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Code string `json:"code,omitempty"`

	// message is the reason in a sentence.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// AgentRun is one run of an agent, from a task to a result.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=arun,categories=ekiden
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:selectablefield:JSONPath=`.spec.definitionRef.name`
// +kubebuilder:printcolumn:name="Definition",type=string,JSONPath=`.spec.definitionRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Waiting on",type=string,JSONPath=`.status.waitingOn[0].kind`
// +kubebuilder:printcolumn:name="Segment",type=integer,JSONPath=`.status.segment`
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.status.usage.cost`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AgentRun struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is what the caller asks for.
	// +required
	Spec AgentRunSpec `json:"spec,omitempty,omitzero"`
	// status is how the run stands.
	// +optional
	Status AgentRunStatus `json:"status,omitempty,omitzero"`
}

// AgentRunList is a list of AgentRuns.
//
// +kubebuilder:object:root=true
type AgentRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AgentRun `json:"items"`
}
