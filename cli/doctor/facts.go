package doctor

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Names of what config/ installs.
const (
	managerName       = "ekiden-manager"
	managerSecretName = "ekiden-manager-postgres"
)

// kinds are the resources of ekiden.dev that this version has.
var kinds = []string{"agentdefinitions", "agentpolicies", "agentruns", "approvalrequests", "definitionrevisions", "modelendpoints", "toolservers"}

// Seen is a fact, or why it could not be read.
type Seen[T any] struct {
	Value T
	Err   error
}

// Facts are what the checks judge.
type Facts struct {
	// Now is the API server's time.
	Now time.Time
	// Server is its address, Version what it says it is.
	Server  string
	Version Seen[*version.Info]

	// Kinds are the CustomResourceDefinitions by resource, Served the resources of ekiden.dev/v1alpha1 that the
	// server offers, which everybody may ask.
	Kinds  map[string]Seen[*apiextensionsv1.CustomResourceDefinition]
	Served Seen[[]string]

	// Admission is what is installed of each pair of policies, by its name, Expected what config/admission of this version
	// has of those that the manager compares too.
	Admission map[string]Admission
	Expected  Seen[[]*unstructured.Unstructured]
	Probe     Probe
	Manager   Manager

	// Scope is the namespace that was looked at, or empty for all.
	Scope       string
	Definitions Seen[[]v1alpha1.AgentDefinition]
	Endpoints   Seen[[]v1alpha1.ModelEndpoint]
	Tools       Seen[[]v1alpha1.ToolServer]
	Policies    Seen[[]v1alpha1.AgentPolicy]
	// Secrets are the keys with a value, of each Secret that an endpoint or a tool server names.
	Secrets map[types.NamespacedName]Seen[map[string]bool]
	// Requests are what people were asked, whether it is open or not. They were read before the runs.
	Requests Seen[[]v1alpha1.ApprovalRequest]
	// Runs are those that have not finished, Events the newest one about each that is in trouble.
	Runs   Seen[[]v1alpha1.AgentRun]
	Events map[types.UID]Seen[*corev1.Event]
	Pods   Seen[[]corev1.Pod]
}

// Admission is a pair of policies and their bindings.
type Admission struct {
	Stamp        Seen[*admissionregistrationv1.MutatingAdmissionPolicy]
	StampBinding Seen[*admissionregistrationv1.MutatingAdmissionPolicyBinding]
	Guard        Seen[*admissionregistrationv1.ValidatingAdmissionPolicy]
	GuardBinding Seen[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]
}

// Probe is what became of two runs that were created for show, with a dry run.
type Probe struct {
	Namespace string
	// Self is the user who asks.
	Self Seen[string]
	// MayCreate and MayActAs say what that user may do: create runs there, and act for others.
	MayCreate, MayActAs Seen[bool]
	// Plain is the principal that a run without one was given.
	Plain Seen[v1alpha1.Principal]
	// Foreign is the error of a run that acts for somebody else; nil if it was accepted.
	Foreign error
}

// Manager is what is seen of the manager.
type Manager struct {
	Namespace  string
	Deployment Seen[*appsv1.Deployment]
	Lease      Seen[*coordinationv1.Lease]
	// SecretName names the Secret that holds the manager's DSN, Secret is the error of looking for it.
	SecretName string
	Secret     error
}
