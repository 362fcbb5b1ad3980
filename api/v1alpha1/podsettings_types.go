package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// PodSettings are what the platform wants of every pod that is made for agents: those of segments and those that ask tool
// servers. They are read when a pod is made and are no part of a run's snapshot, so a change reaches the next pod.
//
// Four layers are laid over each other: what Ekiden sets by itself, the file of the manager's flag --pod-defaults-file, the
// AgentPolicy of the manager's namespace, that of the pod's namespace. Of a single value the last one that is set counts; maps
// and lists are merged by their keys.
//
// What makes the pods what they are cannot be set here: they hold no credentials of Kubernetes whatever their service
// account, run as nobody, and write nowhere.
type PodSettings struct {
	// serviceAccountName is the service account of the pods, in their namespace. Its token is never mounted. Unset means default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// imagePullSecrets are Secrets of the pod's namespace with which the image is pulled. Unset means none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []LocalReference `json:"imagePullSecrets,omitempty"`

	// nodeSelector are labels that a node needs for the pods. Unset means any node.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !format.qualifiedName().validate(k).hasValue())",message="nodeSelector wants keys of labels, such as node-pool"
	NodeSelector map[string]PodLabelValue `json:"nodeSelector,omitempty"` //nolint:kubeapilinter // nomaps: it is written as in a pod, and merges by its keys

	// tolerations are taints that the pods tolerate. Unset means none but those of every pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Tolerations []PodToleration `json:"tolerations,omitempty"`

	// resources are what the container asks for and may use, by the name of the resource. Where nothing is set for it: requests
	// of 20m cpu and 48Mi memory, and a limit of 256Mi memory.
	// +optional
	Resources PodResources `json:"resources,omitempty,omitzero"`

	// runtimeClassName is the RuntimeClass of the pods. Unset means that of the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// priorityClassName is the PriorityClass of the pods. Unset means that of the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// labels are put on each Job and its pods. Those of Kueue, kueue.x-k8s.io/queue-name and kueue.x-k8s.io/priority-class, are
	// put on the Job only; an AgentRun that has one of them itself passes its own on. Unset means none.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !format.qualifiedName().validate(k).hasValue())",message="labels wants keys of labels, such as example.com/team"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('ekiden.dev/') && !k.startsWith('batch.kubernetes.io/') && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/component', 'app.kubernetes.io/managed-by', 'controller-uid', 'job-name']))",message="labels of ekiden.dev and batch.kubernetes.io, controller-uid, job-name, and app.kubernetes.io/name, component and managed-by are set for each pod: choose a key with a prefix of your own, such as example.com/team"
	Labels map[string]PodLabelValue `json:"labels,omitempty"` //nolint:kubeapilinter // nomaps: it is written as in a pod, and merges by its keys

	// annotations are put on each pod. Unset means none.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !format.qualifiedName().validate(k.lowerAscii()).hasValue())",message="annotations wants keys of annotations, such as example.com/owner"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('ekiden.dev/') && !k.startsWith('batch.kubernetes.io/'))",message="annotations of ekiden.dev and batch.kubernetes.io are set for each pod: choose a key with a prefix of your own, such as example.com/owner"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('container.apparmor.security.beta.kubernetes.io/') && !k.startsWith('container.seccomp.security.alpha.kubernetes.io/') && !k.startsWith('seccomp.security.alpha.kubernetes.io/'))",message="annotations of AppArmor and seccomp would loosen what a pod may do: take them out"
	Annotations map[string]PodAnnotationValue `json:"annotations,omitempty"` //nolint:kubeapilinter // nomaps: it is written as in a pod, and merges by its keys

	// env are variables of the container. They are not secret: keys belong into spec.credentials of a ModelEndpoint or a
	// ToolServer. Unset means none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Env []PodEnv `json:"env,omitempty"`
}

// PodLabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type PodLabelValue string

// PodAnnotationValue is the value of an annotation.
// +kubebuilder:validation:MaxLength=4096
type PodAnnotationValue string

// PodToleration tolerates taints of one key.
//
// +kubebuilder:validation:XValidation:rule="!has(self.value) || !has(self.operator) || self.operator == 'Equal'",message="a value goes with the operator Equal: take out one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'",message="tolerationSeconds goes with the effect NoExecute"
type PodToleration struct {
	// key is the key of the taints. To tolerate every taint is not offered: name those that are for agents.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="key must be the key of a taint, such as dedicated or example.com/gpu"
	Key string `json:"key,omitempty"`

	// operator says whether the value is compared. Unset means Equal.
	// +optional
	Operator PodTolerationOperator `json:"operator,omitempty"`

	// value is the value of the taints, for the operator Equal. Unset means the empty value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Value string `json:"value,omitempty"`

	// effect is the effect of the taints. Unset means every effect.
	// +optional
	Effect PodTaintEffect `json:"effect,omitempty"`

	// tolerationSeconds is how long a taint with the effect NoExecute is tolerated, in seconds. Unset means for ever.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	TolerationSeconds *int32 `json:"tolerationSeconds,omitempty"`
}

// PodTolerationOperator says how a taint's value is compared.
// +kubebuilder:validation:Enum=Equal;Exists
type PodTolerationOperator string

const (
	// TolerationEqual tolerates taints of the value.
	TolerationEqual PodTolerationOperator = "Equal"
	// TolerationExists tolerates taints of any value.
	TolerationExists PodTolerationOperator = "Exists"
)

// PodTaintEffect is what a taint does to pods that do not tolerate it.
// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
type PodTaintEffect string

// PodResources are amounts of resources such as cpu, memory and ephemeral-storage. The API server refuses a pod that requests more
// than its limit, and the run says so.
type PodResources struct {
	// requests is what a node has to have free for a pod.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	Requests map[string]resource.Quantity `json:"requests,omitempty"` //nolint:kubeapilinter // nomaps: it is written as in a pod, and merges by its keys

	// limits is what a pod may use. A process that uses more memory is killed.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	Limits map[string]resource.Quantity `json:"limits,omitempty"` //nolint:kubeapilinter // nomaps: it is written as in a pod, and merges by its keys
}

// PodEnv is one variable.
type PodEnv struct {
	// name is the name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('EKIDEN_') && !self.startsWith('PG') && !(self in ['POD_NAME', 'POD_UID'])",message="POD_NAME, POD_UID and the names that begin with EKIDEN_ or PG are set for each pod, or would change how Postgres is reached: choose another name"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy'])",message="a proxy is not taken from a variable, which nothing would guard: set spec.proxy of the ModelEndpoint or the ToolServer"
	Name string `json:"name,omitempty"`

	// value is its value.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
}
