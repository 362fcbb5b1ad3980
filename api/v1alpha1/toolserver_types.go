package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ToolServerType says how a tool server is spoken to.
// +kubebuilder:validation:Enum=MCP;HTTP
type ToolServerType string

const (
	// ToolServerMCP is a server of the Model Context Protocol over streamable HTTP. Its tools are discovered.
	ToolServerMCP ToolServerType = "MCP"
	// ToolServerHTTP is an HTTP API whose tools are written down in the object.
	ToolServerHTTP ToolServerType = "HTTP"
)

// ToolServerSpec says where tools are served and what each of them does to the world.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'MCP' ? has(self.mcp) && !has(self.http) : true",message="a server of type MCP has mcp set and http unset"
// +kubebuilder:validation:XValidation:rule="self.type == 'HTTP' ? has(self.http) && !has(self.mcp) : true",message="a server of type HTTP has http set and mcp unset"
type ToolServerSpec struct {
	// type is how the server is spoken to.
	// +required
	Type ToolServerType `json:"type,omitempty"`

	// mcp is the MCP endpoint, for type MCP.
	// +optional
	MCP MCPServer `json:"mcp,omitempty,omitzero"`

	// http describes the API and its tools, for type HTTP.
	// +optional
	HTTP HTTPServer `json:"http,omitempty,omitzero"`

	// release says which release of the server this describes, such as a version or a date. Its value means nothing;
	// changing it, like any change of the spec, has the tools discovered again. Unset means no name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Release string `json:"release,omitempty"`

	// credentials is the key that is sent with each request. Unset means that the server wants none.
	// +optional
	Credentials Credentials `json:"credentials,omitempty,omitzero"`

	// headers are sent with each request. They are not secret. Unset means none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(h, !(h.name.lowerAscii() in ['accept', 'idempotency-key', 'last-event-id', 'mcp-protocol-version', 'mcp-session-id']))",message="headers that the client sets for each request cannot be set here: Accept, Idempotency-Key, Last-Event-ID, Mcp-Protocol-Version, Mcp-Session-Id"
	Headers []Header `json:"headers,omitempty"`

	// tls says whom else to trust besides the certificate authorities of the image. Unset means nobody.
	// +optional
	TLS TLS `json:"tls,omitempty,omitzero"`

	// proxy is the proxy through which the server is reached. Unset means none: variables such as HTTPS_PROXY are not heeded.
	// +optional
	Proxy Proxy `json:"proxy,omitempty,omitzero"`

	// egress says which private addresses segments may dial to reach the server. Unset means none.
	// +optional
	Egress Egress `json:"egress,omitempty,omitzero"`

	// tools declare what tools do. A tool that the server offers and that is not declared has the effect Write.
	// What the server itself says about effects is not believed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Tools []ToolDeclaration `json:"tools,omitempty"`
}

// MCPServer is an endpoint of the Model Context Protocol.
type MCPServer struct {
	// url is the endpoint, such as http://crm-mcp.support.svc:8080/mcp. Only http and https; no user, query or fragment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="url must be an absolute http or https URL, such as http://crm-mcp.support.svc:8080/mcp"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@') && !self.contains('?') && !self.contains('#')",message="url must have no user, query or fragment: credentials belong in spec.credentials"
	URL string `json:"url,omitempty"`
}

// HTTPServer is an HTTP API and the tools made of it.
type HTTPServer struct {
	// url is the base URL of the API. Only http and https; no user, query or fragment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="url must be an absolute http or https URL, such as https://crm.example/api"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@') && !self.contains('?') && !self.contains('#')",message="url must have no user, query or fragment: credentials belong in spec.credentials"
	URL string `json:"url,omitempty"`

	// tools are the tools made of the API.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Tools []HTTPTool `json:"tools,omitempty"`
}

// HTTPMethod is the method of a request.
// +kubebuilder:validation:Enum=GET;POST;PUT;PATCH;DELETE
type HTTPMethod string

// HTTPBody says what is sent as the body of a request.
// +kubebuilder:validation:Enum=None;Rest
type HTTPBody string

const (
	// HTTPBodyNone means that the request has no body.
	HTTPBodyNone HTTPBody = "None"
	// HTTPBodyRest means a JSON object of all arguments that are used in neither path nor query.
	HTTPBodyRest HTTPBody = "Rest"
)

// HTTPTool is one tool made of an HTTP API.
type HTTPTool struct {
	// name is the name of the tool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	Name string `json:"name,omitempty"`

	// description tells the model what the tool does and when to use it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// method is the method of the request.
	// +required
	Method HTTPMethod `json:"method,omitempty"`

	// path is appended to the URL. A name in braces stands for the argument of that name, escaped, such as /customers/{id}.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/([^?#{}\s]|\{[^?#{}/\s]+\})*$`
	Path string `json:"path,omitempty"`

	// query lists the arguments that are sent as query parameters of the same name. Unset means none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Query []string `json:"query,omitempty"`

	// body says what is sent as the body. Unset means None for GET and DELETE, Rest for the others.
	// +optional
	Body HTTPBody `json:"body,omitempty"`

	// input describes the arguments.
	// +required
	Input ToolInput `json:"input,omitempty,omitzero"`
}

// ToolInput describes the arguments of a tool.
type ToolInput struct {
	// schema is a JSON Schema of type object, up to 32 KiB. References may only point into the schema itself.
	// +required
	// +kubebuilder:validation:Type=object
	Schema *apiextensionsv1.JSON `json:"schema,omitempty"`
}

// Effect is what a tool does to the world.
// +kubebuilder:validation:Enum=Read;Write;Send
type Effect string

const (
	// EffectRead changes nothing: repeating it is harmless.
	EffectRead Effect = "Read"
	// EffectWrite changes something that can be looked up or undone.
	EffectWrite Effect = "Write"
	// EffectSend leaves for somebody else: money, a mail, an order. It cannot be taken back.
	EffectSend Effect = "Send"
)

// Idempotency says whether a call may be sent again when its outcome is unknown.
// +kubebuilder:validation:Enum=None;Key
type Idempotency string

const (
	// IdempotencyNone means that a call whose outcome is unknown is never sent again by itself.
	IdempotencyNone Idempotency = "None"
	// IdempotencyKey means that the server does a call once per Idempotency-Key, so that it may be sent again with the same key.
	IdempotencyKey Idempotency = "Key"
)

// Show says what of a call's arguments an approver sees.
// +kubebuilder:validation:Enum=Arguments;Digest
type Show string

const (
	// ShowArguments means the exact arguments.
	ShowArguments Show = "Arguments"
	// ShowDigest means only their digest: they are not stored in the API.
	ShowDigest Show = "Digest"
)

// ToolDeclaration says what a tool does.
//
// +kubebuilder:validation:XValidation:rule="!has(self.probe) || !has(self.effect) || self.effect != 'Read'",message="a tool that only reads needs no probe: its calls are made again",fieldPath=".probe"
type ToolDeclaration struct {
	// name is the name of the tool on the server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// effect is what the tool does to the world. Unset means Write.
	// +optional
	Effect Effect `json:"effect,omitempty"`

	// idempotency says whether the server honours the Idempotency-Key that goes out with each call. Unset means None.
	// +optional
	Idempotency Idempotency `json:"idempotency,omitempty"`

	// show says what of the arguments an approver sees. Unset means Arguments.
	// +optional
	Show Show `json:"show,omitempty"`

	// as is the name by which the model knows the tool. Unset means the name of the server, two underscores and the
	// name of the tool.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	As string `json:"as,omitempty"`

	// timeoutSeconds bounds one call, in seconds. Unset means 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// maxResultBytes bounds what of a result is kept and shown to the model, in bytes. Unset means 65536.
	// +optional
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=1048576
	MaxResultBytes int32 `json:"maxResultBytes,omitempty"`

	// probe says how to find out whether a call took effect of which nobody knows. Unset means that it cannot be found out.
	// +optional
	Probe Probe `json:"probe,omitempty,omitzero"`
}

// Probe is how to find out whether a call took effect. It has to see also what the server has taken and is still doing: a call
// that it does not see is made again.
type Probe struct {
	// tool is the name of the tool to ask, on the same server. It is declared in spec.tools with the effect Read.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Tool string `json:"tool,omitempty"`

	// arguments is a CEL expression that makes the arguments of the question, a map, such as {'key': key}. It sees args, which are
	// the arguments of the call in question, and key, which is the Idempotency-Key that went out with it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Arguments string `json:"arguments,omitempty"`

	// happened is a CEL expression that is true if the call took effect and false if it did not, such as size(answer.refunds) > 0.
	// It sees answer, which is the answer of the tool if that is JSON and else null, and text, which is the answer as it came. If it
	// fails, or the question does, onIndeterminate of the definition decides.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Happened string `json:"happened,omitempty"`
}

// ToolServerStatus is what the newest discovery found.
type ToolServerStatus struct {
	// conditions report whether the tools of the newest spec are known. Known types: Ready.
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

	// discoveredGeneration is the generation whose discovery tools shows. It lags while a newer one has not succeeded.
	// +optional
	// +kubebuilder:validation:Minimum=1
	DiscoveredGeneration int64 `json:"discoveredGeneration,omitempty"`

	// tools are the tools that the server offers, at most 128. Their schemas are in Postgres.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Tools []DiscoveredTool `json:"tools,omitempty"`
}

// DiscoveredTool is one tool that a server offers.
type DiscoveredTool struct {
	// name is the name of the tool on the server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// digest is the SHA-256 of the tool's contract: its name, description and input schema.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`

	// effect is the effect in force: the declared one, or Write.
	// +required
	Effect Effect `json:"effect,omitempty"`

	// description is the beginning of what the server says about the tool.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Description string `json:"description,omitempty"`
}

// ToolServer is an MCP server or an HTTP API, with what each of its tools does to the world. Writing one
// equals reading the Secrets of its namespace, so it belongs to the platform, not to authors of agents.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=tsrv,categories=ekiden
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.spec.release`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ToolServer struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec says where the tools are and what they do.
	// +required
	Spec ToolServerSpec `json:"spec,omitempty,omitzero"`
	// status is what was found there.
	// +optional
	Status ToolServerStatus `json:"status,omitempty,omitzero"`
}

// ToolServerList is a list of ToolServers.
//
// +kubebuilder:object:root=true
type ToolServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ToolServer `json:"items"`
}
