package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/config/admission"
	"github.com/ekiden-dev/ekiden/test/apitest"
	"github.com/ekiden-dev/ekiden/test/given"
)

// office is a namespace with people in it. Each is in system:authenticated, and in other groups where a test says so.
//
//	fiona   approves for the pool finance
//	gus     does so by his group, finance
//	olga    approves for all pools
//	sam     approves for the pool sales
//	ella    approves for the pool finance, in another namespace
//	paul    may patch requests and approves for no pool
//	dana    is whom the runs act for, and approves for the pool finance
//	derek   is whom some runs act for, and approves for no pool
//	quinn   approves for the pool finance, and holds every verb of Kubernetes on requests
//	keeper  has what the manager has, and nothing else
//	warden  has that, and may patch
//	edna    may edit the namespace
type office struct {
	server    *apitest.Server
	namespace string
	robot     string // a ServiceAccount that approves for the pool finance
}

func openOffice(t *testing.T) office {
	t.Helper()
	server := installed(t)
	admin := server.Client(t)
	o := office{server: server, namespace: server.Namespace(t)}
	elsewhere := server.Namespace(t)
	o.robot = "system:serviceaccount:" + o.namespace + ":robot"

	on := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"ekiden.dev"}, Resources: []string{resource}, Verbs: verbs}
	}
	pool := func(names ...string) rbacv1.PolicyRule {
		rule := on("approverpools", "approve")
		rule.ResourceNames = names
		return rule
	}
	managers := []rbacv1.PolicyRule{
		on("approvalrequests", "create", "get", "list", "watch", "delete", "manage"),
		on("approvalrequests/status", "patch"),
	}
	grant(t, admin, o.namespace, "ekiden-approver", "fiona", "gus", "olga", "sam", "ella", "paul", "dana", "derek", o.robot)
	grant(t, admin, elsewhere, "ekiden-approver", "ella")
	grant(t, admin, o.namespace, "edit", "edna")
	o.allow(t, o.namespace, []rbacv1.PolicyRule{pool("finance")}, user("fiona"), user("dana"), user("quinn"), user(o.robot), group("finance"))
	o.allow(t, o.namespace, []rbacv1.PolicyRule{pool("sales", "support")}, user("sam"))
	o.allow(t, o.namespace, []rbacv1.PolicyRule{pool()}, user("olga"))
	o.allow(t, elsewhere, []rbacv1.PolicyRule{pool("finance")}, user("ella"))
	o.allow(t, o.namespace, managers, user("keeper"), user("warden"))
	o.allow(t, o.namespace, []rbacv1.PolicyRule{on("approvalrequests", "patch")}, user("warden"))
	o.allow(t, o.namespace, []rbacv1.PolicyRule{on("approvalrequests", all...)}, user("quinn"), user("system:serviceaccount:kube-system:job-controller"))

	// The last of each chain of grants, so that all are known.
	wantRight(t, admin, "quinn", o.namespace, right{all, "approvalrequests"}, true)
	wantRight(t, admin, "derek", o.namespace, right{[]string{"patch"}, "approvalrequests"}, true)
	return o
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

// allow grants rules of their own to people.
func (o office) allow(t *testing.T, namespace string, rules []rbacv1.PolicyRule, whom ...rbacv1.Subject) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fresh("test-allow")}, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   whom,
	}
	for _, object := range []client.Object{role, binding} {
		if err := o.server.Client(t).Create(t.Context(), object); err != nil {
			t.Fatalf("granting: %v", err)
		}
	}
}

// asked is a request that is stored, in a phase.
func (o office) asked(t *testing.T, phase v1alpha1.ApprovalPhase, change ...func(*v1alpha1.ApprovalRequest)) *v1alpha1.ApprovalRequest {
	t.Helper()
	keeper := o.server.As(t, "keeper")
	request := given.Request(fresh("request"), o.namespace, change...)
	if err := keeper.Create(t.Context(), request); err != nil {
		t.Fatalf("creating a request: %v", err)
	}
	if phase != "" {
		patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase)
		if err := keeper.Status().Patch(t.Context(), request, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatalf("writing the phase of a request: %v", err)
		}
	}
	return request
}

// patch sends a merge patch as a user.
func (o office) patch(t *testing.T, request *v1alpha1.ApprovalRequest, patch, user string, groups ...string) error {
	t.Helper()
	return o.server.As(t, user, groups...).Patch(t.Context(), request, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// wantSaid checks that the answer is a refusal and ends with the sentence. The guard's is all that follows its name.
func wantSaid(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil {
		t.Errorf("accepted, want it refused with %q", says)
		return
	}
	text := err.Error()
	if _, sentence, guarded := strings.Cut(text, "ValidatingAdmissionPolicy 'ekiden-approval-decision' with binding 'ekiden-approval-decision' denied request: "); guarded {
		if !apierrors.IsForbidden(err) {
			t.Errorf("the guard refuses with the reason %s, want Forbidden", apierrors.ReasonForError(err))
		}
		if sentence != says {
			t.Errorf("the guard says\n%s\nwant\n%s", sentence, says)
		}
		return
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		t.Errorf("failed for another reason: %s", clip(err))
	}
	// What the API server adds when a rule could not be asked about a value.
	text, _, _ = strings.Cut(text, ", <nil>: Invalid value: null: some validation rules were not checked")
	if !strings.HasSuffix(text, ": "+says) {
		t.Errorf("the answer is\n%s\nwant it to end with\n%s", clip(err), says)
	}
}

const (
	approve = `{"spec":{"decision":{"verdict":"Approved"}}}`
	deny    = `{"spec":{"decision":{"verdict":"Denied","reason":"Ask the customer first."}}}`

	happened = `{"spec":{"decision":{"verdict":"Happened"}}}`

	otherQuestion  = "spec.decision.verdict answers another question: a request of type Call takes Approved or Denied, one of type Indeterminate takes Happened, NotHappened or Retry"
	createdDecided = "An approval request is created open. Leave spec.decision out; an approver of its pool decides"
	onlyCreates    = "Only the manager creates approval requests. Start a run: it asks by itself for each call that a policy wants approved"
	onlyDeletes    = "Only the manager deletes approval requests: a run whose request is gone asks again. To say no set spec.decision.verdict to Denied; to be rid of the run cancel it"
	runActsForDana = "spec.decision: the run acts for you, dana, so you may not decide on its calls. Ask another approver of pool finance"
	questionStands = "only spec.decision can be set: what is asked does not change"
	decidedOnce    = "spec.decision is final: a request is decided once"
	notOpen        = "spec.decision: the request is no longer open (see status.phase); if the run still wants the call, it asks again"
)

func noApprover(user, pool, namespace string) string {
	return "spec.decision: " + user + " is no approver of pool " + pool + ". Ask one of them to decide, or have somebody grant you the verb approve on approverpools/" +
		pool + " of ekiden.dev in namespace " + namespace
}

func mayNotChange(fields string) string {
	return fields + " may not change: only spec.decision of an approval request can be set. Leave the rest as it is"
}

// cannot is what the API server says before any policy is asked.
func (o office) cannot(user, verb, resource string) string {
	return fmt.Sprintf("User %q cannot %s resource %q in API group \"ekiden.dev\" in the namespace %q", user, verb, resource, o.namespace)
}

// TestWhoDecides is what the guard lets through and what it refuses when a request is patched.
func TestWhoDecides(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	var many []string
	for nth := range 300 {
		many = append(many, fmt.Sprintf("group-%03d", nth))
	}
	type decision = v1alpha1.Decision
	type change = func(*v1alpha1.ApprovalRequest)
	plain := []string{"system:authenticated"}
	ofDerek := func(r *v1alpha1.ApprovalRequest) { r.Spec.Requester.User = "derek" }
	ofDoubt := func(r *v1alpha1.ApprovalRequest) {
		r.Spec.Type, r.Spec.Seat, r.Spec.Seats = v1alpha1.ApprovalIndeterminate, 1, 1
	}
	const long = 513

	cases := map[string]struct {
		user    string
		groups  []string
		request []change
		phase   v1alpha1.ApprovalPhase
		first   string // what fiona has patched before
		patch   string
		want    decision
		says    string
	}{
		"an approver approves":                         {user: "fiona", patch: approve, want: decision{Verdict: "Approved", By: "fiona", Groups: plain}},
		"an approver denies, with a reason":            {user: "fiona", patch: deny, want: decision{Verdict: "Denied", By: "fiona", Groups: plain, Reason: "Ask the customer first."}},
		"an approver with groups of her own":           {user: "fiona", groups: []string{"board", "board"}, patch: approve, want: decision{Verdict: "Approved", By: "fiona", Groups: []string{"board", "system:authenticated"}}},
		"an approver in very many groups":              {user: "fiona", groups: many, patch: approve, want: decision{Verdict: "Approved", By: "fiona", Groups: many[:128]}},
		"an approver with a group too long to be kept": {user: "fiona", groups: []string{strings.Repeat("g", long)}, patch: approve, want: decision{Verdict: "Approved", By: "fiona", Groups: plain}},
		"an approver by a group":                       {user: "gus", groups: []string{"finance"}, patch: approve, want: decision{Verdict: "Approved", By: "gus", Groups: []string{"finance", "system:authenticated"}}},
		"an approver of all pools":                     {user: "olga", patch: approve, want: decision{Verdict: "Approved", By: "olga", Groups: plain}},
		"a ServiceAccount":                             {user: o.robot, patch: approve, want: decision{Verdict: "Approved", By: o.robot, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + o.namespace, "system:authenticated"}}},
		"an administrator":                             {user: "root", groups: []string{"system:masters"}, patch: approve, want: decision{Verdict: "Approved", By: "root", Groups: []string{"system:masters", "system:authenticated"}}},
		"a request whose phase is Pending":             {user: "fiona", phase: "Pending", patch: approve, want: decision{Verdict: "Approved", By: "fiona", Groups: plain}},
		"a name that is written is overwritten":        {user: "fiona", patch: `{"spec":{"decision":{"verdict":"Approved","by":"carol"}}}`, want: decision{Verdict: "Approved", By: "fiona", Groups: plain}},
		"groups that are written are overwritten":      {user: "fiona", patch: `{"spec":{"decision":{"verdict":"Approved","groups":["board"]}}}`, want: decision{Verdict: "Approved", By: "fiona", Groups: plain}},
		"the same answer of the same person again":     {user: "fiona", first: approve, patch: approve, want: decision{Verdict: "Approved", By: "fiona", Groups: plain}},
		"a patch that says what is so, by a stranger":  {user: "paul", first: approve, patch: `{"spec":{"pool":"finance"}}`, want: decision{Verdict: "Approved", By: "fiona", Groups: plain}},
		"what is no field of a decision is not kept":   {user: "fiona", patch: `{"spec":{"decision":{"verdict":"Approved","arguments":"{}"}}}`, want: decision{Verdict: "Approved", By: "fiona", Groups: plain}},
		"a status is not written beside a decision":    {user: "fiona", patch: `{"spec":{"decision":{"verdict":"Approved"}},"status":{"phase":"Withdrawn"}}`, want: decision{Verdict: "Approved", By: "fiona", Groups: plain}},

		"a label by one who manages and may patch":     {user: "warden", patch: `{"metadata":{"labels":{"a":"b"}}}`},
		"a finalizer by one who manages and may patch": {user: "warden", patch: `{"metadata":{"finalizers":["test.example/x"]}}`},
		"an annotation by the garbage collector":       {user: "system:serviceaccount:kube-system:generic-garbage-collector", patch: `{"metadata":{"annotations":{"a":"b"}}}`},

		"a stranger who may patch":                               {user: "paul", patch: approve, says: noApprover("paul", "finance", o.namespace)},
		"a stranger in a group of the pool's name only":          {user: "paul", groups: []string{"approverpools/finance"}, patch: deny, says: noApprover("paul", "finance", o.namespace)},
		"an approver of another pool":                            {user: "sam", patch: approve, says: noApprover("sam", "finance", o.namespace)},
		"an approver in another namespace":                       {user: "ella", patch: approve, says: noApprover("ella", "finance", o.namespace)},
		"an approver says what came of a call":                   {user: "fiona", request: []change{ofDoubt}, patch: happened, want: decision{Verdict: "Happened", By: "fiona", Groups: plain}},
		"an approver has a call made again":                      {user: "fiona", request: []change{ofDoubt}, patch: `{"spec":{"decision":{"verdict":"Retry"}}}`, want: decision{Verdict: "Retry", By: "fiona", Groups: plain}},
		"a stranger says what came of a call":                    {user: "paul", request: []change{ofDoubt}, patch: happened, says: noApprover("paul", "finance", o.namespace)},
		"the one whom the run acts for says what came of a call": {user: "dana", request: []change{ofDoubt}, patch: happened, says: runActsForDana},
		"an approver approves what was sent":                     {user: "fiona", request: []change{ofDoubt}, patch: approve, says: otherQuestion},
		"an approver says what came of a call that was not sent": {user: "fiona", patch: happened, says: otherQuestion},
		"an administrator approves what was sent":                {user: "root", groups: []string{"system:masters"}, request: []change{ofDoubt}, patch: approve, says: otherQuestion},
		"what was said of a call is final":                       {user: "olga", request: []change{ofDoubt}, first: happened, patch: `{"spec":{"decision":{"verdict":"Retry"}}}`, says: decidedOnce},
		"an approver who changes what is asked":                  {user: "fiona", request: []change{ofDoubt}, patch: `{"spec":{"type":"Call","decision":{"verdict":"Approved"}}}`, says: questionStands},
		"an approver of this pool, asked for another":            {user: "fiona", request: []change{given.AskingPool("sales")}, patch: approve, says: noApprover("fiona", "sales", o.namespace)},

		"one who manages and is no approver":       {user: "warden", patch: approve, says: noApprover("warden", "finance", o.namespace)},
		"the garbage collector":                    {user: "system:serviceaccount:kube-system:generic-garbage-collector", patch: approve, says: noApprover("system:serviceaccount:kube-system:generic-garbage-collector", "finance", o.namespace)},
		"a stranger who calls himself an approver": {user: "paul", patch: `{"spec":{"decision":{"verdict":"Approved","by":"fiona"}}}`, says: noApprover("paul", "finance", o.namespace)},
		"somebody who may edit the namespace":      {user: "edna", patch: approve, says: o.cannot("edna", "patch", "approvalrequests")},

		"the one whom the run acts for, although an approver":      {user: "dana", patch: approve, says: runActsForDana},
		"the one whom the run acts for, to deny":                   {user: "dana", patch: deny, says: runActsForDana},
		"the one whom the run acts for, although an administrator": {user: "dana", groups: []string{"system:masters"}, patch: approve, says: runActsForDana},
		"the one whom the run acts for, in another name":           {user: "dana", patch: `{"spec":{"decision":{"verdict":"Approved","by":"fiona"}}}`, says: runActsForDana},
		"the one whom the run acts for, and no approver":           {user: "derek", request: []change{ofDerek}, patch: approve, says: "spec.decision: the run acts for you, derek, so you may not decide on its calls. Ask another approver of pool finance"},
		"the one whom the run acts for, who changes that":          {user: "dana", patch: `{"spec":{"requester":{"user":"derek"},"decision":{"verdict":"Approved"}}}`, says: questionStands},
		"an approver for whom other runs act":                      {user: "dana", request: []change{ofDerek}, patch: approve, want: decision{Verdict: "Approved", By: "dana", Groups: plain}},
		"an approver of another pool, who changes the pool":        {user: "sam", patch: `{"spec":{"pool":"sales","decision":{"verdict":"Approved"}}}`, says: questionStands},
		"an approver who changes the arguments":                    {user: "fiona", patch: `{"spec":{"call":{"arguments":"{}"},"decision":{"verdict":"Approved"}}}`, says: questionStands},
		"an approver who changes nothing but the expiry":           {user: "fiona", patch: `{"spec":{"expiresAt":"2101-01-01T00:00:00Z"}}`, says: questionStands},
		"an administrator who changes the pool":                    {user: "root", groups: []string{"system:masters"}, patch: `{"spec":{"pool":"sales"}}`, says: questionStands},

		"an approver who sets a label as well":                     {user: "fiona", patch: `{"metadata":{"labels":{"a":"b"}},"spec":{"decision":{"verdict":"Approved"}}}`, says: mayNotChange("metadata.labels")},
		"an approver who sets a label and nothing else":            {user: "fiona", patch: `{"metadata":{"labels":{"a":"b"}}}`, says: mayNotChange("metadata.labels")},
		"an approver who sets an annotation":                       {user: "fiona", patch: `{"metadata":{"annotations":{"a":"b"}},"spec":{"decision":{"verdict":"Approved"}}}`, says: mayNotChange("metadata.annotations")},
		"an approver who sets a finalizer":                         {user: "fiona", patch: `{"metadata":{"finalizers":["test.example/x"]}}`, says: mayNotChange("metadata.finalizers")},
		"an approver who sets an owner":                            {user: "quinn", patch: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"y"}]}}`, says: mayNotChange("metadata.ownerReferences")},
		"an approver who takes a label away":                       {user: "fiona", request: []change{labelled}, patch: `{"metadata":{"labels":null}}`, says: mayNotChange("metadata.labels")},
		"an approver who changes a label":                          {user: "fiona", request: []change{labelled}, patch: `{"metadata":{"labels":{"test.example/run":"other"}}}`, says: mayNotChange("metadata.labels")},
		"an approver who decides on a request with a label":        {user: "fiona", request: []change{labelled}, patch: approve, want: decision{Verdict: "Approved", By: "fiona", Groups: plain}},
		"an approver who sets labels, annotations and a finalizer": {user: "fiona", patch: `{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"},"finalizers":["test.example/x"]}}`, says: mayNotChange("metadata.annotations and metadata.finalizers and metadata.labels")},
		"whoever holds every verb of Kubernetes, who sets a label": {user: "quinn", patch: `{"metadata":{"labels":{"a":"b"}}}`, says: mayNotChange("metadata.labels")},
		"a name under which objects are generated":                 {user: "quinn", patch: `{"metadata":{"generateName":"x-"}}`, says: mayNotChange("metadata.generateName")},
		"another controller of Kubernetes, that sets a label":      {user: "system:serviceaccount:kube-system:job-controller", patch: `{"metadata":{"labels":{"a":"b"}}}`, says: mayNotChange("metadata.labels")},
		"an administrator who decides and sets a label":            {user: "root", groups: []string{"system:masters"}, patch: `{"metadata":{"labels":{"a":"b"}},"spec":{"decision":{"verdict":"Approved"}}}`, want: decision{Verdict: "Approved", By: "root", Groups: []string{"system:masters", "system:authenticated"}}},

		"a second decision, by another approver":                {user: "olga", first: approve, patch: `{"spec":{"decision":{"verdict":"Denied"}}}`, says: decidedOnce},
		"a second decision, by the same approver":               {user: "fiona", first: approve, patch: `{"spec":{"decision":{"verdict":"Denied"}}}`, says: decidedOnce},
		"the same decision by another approver in his name":     {user: "olga", first: approve, patch: `{"spec":{"decision":{"verdict":"Approved","by":"olga"}}}`, says: decidedOnce},
		"a decision that is taken back":                         {user: "fiona", first: approve, patch: `{"spec":{"decision":null}}`, says: decidedOnce},
		"a decision that an administrator changes":              {user: "root", groups: []string{"system:masters"}, first: approve, patch: `{"spec":{"decision":{"verdict":"Denied"}}}`, says: decidedOnce},
		"a decision that an administrator ascribes to somebody": {user: "root", groups: []string{"system:masters"}, first: approve, patch: `{"spec":{"decision":{"by":"olga"}}}`, says: decidedOnce},
		"a decision that an administrator removes":              {user: "root", groups: []string{"system:masters"}, first: approve, patch: `{"spec":{"decision":null}}`, says: decidedOnce},

		"a request that has expired":                               {user: "fiona", phase: "Expired", patch: approve, says: notOpen},
		"a request that was withdrawn":                             {user: "fiona", phase: "Withdrawn", patch: approve, says: notOpen},
		"a request that is said to be approved without a decision": {user: "fiona", phase: "Approved", patch: deny, says: notOpen},
		"a request that has expired, by an administrator":          {user: "root", groups: []string{"system:masters"}, phase: "Expired", patch: approve, says: notOpen},

		"an answer that is none":                                      {user: "fiona", patch: `{"spec":{"decision":{"verdict":"Maybe"}}}`, says: `Unsupported value: "Maybe": supported values: "Approved", "Denied", "Happened", "NotHappened", "Retry"`},
		"a reason without an answer":                                  {user: "fiona", patch: `{"spec":{"decision":{"reason":"Well."}}}`, says: "Required value"},
		"a name that is too long to be kept is refused and not cut":   {user: strings.Repeat("u", long), groups: []string{"system:masters"}, patch: approve, says: "may not be more than 512 bytes"},
		"an approver who writes the answer in the place of its field": {user: "fiona", patch: `{"spec":{"decision":"Approved"}}`, says: `spec.decision in body must be of type object: "string"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := o.asked(t, c.phase, c.request...)
			if c.first != "" {
				if err := o.patch(t, request, c.first, "fiona"); err != nil {
					t.Fatalf("deciding first: %v", err)
				}
			}
			was := request.Status.Phase
			err := o.patch(t, request, c.patch, c.user, c.groups...)
			if c.says != "" {
				wantSaid(t, err, c.says)
				return
			}
			wantAccepted(t, err)
			if diff := cmp.Diff(c.want, request.Spec.Decision); diff != "" {
				t.Errorf("the decision (-want +got):\n%s", diff)
			}
			if request.Status.Phase != was {
				t.Errorf("the phase became %q", request.Status.Phase)
			}
		})
	}
}

func labelled(r *v1alpha1.ApprovalRequest) { r.Labels = map[string]string{"test.example/run": "one"} }

// TestDecisionsInOtherWays: a merge patch is not the only way to write.
func TestDecisionsInOtherWays(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	decided := func(request *v1alpha1.ApprovalRequest) *v1alpha1.ApprovalRequest {
		changed := request.DeepCopy()
		changed.Spec.Decision = v1alpha1.Decision{Verdict: v1alpha1.VerdictApproved, By: "carol", Groups: []string{"board"}}
		return changed
	}
	applied := func(request *v1alpha1.ApprovalRequest) *unstructured.Unstructured {
		return apitest.Objects(t, fmt.Appendf(nil, `
apiVersion: ekiden.dev/v1alpha1
kind: ApprovalRequest
metadata: {name: %s, namespace: %s}
spec: {decision: {verdict: Approved, by: carol}}
`, request.Name, request.Namespace))[0]
	}
	cases := map[string]struct {
		user  string
		write func(ctx context.Context, c client.Client, request *v1alpha1.ApprovalRequest) error
		by    string
		says  string
	}{
		"an update": {user: "quinn", by: "quinn", write: func(ctx context.Context, c client.Client, r *v1alpha1.ApprovalRequest) error {
			return c.Update(ctx, decided(r))
		}},
		"an update with no more metadata than a name": {user: "quinn", by: "quinn", write: func(ctx context.Context, c client.Client, r *v1alpha1.ApprovalRequest) error {
			bare := decided(r)
			bare.ObjectMeta = metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, ResourceVersion: r.ResourceVersion}
			return c.Update(ctx, bare)
		}},
		"an update by a stranger": {user: "system:serviceaccount:kube-system:job-controller", says: noApprover("system:serviceaccount:kube-system:job-controller", "finance", o.namespace), write: func(ctx context.Context, c client.Client, r *v1alpha1.ApprovalRequest) error {
			return c.Update(ctx, decided(r))
		}},
		"a JSON patch": {user: "fiona", by: "fiona", write: func(ctx context.Context, c client.Client, r *v1alpha1.ApprovalRequest) error {
			return c.Patch(ctx, r, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/decision","value":{"verdict":"Approved","by":"carol"}}]`)))
		}},
		"server-side apply": {user: "fiona", by: "fiona", write: func(ctx context.Context, c client.Client, r *v1alpha1.ApprovalRequest) error {
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied(r)), client.FieldOwner("kubectl"))
		}},
		"server-side apply by a stranger": {user: "paul", says: noApprover("paul", "finance", o.namespace), write: func(ctx context.Context, c client.Client, r *v1alpha1.ApprovalRequest) error {
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied(r)), client.FieldOwner("kubectl"))
		}},
		"the status, by one who may write it": {user: "keeper", write: func(ctx context.Context, c client.Client, r *v1alpha1.ApprovalRequest) error {
			return c.Status().Patch(ctx, r, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"decision":{"verdict":"Approved","by":"fiona"}}}`)))
		}},
		"the status, by an approver": {user: "fiona", says: o.cannot("fiona", "patch", "approvalrequests/status"), write: func(ctx context.Context, c client.Client, r *v1alpha1.ApprovalRequest) error {
			return c.Status().Patch(ctx, r, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Approved"}}`)))
		}},
		"the status, by an administrator": {user: "", write: func(ctx context.Context, c client.Client, r *v1alpha1.ApprovalRequest) error {
			return c.Status().Update(ctx, decided(r))
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, writer := o.asked(t, ""), o.server.Client(t)
			if c.user != "" {
				writer = o.server.As(t, c.user)
			}
			err := c.write(t.Context(), writer, request.DeepCopy())
			if c.says != "" {
				wantSaid(t, err, c.says)
			} else {
				wantAccepted(t, err)
			}
			if err := o.server.Client(t).Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
				t.Fatal(err)
			}
			if got := request.Spec.Decision.By; got != c.by || len(request.Labels) > 0 {
				t.Errorf("decided by %q with labels %v, want %q without", got, request.Labels, c.by)
			}
		})
	}
}

// TestWhoCreatesRequests: the manager, and open ones. The first sentence is what it tries for itself.
func TestWhoCreatesRequests(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	cases := map[string]struct {
		user    string
		groups  []string
		decided bool
		says    string
	}{
		"the manager":                               {user: "keeper"},
		"an administrator":                          {user: "root", groups: []string{"system:masters"}},
		"the manager, already decided":              {user: "keeper", decided: true, says: createdDecided},
		"an administrator, already decided":         {user: "root", groups: []string{"system:masters"}, decided: true, says: createdDecided},
		"an approver who may create, decided":       {user: "quinn", decided: true, says: createdDecided},
		"an approver who may create":                {user: "quinn", says: onlyCreates},
		"another controller of Kubernetes":          {user: "system:serviceaccount:kube-system:job-controller", says: onlyCreates},
		"an approver":                               {user: "fiona", says: o.cannot("fiona", "create", "approvalrequests")},
		"somebody who may edit the namespace":       {user: "edna", says: o.cannot("edna", "create", "approvalrequests")},
		"the garbage collector, which may not even": {user: "system:serviceaccount:kube-system:generic-garbage-collector", says: o.cannot("system:serviceaccount:kube-system:generic-garbage-collector", "create", "approvalrequests")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			creator := o.server.As(t, c.user, c.groups...)
			for how, options := range map[string][]client.CreateOption{"created": nil, "tried": {client.DryRunAll}} {
				request := given.Request(fresh("request"), o.namespace)
				request.Status.Phase = v1alpha1.ApprovalApproved
				if c.decided {
					given.Decided(v1alpha1.VerdictApproved, c.user)(request)
				}
				err := creator.Create(t.Context(), request, options...)
				if c.says == "" {
					wantAccepted(t, err)
					if request.Status.Phase != "" {
						t.Errorf("%s: it begins as %s", how, request.Status.Phase)
					}
					continue
				}
				wantSaid(t, err, c.says)
				if c.decided && !recognised(err) {
					t.Errorf("%s: the manager would not recognise %v", how, err)
				}
			}
		})
	}
}

// recognised says whether a refusal is the guard's of a request that is created decided, as the manager tells it.
func recognised(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonForbidden || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return strings.Contains(cause.Message, "'ekiden-approval-decision'") && strings.Contains(cause.Message, ": "+admission.CreatedDecided+" ")
	})
}

// TestWhoDeletesRequests: the manager, and Kubernetes when what a request belongs to is gone.
func TestWhoDeletesRequests(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	const kubeSystem = "system:serviceaccount:kube-system:"
	cases := map[string]struct {
		user   string
		groups []string
		all    bool // deletes every request of the namespace
		says   string
	}{
		"the manager":                                    {user: "keeper"},
		"an administrator":                               {user: "root", groups: []string{"system:masters"}},
		"the garbage collector":                          {user: kubeSystem + "generic-garbage-collector"},
		"the namespace controller":                       {user: kubeSystem + "namespace-controller"},
		"another controller of Kubernetes":               {user: kubeSystem + "job-controller", says: onlyDeletes},
		"an approver who may delete":                     {user: "quinn", says: onlyDeletes},
		"an approver who may delete, all of them":        {user: "quinn", all: true, says: onlyDeletes},
		"an account of that name in another namespace":   {user: "system:serviceaccount:" + o.namespace + ":generic-garbage-collector", says: o.cannot("system:serviceaccount:"+o.namespace+":generic-garbage-collector", "delete", "approvalrequests")},
		"an approver":                                    {user: "fiona", says: o.cannot("fiona", "delete", "approvalrequests")},
		"somebody who may edit the namespace":            {user: "edna", says: o.cannot("edna", "delete", "approvalrequests")},
		"the one whom the run acts for, an approver":     {user: "dana", says: o.cannot("dana", "delete", "approvalrequests")},
		"somebody who may edit the namespace, all of it": {user: "edna", all: true, says: o.cannot("edna", "deletecollection", "approvalrequests")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, deleter := o.asked(t, ""), o.server.As(t, c.user, c.groups...)
			var err error
			if c.all {
				err = deleter.DeleteAllOf(t.Context(), &v1alpha1.ApprovalRequest{}, client.InNamespace(o.namespace), client.MatchingFields{"metadata.name": request.Name})
			} else {
				err = deleter.Delete(t.Context(), request.DeepCopy())
			}
			if c.says != "" {
				wantSaid(t, err, c.says)
			} else {
				wantAccepted(t, err)
			}
			err = o.server.Client(t).Get(t.Context(), client.ObjectKeyFromObject(request), request)
			if gone := apierrors.IsNotFound(err); gone != (c.says == "") {
				t.Errorf("the request is gone: %t (%v)", gone, err)
			}
		})
	}
}

// TestRequestsGoWithWhatTheyBelongTo lets Kubernetes itself do it: what the guard calls cleaning is no guess.
func TestRequestsGoWithWhatTheyBelongTo(t *testing.T) {
	t.Parallel()
	// The garbage collector looks for new kinds every half minute.
	const patience = 2 * time.Minute
	gone := func(t *testing.T, admin client.Client, object client.Object) {
		t.Helper()
		apitest.Within(t, patience, func() error {
			err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), object)
			if err == nil {
				err = fmt.Errorf("%s is still there, with finalizers %v", object.GetName(), object.GetFinalizers())
			}
			return client.IgnoreNotFound(err)
		})
	}
	prepare := func(t *testing.T) (client.Client, *v1alpha1.AgentRun, *v1alpha1.ApprovalRequest) {
		t.Helper()
		server := installed(t)
		admin := server.Client(t)
		run := given.Run(fresh("run"), server.Namespace(t))
		if err := admin.Create(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		request := given.Request(fresh("request"), run.Namespace, given.OfRun(run))
		if err := admin.Create(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		// The garbage collector acts on what it has heard of. It hears of the requests in the order in which they were made:
		// once this one, whose run is gone, is collected, it knows of the one above.
		before := given.Run(fresh("run"), run.Namespace)
		before.UID = types.UID(uuid.NewString())
		witness := given.Request(fresh("witness"), run.Namespace, given.OfRun(before))
		if err := admin.Create(t.Context(), witness); err != nil {
			t.Fatal(err)
		}
		gone(t, admin, witness)
		return admin, run, request
	}
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run("the run, "+string(policy), func(t *testing.T) {
			t.Parallel()
			admin, run, request := prepare(t)
			if err := admin.Delete(t.Context(), run, client.PropagationPolicy(policy)); err != nil {
				t.Fatal(err)
			}
			gone(t, admin, request)
			gone(t, admin, run)
		})
	}
	t.Run("the run, which leaves it behind", func(t *testing.T) {
		t.Parallel()
		admin, run, request := prepare(t)
		if err := admin.Delete(t.Context(), run, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			t.Fatal(err)
		}
		gone(t, admin, run)
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil || len(request.OwnerReferences) > 0 {
			t.Errorf("the request has the owners %v (%v), want none", request.OwnerReferences, err)
		}
	})
	t.Run("the namespace", func(t *testing.T) {
		t.Parallel()
		admin, run, request := prepare(t)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: run.Namespace}}
		if err := admin.Delete(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		gone(t, admin, request)
		gone(t, admin, namespace)
	})
}

// TestWithoutTheStampDecisionsAreRefused: the guard does not trust the stamp to be there. It has a server-wide effect, as
// the next one has, so both run alone, before the parallel tests.
func TestWithoutTheStampDecisionsAreRefused(t *testing.T) {
	o := openOffice(t)
	defer unbind(t, o.server, "MutatingAdmissionPolicyBinding", "ekiden-approval-decision")()
	apitest.Eventually(t, func() error {
		if o.patch(t, o.asked(t, ""), approve, "fiona") == nil {
			return errors.New("a decision is still stamped")
		}
		return nil
	})
	cases := map[string]struct{ decision, says string }{
		"a decision of nobody": {
			`{"verdict":"Approved"}`,
			"spec.decision.by is unset: the MutatingAdmissionPolicy ekiden-approval-decision, which fills it in, is not in force. Apply it and its binding, and decide again",
		},
		"a decision of somebody else":            {`{"verdict":"Approved","by":"olga","groups":["system:authenticated"]}`, "spec.decision.by: fiona may not decide as olga. Leave it out and it is filled in"},
		"a decision with the groups of another":  {`{"verdict":"Approved","by":"fiona","groups":["board","system:authenticated"]}`, "spec.decision.groups must be exactly the groups you are in. Leave it out and it is filled in"},
		"a decision with a group too few":        {`{"verdict":"Approved","by":"fiona"}`, "spec.decision.groups must be exactly the groups you are in. Leave it out and it is filled in"},
		"a decision that says itself what is so": {`{"verdict":"Approved","by":"fiona","groups":["system:authenticated"]}`, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := o.patch(t, o.asked(t, ""), `{"spec":{"decision":`+c.decision+`}}`, "fiona")
			if c.says == "" {
				wantAccepted(t, err)
				return
			}
			wantSaid(t, err, c.says)
		})
	}
}

// TestWithoutTheGuardADecidedRequestIsCreated: that is how the manager finds out. What a decision is worth then is its business.
func TestWithoutTheGuardADecidedRequestIsCreated(t *testing.T) {
	o := openOffice(t)
	keeper := o.server.As(t, "keeper")
	try := func() error {
		return keeper.Create(t.Context(), given.Request(fresh("canary"), o.namespace, given.Decided(v1alpha1.VerdictApproved, "nobody")), client.DryRunAll)
	}
	if err := try(); !recognised(err) {
		t.Fatalf("with the guard a decided request is not refused as it should be: %v", err)
	}
	restore := unbind(t, o.server, "ValidatingAdmissionPolicyBinding", "ekiden-approval-decision")
	restored := false
	defer func() {
		if !restored {
			restore()
		}
	}()
	apitest.Eventually(t, try)
	// And this is what it is there to find out about.
	wantAccepted(t, o.patch(t, o.asked(t, ""), approve, "paul"))
	wantAccepted(t, o.patch(t, o.asked(t, ""), approve, "dana"))
	// The rules of the kind hold all the same.
	wantSaid(t, o.patch(t, o.asked(t, v1alpha1.ApprovalExpired), approve, "paul"), notOpen)

	restore()
	restored = true
	if err := try(); !recognised(err) {
		t.Errorf("with the guard back a decided request is not refused as it should be: %v", err)
	}
}

// TestWhatGuardsApprovalsIsWhatTheManagerExpects: it compares the specs, so no default may be left to the API server.
func TestWhatGuardsApprovalsIsWhatTheManagerExpects(t *testing.T) {
	t.Parallel()
	admin := installed(t).Client(t)
	objects, err := admission.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range objects {
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(want.GroupVersionKind())
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Object["spec"], got.Object["spec"]); diff != "" {
			t.Errorf("%s %s (-want +installed):\n%s", want.GetKind(), want.GetName(), diff)
		}
	}
}
