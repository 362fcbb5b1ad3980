package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

const (
	cureInstall = "apply this version: kubectl apply --server-side -k config/default"
	cureCRDs    = "apply those of this version: kubectl apply --server-side -k config/crd"
	cureAdmit   = "apply config/admission of this version"
)

// Judge tells what the facts mean, from the ground up: what stands on something that is missing comes after it.
func Judge(f Facts) []Finding {
	if f.Version.Err != nil {
		return []Finding{
			{Level: Fail, What: "API server", Says: fmt.Sprintf("%s does not answer: %v", f.Server, f.Version.Err), Cure: "check the network, the credentials, and that --context names the right cluster"},
			skip("everything else", "the API server does not answer", ""),
		}
	}
	var out []Finding
	for _, check := range []func(Facts) []Finding{
		server, installed, policies, inForce, deployment, leader, managerSecret,
		definitions, endpoints, toolServers, toolSecrets, agentPolicies, approvals, runs, pods,
	} {
		out = append(out, check(f)...)
	}
	return out
}

// oldest is the oldest Kubernetes in which admission policies that change objects are on by default.
const oldest = "1.36"

func server(f Facts) []Finding {
	v := f.Version.Value.GitVersion
	is, err := utilversion.ParseGeneric(v)
	if err == nil && is.LessThan(utilversion.MustParseGeneric(oldest)) {
		return []Finding{{Level: Warn, What: "API server", Says: fmt.Sprintf("%s is Kubernetes %s, older than %s", f.Server, v, oldest), Cure: "upgrade it: the policies that stamp runs need " + oldest}}
	}
	return []Finding{ok("API server", "%s is Kubernetes %s", f.Server, v)}
}

func installed(f Facts) []Finding {
	const what = "kinds"
	var out []Finding
	hidden := 0
	for _, kind := range kinds {
		crd := f.Kinds[kind]
		name := kind + "." + v1alpha1.GroupVersion.Group
		switch {
		case apierrors.IsForbidden(crd.Err):
			hidden++
			if f.Served.Err == nil && !slices.Contains(f.Served.Value, kind) {
				out = append(out, Finding{Level: Fail, What: what, Says: v1alpha1.GroupVersion.String() + " does not offer " + kind, Cure: cureCRDs})
			}
		case apierrors.IsNotFound(crd.Err):
			out = append(out, Finding{Level: Fail, What: what, Says: "the CustomResourceDefinition " + name + " is missing", Cure: cureCRDs})
		case crd.Err != nil:
			out = append(out, unseen("CustomResourceDefinition "+name, crd.Err))
		default:
			out = append(out, established(crd.Value)...)
		}
	}
	switch {
	case hidden > 0 && apierrors.IsNotFound(f.Served.Err):
		return []Finding{{Level: Fail, What: what, Says: "the API server does not offer " + v1alpha1.GroupVersion.String(), Cure: cureCRDs}}
	case hidden > 0 && f.Served.Err != nil:
		return append(out, unseen(what, f.Served.Err))
	case len(out) > 0:
		return out
	case hidden > 0:
		return []Finding{
			ok(what, "the API server offers all %d of %s", len(kinds), v1alpha1.GroupVersion),
			skip("CustomResourceDefinitions", "you may not read them", ""),
		}
	default:
		return []Finding{ok(what, "all %d of %s are established", len(kinds), v1alpha1.GroupVersion)}
	}
}

func established(crd *apiextensionsv1.CustomResourceDefinition) []Finding {
	serves := slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == v1alpha1.GroupVersion.Version && v.Served
	})
	if !serves {
		return []Finding{{Level: Fail, What: "kinds", Says: fmt.Sprintf("%s does not serve %s", crd.Name, v1alpha1.GroupVersion.Version), Cure: cureCRDs}}
	}
	why := "it has no condition Established"
	for _, c := range crd.Status.Conditions {
		switch {
		case c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue:
			return nil
		case c.Status == apiextensionsv1.ConditionFalse && c.Message != "":
			why = c.Message
		}
	}
	return []Finding{{Level: Fail, What: "kinds", Says: crd.Name + " is not established: " + why, Cure: "remove what holds the same names, or apply it again"}}
}

func deployment(f Facts) []Finding {
	m := f.Manager
	what := fmt.Sprintf("manager %s/%s", m.Namespace, managerName)
	if apierrors.IsNotFound(m.Deployment.Err) {
		return []Finding{{Level: Fail, What: what, Says: "there is no such Deployment", Cure: cureInstall + ", or name its namespace with --manager-namespace"}}
	}
	if m.Deployment.Err != nil {
		return []Finding{unseen(what, m.Deployment.Err)}
	}
	d := m.Deployment.Value
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	image, segments := images(d)
	says := fmt.Sprintf("%d of %d replicas are available; image %s, segments use %s", d.Status.AvailableReplicas, want, image, segments)
	cure := fmt.Sprintf("look at kubectl -n %s describe deployment %s and at the logs of its pods", m.Namespace, managerName)
	switch {
	case d.Status.AvailableReplicas == 0:
		return []Finding{{Level: Fail, What: what, Says: says, Cure: cure}}
	case d.Status.AvailableReplicas < want:
		return []Finding{{Level: Warn, What: what, Says: says, Cure: cure}}
	default:
		return []Finding{ok(what, "%s", says)}
	}
}

// images are the manager's and the one it gives to segments.
func images(d *appsv1.Deployment) (manager, segment string) {
	manager, segment = "unknown", "unknown"
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name != "manager" {
			continue
		}
		manager = c.Image
		for _, a := range c.Args {
			if image, found := strings.CutPrefix(a, "--segment-image="); found {
				segment = image
			}
		}
	}
	return manager, segment
}

func leader(f Facts) []Finding {
	m := f.Manager
	what := fmt.Sprintf("leader lease %s/%s", m.Namespace, managerName)
	cure := fmt.Sprintf("look at the logs of the manager's pods in %s", m.Namespace)
	switch {
	case apierrors.IsNotFound(m.Lease.Err):
		return []Finding{{Level: Fail, What: what, Says: "nobody has ever led: no manager has started with --leader-elect", Cure: cure}}
	case m.Lease.Err != nil:
		return []Finding{unseen(what, m.Lease.Err)}
	}
	l := m.Lease.Value.Spec
	if l.HolderIdentity == nil || *l.HolderIdentity == "" || l.RenewTime == nil {
		return []Finding{{Level: Fail, What: what, Says: "nobody leads", Cure: cure}}
	}
	age := f.Now.Sub(l.RenewTime.Time)
	term := 15 * time.Second
	if l.LeaseDurationSeconds != nil {
		term = time.Duration(*l.LeaseDurationSeconds) * time.Second
	}
	says := fmt.Sprintf("%s renewed it %s ago", *l.HolderIdentity, ago(age))
	if age > 2*term {
		return []Finding{{Level: Fail, What: what, Says: says + fmt.Sprintf(", and it is good for %s: nobody leads", term), Cure: cure}}
	}
	return []Finding{ok(what, "%s", says)}
}

func managerSecret(f Facts) []Finding {
	m := f.Manager
	what := fmt.Sprintf("Secret %s/%s", m.Namespace, m.SecretName)
	switch {
	case apierrors.IsNotFound(m.Secret):
		return []Finding{{Level: Fail, What: what, Says: "is missing: the manager has no Postgres", Cure: "create it with the key dsn: the DSN of a Postgres role that may create roles and owns the database"}}
	case m.Secret != nil:
		return []Finding{unseen(what, m.Secret)}
	default:
		return []Finding{ok(what, "exists; what it holds was not read")}
	}
}

// ago is a duration for people.
func ago(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	if d < time.Minute {
		return d.Truncate(time.Second).String()
	}
	s := d.Truncate(time.Minute).String()
	return strings.TrimSuffix(s, "0s")
}

// named is an object's name for people.
func named(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// everywhere says where was looked.
func (f Facts) everywhere() string {
	if f.Scope == "" {
		return "all namespaces"
	}
	return "namespace " + f.Scope
}

// waiting is what holds up a pod, if it says so.
func waiting(p corev1.Pod) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Type == corev1.PodScheduled {
			return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
	}
	return ""
}
