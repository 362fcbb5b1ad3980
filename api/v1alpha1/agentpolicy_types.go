package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentPolicySpec is what the platform allows the runs of a namespace.
type AgentPolicySpec struct {
	// limits are the upper bounds of every run: wider limits of a definition or a run are clipped to them.
	// Unset means no bound but the definition's.
	// +optional
	Limits Limits `json:"limits,omitempty,omitzero"`
}

// AgentPolicy is what the platform allows the runs of a namespace. In force are the policy
// named default of the namespace and, as a floor under it, the one of the manager's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=apol,categories=ekiden
// +kubebuilder:printcolumn:name="Turns",type=integer,JSONPath=`.spec.limits.turns`
// +kubebuilder:printcolumn:name="Segments",type=integer,JSONPath=`.spec.limits.segments`
// +kubebuilder:printcolumn:name="Active seconds",type=integer,JSONPath=`.spec.limits.activeSeconds`
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
