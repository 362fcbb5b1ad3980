package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/config/admission"
)

// Cluster is where the facts are.
type Cluster struct {
	Client    client.Client
	Discovery discovery.DiscoveryInterface
	Server    string
	// Now is the API server's time. It is asked after the first answer.
	Now func() time.Time
}

// Scope says what to look at.
type Scope struct {
	// Namespace is the one to look at, or empty for all; ProbeNamespace is where runs are created for show.
	Namespace, ProbeNamespace string
	ManagerNamespace          string
}

// patience bounds the reading of one fact.
const patience = 20 * time.Second

// Gather reads the facts. It changes nothing: what it creates, it creates with a dry run, or it is a question.
func Gather(ctx context.Context, c Cluster, s Scope) Facts {
	f := Facts{Server: c.Server, Scope: s.Namespace}
	f.Version.Value, f.Version.Err = c.Discovery.ServerVersion()
	f.Now = c.Now()
	if f.Version.Err != nil || ctx.Err() != nil {
		return f
	}
	f.Kinds = map[string]Seen[*apiextensionsv1.CustomResourceDefinition]{}
	for _, kind := range kinds {
		f.Kinds[kind] = get(ctx, c.Client, "", kind+"."+v1alpha1.GroupVersion.Group, &apiextensionsv1.CustomResourceDefinition{})
	}
	f.Served = served(c.Discovery)
	f.Expected.Value, f.Expected.Err = admission.Objects()
	f.Admission = map[string]Admission{}
	for _, p := range pairs {
		f.Admission[p.name] = Admission{
			Stamp:        get(ctx, c.Client, "", p.name, &admissionregistrationv1.MutatingAdmissionPolicy{}),
			StampBinding: get(ctx, c.Client, "", p.name, &admissionregistrationv1.MutatingAdmissionPolicyBinding{}),
			Guard:        get(ctx, c.Client, "", p.name, &admissionregistrationv1.ValidatingAdmissionPolicy{}),
			GuardBinding: get(ctx, c.Client, "", p.name, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}),
		}
	}
	f.Probe = probe(ctx, c.Client, s.ProbeNamespace)
	f.Manager = manager(ctx, c.Client, s.ManagerNamespace)
	f.namespaces(ctx, c.Client)
	return f
}

// get reads one object.
func get[T client.Object](ctx context.Context, c client.Client, namespace, name string, into T) Seen[T] {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return Seen[T]{into, c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)}
}

func served(d discovery.DiscoveryInterface) Seen[[]string] {
	list, err := d.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	var names []string
	if list != nil {
		for _, r := range list.APIResources {
			names = append(names, r.Name)
		}
	}
	return Seen[[]string]{names, err}
}

// Whom the probe acts for, and the name of its runs. Neither exists.
const (
	foreigner = "ekiden-doctor-somebody-else"
	probeName = "ekiden-doctor-probe"
)

func probe(ctx context.Context, c client.Client, namespace string) Probe {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := Probe{Namespace: namespace}
	self := &authenticationv1.SelfSubjectReview{}
	p.Self.Err = c.Create(ctx, self)
	p.Self.Value = self.Status.UserInfo.Username
	p.MayCreate = may(ctx, c, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: v1alpha1.GroupVersion.Group, Resource: "agentruns"})
	p.MayActAs = may(ctx, c, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "actas", Group: v1alpha1.GroupVersion.Group, Resource: "principals", Name: foreigner})
	if !p.MayCreate.Value {
		return p
	}
	plain := probeRun(namespace, v1alpha1.Principal{})
	p.Plain.Err = c.Create(ctx, plain, client.DryRunAll)
	p.Plain.Value = plain.Spec.Principal
	p.Foreign = c.Create(ctx, probeRun(namespace, v1alpha1.Principal{User: foreigner}), client.DryRunAll)
	return p
}

func may(ctx context.Context, c client.Client, what authorizationv1.ResourceAttributes) Seen[bool] {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	err := c.Create(ctx, review)
	return Seen[bool]{review.Status.Allowed && err == nil, err}
}

func probeRun(namespace string, p v1alpha1.Principal) *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probeName},
		Spec: v1alpha1.AgentRunSpec{
			DefinitionRef: v1alpha1.RunDefinitionReference{Kind: v1alpha1.AgentDefinitionKind, Name: probeName},
			Input:         v1alpha1.RunInput{Text: "a dry run"},
			Principal:     p,
		},
	}
}

func manager(ctx context.Context, c client.Client, namespace string) Manager {
	m := Manager{
		Namespace:  namespace,
		Deployment: get(ctx, c, namespace, managerName, &appsv1.Deployment{}),
		Lease:      get(ctx, c, namespace, managerName, &coordinationv1.Lease{}),
		SecretName: managerSecretName,
	}
	for _, v := range m.Deployment.Value.Spec.Template.Spec.Volumes {
		if v.Name == "postgres" && v.Secret != nil {
			m.SecretName = v.Secret.SecretName
		}
	}
	// Only that it exists: what it holds does not leave the API server.
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	m.Secret = get(ctx, c, namespace, m.SecretName, secret).Err
	return m
}

// namespaces reads what belongs to tenants.
func (f *Facts) namespaces(ctx context.Context, c client.Client) {
	var definitions v1alpha1.AgentDefinitionList
	f.Definitions.Err = list(ctx, c, &definitions, client.InNamespace(f.Scope))
	f.Definitions.Value = definitions.Items

	var endpoints v1alpha1.ModelEndpointList
	f.Endpoints.Err = list(ctx, c, &endpoints, client.InNamespace(f.Scope))
	f.Endpoints.Value = endpoints.Items

	var tools v1alpha1.ToolServerList
	f.Tools.Err = list(ctx, c, &tools, client.InNamespace(f.Scope))
	f.Tools.Value = tools.Items

	f.Secrets = map[types.NamespacedName]Seen[map[string]bool]{}
	for _, h := range slices.Concat(f.endpointHolders(), f.toolHolders()) {
		if key := h.secret(); key.Name != "" {
			if _, known := f.Secrets[key]; !known {
				f.Secrets[key] = keys(ctx, c, key)
			}
		}
	}

	var policies v1alpha1.AgentPolicyList
	f.Policies.Err = list(ctx, c, &policies, client.InNamespace(f.Scope))
	f.Policies.Value = policies.Items

	// Before the runs: a run that has parked since is seen to have done so just now.
	var requests v1alpha1.ApprovalRequestList
	f.Requests.Err = list(ctx, c, &requests, client.InNamespace(f.Scope))
	f.Requests.Value = requests.Items
	asked := f.asked()

	var runs v1alpha1.AgentRunList
	f.Runs.Err = list(ctx, c, &runs, client.InNamespace(f.Scope))
	f.Runs.Value = slices.DeleteFunc(runs.Items, over)
	f.Events = map[types.UID]Seen[*corev1.Event]{}
	for _, r := range f.Runs.Value {
		if len(f.Events) < maxEvents && len(troubles(r, asked(r), f.Now)) > 0 {
			f.Events[r.UID] = newest(ctx, c, r)
		}
	}

	var pods corev1.PodList
	f.Pods.Err = list(ctx, c, &pods, client.InNamespace(f.Scope), client.HasLabels{v1alpha1.LabelRunUID})
	f.Pods.Value = pods.Items
}

// maxEvents is for how many runs in trouble the events are read: after that the trouble is not theirs.
const maxEvents = 50

func list(ctx context.Context, c client.Client, into client.ObjectList, options ...client.ListOption) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.List(ctx, into, options...)
}

// keys are the keys of a Secret that have a value. The values are dropped here.
func keys(ctx context.Context, c client.Client, key types.NamespacedName) Seen[map[string]bool] {
	secret := get(ctx, c, key.Namespace, key.Name, &corev1.Secret{})
	has := map[string]bool{}
	for k, v := range secret.Value.Data {
		has[k] = len(v) > 0
	}
	return Seen[map[string]bool]{has, secret.Err}
}

// newest is the newest event about a run, or nil: events are kept for an hour or so.
func newest(ctx context.Context, c client.Client, run v1alpha1.AgentRun) Seen[*corev1.Event] {
	var events corev1.EventList
	err := list(ctx, c, &events, client.InNamespace(run.Namespace), client.MatchingFields{"involvedObject.uid": string(run.UID)})
	if err != nil || len(events.Items) == 0 {
		return Seen[*corev1.Event]{nil, err}
	}
	e := slices.MaxFunc(events.Items, func(a, b corev1.Event) int { return cmp.Compare(told(a).UnixNano(), told(b).UnixNano()) })
	return Seen[*corev1.Event]{&e, nil}
}

// told is when an event was told last, by whichever of the fields its teller fills in.
func told(e corev1.Event) time.Time {
	at := e.EventTime.Time
	if e.Series != nil {
		at = e.Series.LastObservedTime.Time
	}
	for _, t := range []time.Time{e.LastTimestamp.Time, e.CreationTimestamp.Time} {
		if at.IsZero() {
			at = t
		}
	}
	return at
}
