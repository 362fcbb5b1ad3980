package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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

	// servers are the servers of the tools, as they were when the revision was compiled.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Servers []CompiledServer `json:"servers,omitempty"`

	// tools are the tools, in the order of their model-facing names.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Tools []CompiledTool `json:"tools,omitempty"`

	// onToolFailure says what follows when a tool fails. Unset means TellModel.
	// +optional
	OnToolFailure OnToolFailure `json:"onToolFailure,omitempty"`

	// onIndeterminate says what follows when nobody knows whether a call took effect. Unset means TellModel.
	// +optional
	OnIndeterminate OnIndeterminate `json:"onIndeterminate,omitempty"`

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

// CompiledServer is how a ToolServer is reached.
type CompiledServer struct {
	// name is the name of the ToolServer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// uid is the UID of the ToolServer. The contracts of its tools are kept under it.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid,omitempty"`

	// type is how the server is spoken to.
	// +required
	Type ToolServerType `json:"type,omitempty"`

	// url is the MCP endpoint or the base URL of the API.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// credentials is the key that is sent with each request. Unset means none.
	// +optional
	Credentials Credentials `json:"credentials,omitempty,omitzero"`

	// headers are sent with each request. Unset means none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Headers []Header `json:"headers,omitempty"`

	// tls says whom else to trust. Unset means nobody.
	// +optional
	TLS TLS `json:"tls,omitempty,omitzero"`

	// proxy is the proxy through which the server is reached. Unset means none.
	// +optional
	Proxy Proxy `json:"proxy,omitempty,omitzero"`

	// egress says which private addresses may be dialled. Unset means none.
	// +optional
	Egress Egress `json:"egress,omitempty,omitzero"`
}

// CompiledTool is one tool as the agent has it.
type CompiledTool struct {
	// name is the name by which the model knows the tool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	Name string `json:"name,omitempty"`

	// server is the name of the ToolServer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Server string `json:"server,omitempty"`

	// tool is the name of the tool on its server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Tool string `json:"tool,omitempty"`

	// digest pins the contract of the tool: a call of one that has changed is refused.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`

	// effect is what the tool does to the world.
	// +required
	Effect Effect `json:"effect,omitempty"`

	// idempotency says whether a call may be sent again when its outcome is unknown.
	// +required
	Idempotency Idempotency `json:"idempotency,omitempty"`

	// show says what of the arguments an approver sees.
	// +required
	Show Show `json:"show,omitempty"`

	// approval says that each call needs an approval. Unset means that the policy decides.
	// +optional
	Approval ToolApproval `json:"approval,omitempty"`

	// timeoutSeconds bounds one call, in seconds.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// maxResultBytes bounds what of a result is kept, in bytes.
	// +required
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=1048576
	MaxResultBytes int32 `json:"maxResultBytes,omitempty"`

	// http is the request that a tool of an HTTP server makes. Unset for the tools of an MCP server.
	// +optional
	HTTP CompiledRequest `json:"http,omitempty,omitzero"`

	// probe tells whether a call whose outcome is unknown took effect. Unset means that nothing does.
	// +optional
	Probe CompiledProbe `json:"probe,omitempty,omitzero"`
}

// CompiledProbe is how to find out whether a call took effect.
type CompiledProbe struct {
	// tool is the name of the tool that is asked, on the same server. It only reads.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Tool string `json:"tool,omitempty"`

	// digest pins the contract of that tool: one that has changed is not asked.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`

	// arguments is the expression that makes its arguments.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Arguments string `json:"arguments,omitempty"`

	// happened is the expression that reads its answer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Happened string `json:"happened,omitempty"`

	// timeoutSeconds bounds one question, in seconds.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// maxResultBytes bounds what of an answer is read, in bytes.
	// +required
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=1048576
	MaxResultBytes int32 `json:"maxResultBytes,omitempty"`

	// http is the request that the question makes on an HTTP server. Unset for an MCP server.
	// +optional
	HTTP CompiledRequest `json:"http,omitempty,omitzero"`
}

// CompiledRequest is the request that a tool of an HTTP server makes.
type CompiledRequest struct {
	// method is the method of the request.
	// +required
	Method HTTPMethod `json:"method,omitempty"`

	// path is appended to the URL of the server. Names in braces stand for arguments.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`

	// query lists the arguments that are sent as query parameters. Unset means none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Query []string `json:"query,omitempty"`

	// body says what is sent as the body.
	// +required
	Body HTTPBody `json:"body,omitempty"`
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
