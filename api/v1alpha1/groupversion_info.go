package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "ekiden.dev", Version: "v1alpha1"}

// AddToScheme adds the kinds in this package to s.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&AgentDefinition{}, &AgentDefinitionList{},
		&AgentPolicy{}, &AgentPolicyList{},
		&AgentRun{}, &AgentRunList{},
		&ApprovalRequest{}, &ApprovalRequestList{},
		&DefinitionRevision{}, &DefinitionRevisionList{},
		&ModelEndpoint{}, &ModelEndpointList{},
		&ToolServer{}, &ToolServerList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
