package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/config/admission"
)

var (
	noon      = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
	missing   = apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "x")
)

func before(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func ptr[T any](v T) *T { return &v }

// healthy are the facts of an installation with which nothing is wrong.
func healthy() Facts {
	f := Facts{
		Now: noon, Server: "https://api", Version: Seen[*version.Info]{Value: &version.Info{GitVersion: "v1.37.2"}}, Scope: "team",
		Kinds: map[string]Seen[*apiextensionsv1.CustomResourceDefinition]{}, Served: Seen[[]string]{Value: kinds},
		Admission: map[string]Admission{"ekiden-run-principal": {
			Stamp: Seen[*admissionregistrationv1.MutatingAdmissionPolicy]{Value: &admissionregistrationv1.MutatingAdmissionPolicy{}},
			StampBinding: Seen[*admissionregistrationv1.MutatingAdmissionPolicyBinding]{Value: &admissionregistrationv1.MutatingAdmissionPolicyBinding{
				Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "ekiden-run-principal"},
			}},
			Guard: Seen[*admissionregistrationv1.ValidatingAdmissionPolicy]{Value: &admissionregistrationv1.ValidatingAdmissionPolicy{}},
			GuardBinding: Seen[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{Value: &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
				Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "ekiden-run-principal", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
			}},
		}},
		Probe: Probe{Namespace: "team", Self: Seen[string]{Value: "dana"}, MayCreate: Seen[bool]{Value: true}, Plain: Seen[v1alpha1.Principal]{Value: v1alpha1.Principal{User: "dana"}}, Foreign: forbidden},
		Manager: Manager{
			Namespace: "ekiden-system", SecretName: managerSecretName,
			Deployment: Seen[*appsv1.Deployment]{Value: &appsv1.Deployment{
				Spec: appsv1.DeploymentSpec{Replicas: ptr[int32](2), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "manager", Image: "ekiden/manager:v1", Args: []string{"--segment-image=ekiden/segment:v1"}}},
				}}},
				Status: appsv1.DeploymentStatus{AvailableReplicas: 2},
			}},
			Lease: Seen[*coordinationv1.Lease]{Value: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr("manager-0"), LeaseDurationSeconds: ptr[int32](15), RenewTime: ptr(metav1.NewMicroTime(noon.Add(-3 * time.Second))),
			}}},
		},
		Secrets: map[types.NamespacedName]Seen[map[string]bool]{
			{Namespace: "team", Name: "llm"}: {Value: map[string]bool{"apiKey": true, "empty": false}},
			{Namespace: "team", Name: "crm"}: {Value: map[string]bool{"token": true}},
		},
		Events: map[types.UID]Seen[*corev1.Event]{},
	}
	f.Expected.Value, f.Expected.Err = admission.Objects()
	f.Admission["ekiden-approval-decision"] = Admission{
		Stamp:        Seen[*admissionregistrationv1.MutatingAdmissionPolicy]{Value: asShipped(f, &admissionregistrationv1.MutatingAdmissionPolicy{})},
		StampBinding: Seen[*admissionregistrationv1.MutatingAdmissionPolicyBinding]{Value: asShipped(f, &admissionregistrationv1.MutatingAdmissionPolicyBinding{})},
		Guard:        Seen[*admissionregistrationv1.ValidatingAdmissionPolicy]{Value: asShipped(f, &admissionregistrationv1.ValidatingAdmissionPolicy{})},
		GuardBinding: Seen[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{Value: asShipped(f, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{})},
	}
	for _, kind := range kinds {
		f.Kinds[kind] = Seen[*apiextensionsv1.CustomResourceDefinition]{Value: &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: kind + ".ekiden.dev"},
			Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1", Served: true}}},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			}},
		}}
	}
	f.Definitions.Value = []v1alpha1.AgentDefinition{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "triage", Generation: 2, CreationTimestamp: before(time.Hour)},
		Status: v1alpha1.AgentDefinitionStatus{CurrentRevision: "triage-1", Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompiled, ObservedGeneration: 2},
		}},
	}}
	f.Endpoints.Value = []v1alpha1.ModelEndpoint{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "gpt"}, Spec: v1alpha1.ModelEndpointSpec{Credentials: v1alpha1.Credentials{SecretRef: v1alpha1.KeyReference{Name: "llm", Key: "apiKey"}}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "local"}},
	}
	f.Tools.Value = []v1alpha1.ToolServer{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "crm", Generation: 2, CreationTimestamp: before(time.Hour)},
		Spec:       v1alpha1.ToolServerSpec{Credentials: v1alpha1.Credentials{SecretRef: v1alpha1.KeyReference{Name: "crm", Key: "token"}}},
		Status: v1alpha1.ToolServerStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDiscovered, ObservedGeneration: 2},
		}},
	}}
	f.Policies.Value = []v1alpha1.AgentPolicy{{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "default", Generation: 2, CreationTimestamp: before(time.Hour),
			ManagedFields: []metav1.ManagedFieldsEntry{{Time: ptr(before(50 * time.Minute))}, {Subresource: "status", Time: ptr(before(time.Second))}},
		},
		Status: v1alpha1.AgentPolicyStatus{ObservedGeneration: 2},
	}}
	f.Requests.Value = []v1alpha1.ApprovalRequest{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "w-0-0", CreationTimestamp: before(3 * time.Hour)},
		Spec: v1alpha1.ApprovalRequestSpec{
			RunRef: v1alpha1.RunReference{Name: "w", UID: "w"}, Pool: "finance", Call: v1alpha1.ApprovalRequestCall{Tool: "crm/refund"},
			ExpiresAt: before(-45 * time.Hour),
		},
		Status: v1alpha1.ApprovalRequestStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionDecided, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonAwaitingDecision},
		}},
	}}
	f.Runs.Value = []v1alpha1.AgentRun{{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "r", UID: "u", CreationTimestamp: before(20 * time.Minute),
			ManagedFields: []metav1.ManagedFieldsEntry{{Subresource: "status", Time: ptr(before(30 * time.Second))}},
		},
		Status: v1alpha1.AgentRunStatus{
			StartedAt: before(20 * time.Minute), Limits: v1alpha1.Limits{ActiveSeconds: 1800},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonRunning, Message: "segment 0 is at work"}},
		},
	}, {
		// It is older than its limits: it waits.
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "w", UID: "w", CreationTimestamp: before(4 * time.Hour),
			ManagedFields: []metav1.ManagedFieldsEntry{{Subresource: "status", Time: ptr(before(3 * time.Hour))}},
		},
		Status: v1alpha1.AgentRunStatus{
			StartedAt: before(4 * time.Hour), Limits: v1alpha1.Limits{ActiveSeconds: 1800},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonAwaitingApproval, Message: "crm/refund wants a decision of pool finance"}},
		},
	}}
	f.Pods.Value = []corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "r-s0-a0", Labels: map[string]string{v1alpha1.LabelRunUID: "u"}, CreationTimestamp: before(2 * time.Minute)},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}}
	return f
}

// asShipped is the object of its kind that guards approvals, as config/admission has it.
func asShipped[T any](f Facts, into *T) *T {
	for _, o := range f.Expected.Value {
		if strings.HasSuffix(fmt.Sprintf("%T", into), "."+o.GetKind()) {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
				panic(err)
			}
		}
	}
	return into
}

func TestAHealthyInstallation(t *testing.T) {
	t.Parallel()
	findings := Judge(healthy())
	var out strings.Builder
	if err := Print(&out, findings); err != nil {
		t.Fatal(err)
	}
	want := `ok    API server: https://api is Kubernetes v1.37.2
ok    kinds: all 7 of ekiden.dev/v1alpha1 are established
ok    admission policies: ekiden-run-principal: two policies and their bindings are there
ok    admission policies: ekiden-approval-decision: two policies and their bindings are there, as this version has them
ok    admission in force: a run is stamped with its creator, and one that acts for somebody else is refused
ok    manager ekiden-system/ekiden-manager: 2 of 2 replicas are available; image ekiden/manager:v1, segments use ekiden/segment:v1
ok    leader lease ekiden-system/ekiden-manager: manager-0 renewed it 3s ago
ok    Secret ekiden-system/ekiden-manager-postgres: exists; what it holds was not read
ok    definitions of namespace team: 1, all of them ready
ok    model endpoints of namespace team: 1 have their Secret and key, 1 need none
ok    tool servers of namespace team: 1, all of them ready
ok    tool servers of namespace team: 1 have their Secret and key, 0 need none
ok    agent policies of namespace team: 1, all of them in force
ok    approval requests of namespace team: 1 are open, none of them for longer than a day
ok    runs of namespace team: 2 go on, none of them is stuck; 1 wait for people
ok    segment pods of namespace team: 1 run, 0 have ended or are about to start
`
	if diff := cmp.Diff(want, out.String()); diff != "" || Failed(findings) {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestJudge breaks one thing at a time, and wants to hear of that and of nothing else.
func TestJudge(t *testing.T) {
	t.Parallel()
	reason := func(r string, still time.Duration) func(*Facts) {
		return func(f *Facts) {
			run := &f.Runs.Value[0]
			run.Status.Conditions[0].Reason = r
			run.ManagedFields[0].Time = ptr(before(still))
		}
	}
	principal := func(breaks func(*Admission)) func(*Facts) {
		return func(f *Facts) {
			a := f.Admission["ekiden-run-principal"]
			breaks(&a)
			f.Admission["ekiden-run-principal"] = a
		}
	}
	for name, tc := range map[string]struct {
		given func(*Facts)
		want  []string // level and what the line contains
	}{
		"an old Kubernetes":            {func(f *Facts) { f.Version.Value.GitVersion = "v1.34.1" }, []string{"warn|older than 1.36"}},
		"a kind is missing":            {func(f *Facts) { f.Kinds["agentruns"] = Seen[*apiextensionsv1.CustomResourceDefinition]{Err: missing} }, []string{"fail|agentruns.ekiden.dev is missing"}},
		"a kind is of another version": {func(f *Facts) { f.Kinds["agentruns"].Value.Spec.Versions[0].Name = "v2" }, []string{"fail|does not serve v1alpha1"}},
		"a kind is not established": {
			func(f *Facts) {
				f.Kinds["agentruns"].Value.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse, Message: "names are taken"}}
			},
			[]string{"fail|not established: names are taken"},
		},
		"kinds may not be read": {hide, []string{"skip|CustomResourceDefinitions"}},
		"kinds may not be read, and one is not offered": {
			func(f *Facts) { hide(f); f.Served.Value = kinds[1:] }, []string{"fail|does not offer agentdefinitions"},
		},
		"nothing is installed, seen from below": {
			func(f *Facts) { hide(f); f.Served = Seen[[]string]{Err: missing} }, []string{"fail|does not offer ekiden.dev/v1alpha1"},
		},
		"the guard is missing":                             {principal(func(a *Admission) { a.Guard.Err = missing }), []string{"fail|ValidatingAdmissionPolicy ekiden-run-principal: is missing"}},
		"the guard only warns":                             {principal(func(a *Admission) { a.GuardBinding.Value.Spec.ValidationActions = nil }), []string{"fail|with the action Deny"}},
		"the guard can be passed":                          {principal(func(a *Admission) { a.Guard.Value.Spec.FailurePolicy = ptr(admissionregistrationv1.Ignore) }), []string{"fail|failurePolicy Ignore"}},
		"policies may not be read":                         {principal(func(a *Admission) { a.Stamp.Err = forbidden }), []string{"skip|MutatingAdmissionPolicy"}},
		"runs may not be created":                          {func(f *Facts) { f.Probe = Probe{Namespace: "team"} }, []string{"skip|you may not create runs in namespace team"}},
		"a foreign principal is accepted":                  {func(f *Facts) { f.Probe.Foreign = nil }, []string{"fail|can act for anybody"}},
		"a foreign principal is accepted from one who may": {func(f *Facts) { f.Probe.Foreign, f.Probe.MayActAs.Value = nil, true }, []string{"skip|guard of principals"}},
		"a run is not stamped":                             {func(f *Facts) { f.Probe.Plain.Value.User = "" }, []string{"fail|neither stamped nor refused"}},
		"a run is stamped with somebody else":              {func(f *Facts) { f.Probe.Plain.Value.User = "eve" }, []string{"fail|stamped with eve"}},
		"an ordinary run is refused":                       {func(f *Facts) { f.Probe.Plain.Err = forbidden }, []string{"fail|an ordinary run would be refused"}},
		"the manager is missing":                           {func(f *Facts) { f.Manager.Deployment.Err = missing }, []string{"fail|no such Deployment"}},
		"the manager is down":                              {func(f *Facts) { f.Manager.Deployment.Value.Status.AvailableReplicas = 0 }, []string{"fail|0 of 2"}},
		"the manager has lost one":                         {func(f *Facts) { f.Manager.Deployment.Value.Status.AvailableReplicas = 1 }, []string{"warn|1 of 2"}},
		"the manager may not be looked at": {
			func(f *Facts) {
				f.Manager.Deployment.Err, f.Manager.Lease.Err, f.Manager.Secret = forbidden, forbidden, forbidden
			},
			[]string{"skip|manager", "skip|leader lease", "skip|Secret"},
		},
		"nobody leads any more": {func(f *Facts) {
			f.Manager.Lease.Value.Spec.RenewTime = ptr(metav1.NewMicroTime(noon.Add(-time.Minute)))
		}, []string{"fail|1m ago, and it is good for 15s: nobody leads"}},
		"the lease was given back":    {func(f *Facts) { f.Manager.Lease.Value.Spec.HolderIdentity = ptr("") }, []string{"fail|nobody leads"}},
		"the manager has no Postgres": {func(f *Facts) { f.Manager.Secret = missing }, []string{"fail|the manager has no Postgres"}},
		"a definition never compiled": {
			func(f *Facts) {
				f.Definitions.Value[0].Status = v1alpha1.AgentDefinitionStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonModelEndpointNotFound, Message: "no gpt"}}}
			},
			[]string{"fail|ModelEndpointNotFound: no gpt | to do: apply the ModelEndpoint"},
		},
		"an edit did not compile": {
			func(f *Facts) {
				f.Definitions.Value[0].Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalid, Message: "spec.x"}
			},
			[]string{"warn|runs use triage-1: Invalid: spec.x"},
		},
		"a definition nobody looks at": {func(f *Facts) { f.Definitions.Value[0].Status = v1alpha1.AgentDefinitionStatus{} }, []string{"fail|no manager has looked at it"}},
		"an endpoint's Secret is missing": {
			func(f *Facts) {
				f.Secrets[types.NamespacedName{Namespace: "team", Name: "llm"}] = Seen[map[string]bool]{Err: missing}
			}, []string{"fail|its Secret llm is missing"},
		},
		"an endpoint's key is empty": {func(f *Facts) { f.Endpoints.Value[0].Spec.Credentials.SecretRef.Key = "empty" }, []string{"fail|has no key empty, or nothing in it"}},
		"Secrets may not be read": {
			func(f *Facts) {
				f.Secrets[types.NamespacedName{Namespace: "team", Name: "llm"}] = Seen[map[string]bool]{Err: forbidden}
			}, []string{"skip|Secrets of 1 model endpoints in namespace team"},
		},
		"a pod does not come":         {reason(v1alpha1.ReasonStarting, 6*time.Minute), []string{"fail|Starting for 6m: segment 0 is at work (no event is kept)"}},
		"a pod has a little time":     {reason(v1alpha1.ReasonStarting, 4*time.Minute), nil},
		"a run stands still":          {reason(v1alpha1.ReasonRunning, 11*time.Minute), []string{"fail|Running for 11m"}},
		"a long pause":                {reason(v1alpha1.ReasonBackingOff, 16*time.Minute), []string{"warn|BackingOff for 16m"}},
		"a cancel that does not end":  {reason(v1alpha1.ReasonCancelling, 4*time.Minute), []string{"fail|Cancelling for 4m"}},
		"a run that nobody looks at":  {func(f *Facts) { f.Runs.Value[0].Status = v1alpha1.AgentRunStatus{} }, []string{"fail|no manager has looked at it for 20m"}},
		"a run older than its limits": {func(f *Facts) { f.Runs.Value[0].Status.StartedAt = before(50 * time.Minute) }, []string{"warn|started 50m ago, although limits.activeSeconds is 1800"}},
		"the last event is told": {
			func(f *Facts) {
				reason(v1alpha1.ReasonStarting, 6*time.Minute)(f)
				f.Events["u"] = Seen[*corev1.Event]{Value: &corev1.Event{Reason: "Starting", Message: "waits\x1b[2J\nfor", EventTime: metav1.NewMicroTime(noon.Add(-5 * time.Minute))}}
			},
			[]string{"fail|(last event, 5m ago: Starting: waits for)"},
		},
		"a pod is pending": {
			func(f *Facts) {
				f.Pods.Value[0].Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}}
			},
			[]string{"warn|pending for 2m: ImagePullBackOff: no such image"},
		},
		"a pod failed": {
			func(f *Facts) {
				f.Pods.Value[0].Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}}}}
			},
			[]string{"warn|failed: exit code 137, OOMKilled"},
		},
		"a pod of a run that is over failed": {
			func(f *Facts) { f.Pods.Value[0].Status.Phase = corev1.PodFailed; f.Pods.Value[0].Labels = nil }, nil,
		},
		"nothing of the tenant may be read": {
			func(f *Facts) {
				f.Definitions.Err, f.Endpoints.Err, f.Runs.Err, f.Pods.Err = forbidden, forbidden, forbidden, forbidden
				f.Tools.Err, f.Policies.Err, f.Requests.Err = forbidden, forbidden, forbidden
			},
			[]string{"skip|definitions", "skip|model endpoints", "skip|tool servers", "skip|agent policies", "skip|approval requests", "skip|runs", "skip|segment pods"},
		},
		"the server does not answer": {
			func(f *Facts) {
				*f = Facts{Server: "https://api", Version: Seen[*version.Info]{Err: errors.New("refused")}}
			},
			[]string{"fail|https://api does not answer: refused", "skip|everything else"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			tc.given(&f)
			var out strings.Builder
			if err := Print(&out, Judge(f)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for l := range strings.Lines(out.String()) {
				if !strings.HasPrefix(l, "ok") {
					got = append(got, l)
				}
			}
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i, want := range tc.want {
				level, says, _ := strings.Cut(want, "|")
				if !strings.HasPrefix(got[i], level) || !strings.Contains(got[i], says) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
		})
	}
}

func hide(f *Facts) {
	for kind := range f.Kinds {
		f.Kinds[kind] = Seen[*apiextensionsv1.CustomResourceDefinition]{Err: forbidden}
	}
}
