package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ApprovalType says what a request asks.
// +kubebuilder:validation:Enum=Call;Indeterminate
type ApprovalType string

const (
	// ApprovalCall asks whether a call may run.
	ApprovalCall ApprovalType = "Call"
	// ApprovalIndeterminate asks what came of a call that was sent.
	ApprovalIndeterminate ApprovalType = "Indeterminate"
)

// ApprovalRequestSpec is one question, and the answer to it.
//
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type && self.call == oldSelf.call && self.runRef == oldSelf.runRef && self.requester == oldSelf.requester && has(self.policy) == has(oldSelf.policy) && (!has(self.policy) || self.policy == oldSelf.policy) && self.pool == oldSelf.pool && self.seat == oldSelf.seat && self.seats == oldSelf.seats && has(self.note) == has(oldSelf.note) && (!has(self.note) || self.note == oldSelf.note) && self.expiresAt == oldSelf.expiresAt",message="only spec.decision can be set: what is asked does not change"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.decision) || (has(self.decision) && self.decision == oldSelf.decision)",message="spec.decision is final: a request is decided once"
// +kubebuilder:validation:XValidation:rule="!has(self.decision) || self.decision.verdict in (self.type == 'Indeterminate' ? ['Happened', 'NotHappened', 'Retry'] : ['Approved', 'Denied'])",message="spec.decision.verdict answers another question: a request of type Call takes Approved or Denied, one of type Indeterminate takes Happened, NotHappened or Retry",fieldPath=".decision.verdict"
// +kubebuilder:validation:XValidation:rule="self.type != 'Indeterminate' || (self.seats == 1 && self.call.effect != 'Read')",message="what came of a call is asked of one person, and not of a call that only reads"
// +kubebuilder:validation:XValidation:rule="self.seat <= self.seats",message="spec.seat counts up to spec.seats",fieldPath=".seat"
type ApprovalRequestSpec struct {
	// type is what is asked. Call asks whether a call may run, and is answered with Approved or Denied. Indeterminate asks what came
	// of a call that was sent and of which nobody knows, and is answered with Happened, NotHappened or Retry.
	// +required
	Type ApprovalType `json:"type,omitempty"`

	// call is the call in question.
	// +required
	Call ApprovalRequestCall `json:"call,omitempty,omitzero"`

	// runRef is the run that waits.
	// +required
	RunRef RunReference `json:"runRef,omitempty,omitzero"`

	// requester is who the run acts for. They cannot decide.
	// +required
	Requester Principal `json:"requester,omitempty,omitzero"`

	// policy says which rule asks. Unset means that no rule does: the effect of the tool, or its definition, does.
	// +optional
	Policy ApprovalPolicyReference `json:"policy,omitempty,omitzero"`

	// note says what is out of the ordinary about the question, such as an earlier call of the tool whose outcome nobody knows.
	// Unset means nothing.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Note string `json:"note,omitempty"`

	// pool names the approvers: whoever may approve the virtual resource approverpools of this name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Pool string `json:"pool,omitempty"`

	// seat is the number of this request among those for the same call, counted from 1. Each is decided by another person.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Seat int32 `json:"seat,omitempty"`

	// seats is how many requests for the call have to be approved.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Seats int32 `json:"seats,omitempty"`

	// expiresAt is when the request expires. A decision that is first seen later is worth nothing.
	// +required
	ExpiresAt metav1.Time `json:"expiresAt,omitempty,omitzero"`

	// decision is the answer. It is given once, with kubectl patch, kubectl ekiden approve or kubectl ekiden resolve. Unset means
	// that nobody has decided.
	// +optional
	Decision Decision `json:"decision,omitempty,omitzero"`
}

// ApprovalRequestCall is the call in question.
//
// +kubebuilder:validation:XValidation:rule="!has(self.arguments) || size(bytes(self.arguments)) <= 49152",message="spec.call.arguments must have at most 48 KiB: a call with longer ones is refused, not asked about",fieldPath=".arguments"
type ApprovalRequestCall struct {
	// turn and index say which call of the run it is. Both count from 0.
	// +required
	// +kubebuilder:validation:Minimum=0
	Turn *int32 `json:"turn,omitempty"`

	// index is its place among the calls of the turn, counted from 0.
	// +required
	// +kubebuilder:validation:Minimum=0
	Index *int32 `json:"index,omitempty"`

	// tool is the tool, as server/tool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Tool string `json:"tool,omitempty"`

	// effect is what the tool does to the world.
	// +required
	Effect Effect `json:"effect,omitempty"`

	// arguments are the exact arguments in canonical JSON, up to 8 KiB, in which characters that a screen does not show, or that
	// change how others are shown, are written as \uXXXX. Unset means that the tool shows only their digest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=49152
	Arguments string `json:"arguments,omitempty"`

	// digest is the SHA-256 of the canonical arguments. A decision is about these arguments and no others.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`
}

// ApprovalPolicyReference names the rule that asks.
type ApprovalPolicyReference struct {
	// name is the name of the AgentPolicy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace is the namespace of the AgentPolicy: that of the run, or the manager's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// rule is the name of the rule.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Rule string `json:"rule,omitempty"`
}

// Verdict is an answer.
// +kubebuilder:validation:Enum=Approved;Denied;Happened;NotHappened;Retry
type Verdict string

const (
	// VerdictApproved lets the call run.
	VerdictApproved Verdict = "Approved"
	// VerdictDenied refuses the call; the model is told, with the reason.
	VerdictDenied Verdict = "Denied"
	// VerdictHappened says that the call took effect; the model is told, with the reason.
	VerdictHappened Verdict = "Happened"
	// VerdictNotHappened says that the call did not take effect; the model is told, with the reason.
	VerdictNotHappened Verdict = "NotHappened"
	// VerdictRetry has the call made again, with the same Idempotency-Key.
	VerdictRetry Verdict = "Retry"
)

// Decision is the answer of one person.
type Decision struct {
	// verdict is the answer.
	// +required
	Verdict Verdict `json:"verdict,omitempty"`

	// by is who decided. The API server stamps it; what is written here is overwritten.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	By string `json:"by,omitempty"`

	// groups are the groups of who decided. The API server stamps them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Groups []string `json:"groups,omitempty"`

	// reason says why, in words. The model is told the reason of a denial, and what is said of a call that was sent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// ApprovalPhase is the state of a request in a word. Every one but Pending is final.
// +kubebuilder:validation:Enum=Pending;Approved;Denied;Happened;NotHappened;Retry;Expired;Withdrawn
type ApprovalPhase string

const (
	// ApprovalPending means that nobody has decided.
	ApprovalPending ApprovalPhase = "Pending"
	// ApprovalApproved means that the call may run, as far as this request goes.
	ApprovalApproved ApprovalPhase = "Approved"
	// ApprovalDenied means that the call does not run.
	ApprovalDenied ApprovalPhase = "Denied"
	// ApprovalHappened means that the call took effect, says who decided.
	ApprovalHappened ApprovalPhase = "Happened"
	// ApprovalNotHappened means that it did not.
	ApprovalNotHappened ApprovalPhase = "NotHappened"
	// ApprovalRetry means that the call is made again.
	ApprovalRetry ApprovalPhase = "Retry"
	// ApprovalExpired means that nobody decided in time.
	ApprovalExpired ApprovalPhase = "Expired"
	// ApprovalWithdrawn means that the question no longer stands, or that the decision on it is void.
	ApprovalWithdrawn ApprovalPhase = "Withdrawn"
)

// ApprovalRequestStatus is how the request stands.
type ApprovalRequestStatus struct {
	// conditions tell how the request stands. Known types: Decided, ApprovalsGuarded.
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

	// phase is the state in a word. Unset means Pending.
	// +optional
	Phase ApprovalPhase `json:"phase,omitempty"`

	// decidedAt is when the manager took the decision up, or saw that there will be none.
	// +optional
	DecidedAt metav1.Time `json:"decidedAt,omitempty,omitzero"`
}

// ApprovalRequest is a question to people: may a run make this call, or what came of it? The manager creates it; a person answers
// with
//
//	kubectl patch areq NAME --type merge -p '{"spec":{"decision":{"verdict":"Approved"}}}'
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=areq,categories=ekiden
// +kubebuilder:selectablefield:JSONPath=`.spec.pool`
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Run",type=string,JSONPath=`.spec.runRef.name`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`,priority=1
// +kubebuilder:printcolumn:name="Tool",type=string,JSONPath=`.spec.call.tool`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.decision.by`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(oldSelf.spec.decision) || !has(self.spec.decision) || !has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == 'Pending'",message="spec.decision: the request is no longer open (see status.phase); if the run still wants the call, it asks again"
type ApprovalRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the question and the answer.
	// +required
	Spec ApprovalRequestSpec `json:"spec,omitempty,omitzero"`
	// status is how it stands.
	// +optional
	Status ApprovalRequestStatus `json:"status,omitempty,omitzero"`
}

// ApprovalRequestList is a list of ApprovalRequests.
//
// +kubebuilder:object:root=true
type ApprovalRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApprovalRequest `json:"items"`
}
