package doctor

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// fakeDiscovery is a server of one version that offers nothing.
type fakeDiscovery struct{ discovery.DiscoveryInterface }

func (fakeDiscovery) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: "v1.37.2"}, nil
}

func (fakeDiscovery) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	return nil, missing
}

// TestGather reads a namespace with a stuck run, and creates nothing.
func TestGather(t *testing.T) {
	t.Parallel()
	h := healthy()
	run := h.Runs.Value[0].DeepCopy()
	run.CreationTimestamp = before(20 * time.Minute)
	run.ManagedFields = nil // the fake keeps its own
	policy := h.Policies.Value[0].DeepCopy()
	policy.ManagedFields = nil
	done := run.DeepCopy()
	done.Name, done.UID = "done", "v"
	done.Status.Conditions = append(done.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue})
	event := func(name string, about types.UID, age time.Duration) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, InvolvedObject: corev1.ObjectReference{UID: about}, Reason: name, EventTime: metav1.NewMicroTime(noon.Add(-age))}
	}
	scheme := clientgoscheme.Scheme
	for _, add := range []error{apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)} {
		if add != nil {
			t.Fatal(add)
		}
	}
	asked := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(run, done, &h.Definitions.Value[0], &h.Endpoints.Value[0], &h.Tools.Value[0], policy, &h.Requests.Value[0], h.Admission["ekiden-approval-decision"].Guard.Value,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "crm"}, Data: map[string][]byte{"token": []byte("x")}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "llm"}, Data: map[string][]byte{"apiKey": []byte("x")}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ekiden-system", Name: managerSecretName}},
			event("older", "u", 9*time.Minute), event("newer", "u", 8*time.Minute), event("other", "v", time.Minute)).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} }).
		Build(), interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.CreateOption) error {
		asked++
		switch o := o.(type) {
		case *authenticationv1.SelfSubjectReview:
			o.Status.UserInfo.Username = "dana"
		case *authorizationv1.SelfSubjectAccessReview:
			o.Status.Allowed = o.Spec.ResourceAttributes.Verb == "create"
		case *v1alpha1.AgentRun:
			if len(options) == 0 || options[0] != client.DryRunAll {
				t.Errorf("a run is created in earnest: %+v", options)
			}
			if o.Spec.Principal.User != "" {
				return forbidden
			}
			o.Spec.Principal.User = "dana"
		default:
			t.Errorf("%T is created", o)
		}
		return nil
	}})
	f := Gather(t.Context(), Cluster{Client: c, Discovery: fakeDiscovery{}, Server: "s", Now: func() time.Time { return noon }},
		Scope{Namespace: "team", ProbeNamespace: "team", ManagerNamespace: "ekiden-system"})

	if p := f.Probe; asked != 5 || p.Self.Value != "dana" || !p.MayCreate.Value || p.MayActAs.Value || p.Plain.Value.User != "dana" || !apierrors.IsForbidden(p.Foreign) {
		t.Errorf("probe after %d questions: %+v", asked, p)
	}
	if len(f.Runs.Value) != 1 || f.Runs.Value[0].Name != "r" {
		t.Errorf("runs: %+v", f.Runs)
	}
	if e := f.Events["u"].Value; e == nil || e.Reason != "newer" {
		t.Errorf("event: %+v", f.Events["u"])
	}
	if !f.Secrets[types.NamespacedName{Namespace: "team", Name: "llm"}].Value["apiKey"] {
		t.Errorf("secrets: %+v", f.Secrets)
	}
	if !f.Secrets[types.NamespacedName{Namespace: "team", Name: "crm"}].Value["token"] || len(f.Tools.Value) != 1 || len(f.Policies.Value) != 1 || len(f.Requests.Value) != 1 {
		t.Errorf("secrets: %+v, tools: %+v, policies: %+v, requests: %+v", f.Secrets, f.Tools, f.Policies, f.Requests)
	}
	guard := f.Admission["ekiden-approval-decision"]
	if guard.Guard.Err != nil || !apierrors.IsNotFound(guard.Stamp.Err) || !apierrors.IsNotFound(f.Admission["ekiden-run-principal"].Guard.Err) || len(f.Expected.Value) != 4 {
		t.Errorf("admission: %+v, expected: %+v", f.Admission, f.Expected)
	}
	if f.Manager.Secret != nil || !apierrors.IsNotFound(f.Manager.Deployment.Err) || !apierrors.IsNotFound(f.Kinds["agentruns"].Err) {
		t.Errorf("manager: %+v, kinds: %+v", f.Manager, f.Kinds)
	}
}
