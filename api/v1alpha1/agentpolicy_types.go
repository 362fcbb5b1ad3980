package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentPolicySpec is what the platform allows the runs of a namespace.
type AgentPolicySpec struct {
	// rules say what may be called. Of the rules that match a call the most restrictive wins: Deny, then RequireApproval,
	// then Allow. Where none matches, a tool with the effect Read may be called, and any other needs the approval of the
	// pool default. Unset means no rules.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rules []PolicyRule `json:"rules,omitempty"`

	// limits are the upper bounds of every run: wider limits of a definition or a run are clipped to them.
	// Unset means no bound but the definition's.
	// +optional
	Limits Limits `json:"limits,omitempty,omitzero"`

	// pods are what the platform wants of the pods that are made for agents. They are read when a pod is made: a change reaches
	// the next one. Unset means what the policy of the manager's namespace and its flag --pod-defaults-file say.
	// +optional
	Pods PodSettings `json:"pods,omitempty,omitzero"`
}

// PolicyAction is what a rule says about the calls it matches.
// +kubebuilder:validation:Enum=Allow;RequireApproval;Deny
type PolicyAction string

const (
	// PolicyAllow lets the call run.
	PolicyAllow PolicyAction = "Allow"
	// PolicyRequireApproval lets the call run once people have approved it.
	PolicyRequireApproval PolicyAction = "RequireApproval"
	// PolicyDeny refuses the call; the model is told.
	PolicyDeny PolicyAction = "Deny"
)

// PolicyRule is one rule.
//
// +kubebuilder:validation:XValidation:rule="!has(self.approval) || self.action == 'RequireApproval'",message="approval says who approves, so it goes with action RequireApproval only"
type PolicyRule struct {
	// name names the rule; people who are asked for an approval see it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// match says which calls the rule is about. A call is matched by all of its fields that are set.
	// Unset means every call.
	// +optional
	Match PolicyMatch `json:"match,omitempty,omitzero"`

	// action is what the rule says about them.
	// +required
	Action PolicyAction `json:"action,omitempty"`

	// approval says who approves, for action RequireApproval. Unset means one person of the pool default within a day.
	// +optional
	Approval PolicyApproval `json:"approval,omitempty,omitzero"`
}

// PolicyMatch says which calls a rule is about.
//
// +kubebuilder:validation:MinProperties=1
type PolicyMatch struct {
	// tools are globs on server/tool, where * stands for any characters, such as payments/* or */delete_*.
	// One of them has to match. Unset means every tool.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Tools []string `json:"tools,omitempty"`

	// effects are effects of tools, one of which has to match. Unset means every effect.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Effects []Effect `json:"effects,omitempty"`

	// expression is a CEL expression of type bool over args (the arguments), tool (server/tool), effect, definition
	// (the name of the AgentDefinition) and principal (user and groups), such as args.amount > 100. If it fails, as when
	// an argument is missing, the call needs approval. Unset means true.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression,omitempty"`
}

// PolicyApproval says who approves.
type PolicyApproval struct {
	// pool names the approvers: whoever may approve the virtual resource approverpools of this name. Unset means default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Pool string `json:"pool,omitempty"`

	// seats is how many different people have to approve. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Seats int32 `json:"seats,omitempty"`

	// expiresSeconds is how long they have, in seconds. Unset means 86400, a day.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	ExpiresSeconds int32 `json:"expiresSeconds,omitempty"`
}

// AgentPolicyStatus says whether the policy is in force.
type AgentPolicyStatus struct {
	// conditions report whether the newest spec is in force. Known types: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the newest generation that is in force: no call begins under an older one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// AgentPolicy is what the platform allows the runs of a namespace. In force are the policy
// named default of the namespace and, as a floor under it, the one of the manager's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=apol,categories=ekiden
// +kubebuilder:printcolumn:name="Turns",type=integer,JSONPath=`.spec.limits.turns`
// +kubebuilder:printcolumn:name="Tool calls",type=integer,JSONPath=`.spec.limits.toolCalls`
// +kubebuilder:printcolumn:name="Active seconds",type=integer,JSONPath=`.spec.limits.activeSeconds`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="metadata.name must be default: only that policy is in force"
type AgentPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is what the platform allows.
	// +required
	Spec AgentPolicySpec `json:"spec,omitempty,omitzero"`
	// status says whether it is in force.
	// +optional
	Status AgentPolicyStatus `json:"status,omitempty,omitzero"`
}

// DefaultPolicyName is the name of the policy that is in force in a namespace.
const DefaultPolicyName = "default"

// AgentPolicyList is a list of AgentPolicies.
//
// +kubebuilder:object:root=true
type AgentPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AgentPolicy `json:"items"`
}
