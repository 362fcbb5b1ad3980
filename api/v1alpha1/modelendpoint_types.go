package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ModelProtocol names the wire protocol of a model endpoint.
// +kubebuilder:validation:Enum=OpenAIChat
type ModelProtocol string

// OpenAIChat is the Chat Completions protocol of OpenAI and of the many servers that are compatible with it.
const OpenAIChat ModelProtocol = "OpenAIChat"

// ModelEndpointSpec says where a model answers and what it costs.
type ModelEndpointSpec struct {
	// protocol is how the endpoint is spoken to.
	// +required
	Protocol ModelProtocol `json:"protocol,omitempty"`

	// url is the base URL of the endpoint, such as https://llm.example/v1. Only http and https; no user, query or fragment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="url must be an absolute http or https URL, such as https://llm.example/v1"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@') && !self.contains('?') && !self.contains('#')",message="url must have no user, query or fragment: credentials belong in spec.credentials"
	URL string `json:"url,omitempty"`

	// model is the name of the model as the endpoint knows it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`

	// credentials is the key that is sent with each request. Unset means that the endpoint wants none.
	// +optional
	Credentials Credentials `json:"credentials,omitempty,omitzero"`

	// headers are sent with each request. They are not secret. Unset means none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Headers []Header `json:"headers,omitempty"`

	// tls says whom else to trust besides the certificate authorities of the image. Unset means nobody.
	// +optional
	TLS TLS `json:"tls,omitempty,omitzero"`

	// proxy is the proxy through which the endpoint is reached. Unset means none: variables such as HTTPS_PROXY are not heeded.
	// +optional
	Proxy Proxy `json:"proxy,omitempty,omitzero"`

	// egress says which private addresses segments may dial to reach the endpoint. Unset means none.
	// +optional
	Egress Egress `json:"egress,omitempty,omitzero"`

	// timeouts bound one model call. Unset means the default of each timeout.
	// +optional
	Timeouts ModelTimeouts `json:"timeouts,omitempty,omitzero"`

	// contextWindowTokens is how many tokens the model reads at most, prompt and answer together. Unset means unknown.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	ContextWindowTokens int32 `json:"contextWindowTokens,omitempty"`

	// pricing is what the endpoint charges. Unset means that the price is unknown: cost is then reported as zero.
	// +optional
	Pricing Pricing `json:"pricing,omitempty,omitzero"`
}

// Credentials names a key in a Secret and the header in which it travels.
type Credentials struct {
	// secretRef names the key in a Secret of this namespace. It is mounted into segments as a file and read anew by each segment.
	// +required
	SecretRef KeyReference `json:"secretRef,omitempty,omitzero"`

	// header is the name of the header. Unset means Authorization.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9]+$`
	Header string `json:"header,omitempty"`

	// prefix is put before the key in the header. Unset means "Bearer " for the header Authorization, and nothing for any other.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Prefix string `json:"prefix,omitempty"`
}

// Header is one HTTP header.
type Header struct {
	// name is the name of the header. Headers that carry credentials or frame the request are refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9]+$`
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['authorization', 'proxy-authorization', 'cookie', 'host', 'content-length', 'content-type', 'transfer-encoding', 'connection'])",message="this header cannot be set here: a key belongs in spec.credentials, the others are set by the client"
	Name string `json:"name,omitempty"`

	// value is the value of the header.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[\x20-\x7e]+$`
	Value string `json:"value,omitempty"`
}

// TLS says whom to trust.
type TLS struct {
	// caBundle holds certificates of authorities, in PEM, that are trusted besides those of the image.
	// +required
	CABundle CABundle `json:"caBundle,omitempty,omitzero"`
}

// CABundle says where certificates are.
type CABundle struct {
	// configMap names the key in a ConfigMap of this namespace. It is mounted into segments as a file and read anew by each segment.
	// +required
	ConfigMap KeyReference `json:"configMap,omitempty,omitzero"`
}

// Proxy is an HTTP proxy. Connections with TLS go through it by CONNECT, so that it sees only the name of the host.
//
// It is the proxy's address that is dialled then, so that is what has to be public or listed in egress.allow. The host behind it is
// looked up by the proxy and not here: a host that is written as an address, or that names this machine or a metadata service, is
// checked as before, and about every other name the proxy decides.
type Proxy struct {
	// url is the URL of the proxy, such as http://proxy.corp:3128. Only http and https; no user, path, query or fragment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != '' && url(self).getEscapedPath() in ['', '/']",message="url must be an absolute http or https URL without a path, such as http://proxy.corp:3128"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@') && !self.contains('?') && !self.contains('#')",message="url must have no user, query or fragment"
	URL string `json:"url,omitempty"`
}

// Egress lists private address ranges that may be dialled.
type Egress struct {
	// allow lists address ranges in CIDR notation. Loopback, private, link-local and other special ranges are refused unless listed here.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="allow must list address ranges in CIDR notation, such as 10.20.0.0/16"
	Allow []string `json:"allow,omitempty"`
}

// ModelTimeouts bound one model call in time.
type ModelTimeouts struct {
	// firstTokenSeconds bounds the wait for the first token of an answer, in seconds. Unset means 120.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	FirstTokenSeconds int32 `json:"firstTokenSeconds,omitempty"`

	// idleSeconds bounds the pause between two pieces of an answer, in seconds. Unset means 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	IdleSeconds int32 `json:"idleSeconds,omitempty"`

	// totalSeconds bounds a whole model call, in seconds. Unset means 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	TotalSeconds int32 `json:"totalSeconds,omitempty"`
}

// Currency names the currency of prices.
// +kubebuilder:validation:Enum=USD
type Currency string

// USD is the United States dollar, the only currency so far.
const USD Currency = "USD"

// Pricing is what a model endpoint charges, in decimal numbers per million tokens.
type Pricing struct {
	// currency is the currency of all prices here.
	// +required
	Currency Currency `json:"currency,omitempty"`

	// inputPerMTok is the price of a million input tokens that were not read from a cache, such as "1.25".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{1,6}(\.[0-9]{1,6})?$`
	InputPerMTok string `json:"inputPerMTok,omitempty"`

	// outputPerMTok is the price of a million output tokens, reasoning included.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{1,6}(\.[0-9]{1,6})?$`
	OutputPerMTok string `json:"outputPerMTok,omitempty"`

	// cacheReadPerMTok is the price of a million input tokens that were read from a cache. Unset means inputPerMTok.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{1,6}(\.[0-9]{1,6})?$`
	CacheReadPerMTok string `json:"cacheReadPerMTok,omitempty"`
}

// ModelEndpoint is one model at one endpoint, with its credentials and prices. Writing one
// equals reading the Secrets of its namespace, so it belongs to the platform, not to authors of agents.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=mep,categories=ekiden
// +kubebuilder:printcolumn:name="Protocol",type=string,JSONPath=`.spec.protocol`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.spec.credentials.secretRef.name`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ModelEndpoint struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec says where the model answers and what it costs.
	// +required
	Spec ModelEndpointSpec `json:"spec,omitempty,omitzero"`
}

// ModelEndpointList is a list of ModelEndpoints.
//
// +kubebuilder:object:root=true
type ModelEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ModelEndpoint `json:"items"`
}
