package crd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/apitest"
)

// grant gives a ClusterRole in a namespace to users.
func grant(t *testing.T, admin client.Client, namespace, role string, users ...string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fresh("grant")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
	for _, user := range users {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	if err := admin.Create(t.Context(), binding); err != nil {
		t.Fatalf("granting %s: %v", role, err)
	}
}

// grantActas lets a user act for others in a namespace.
func grantActas(t *testing.T, admin client.Client, namespace, user string, others ...string) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fresh("actas")},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"ekiden.dev"}, Resources: []string{"principals"}, ResourceNames: others, Verbs: []string{"actas"}}},
	}
	if err := admin.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fresh("actas")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}); err != nil {
		t.Fatal(err)
	}
}

func run(namespace string, principal v1alpha1.Principal) *v1alpha1.AgentRun {
	return &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fresh("run")},
		Spec: v1alpha1.AgentRunSpec{
			DefinitionRef: v1alpha1.RunDefinitionReference{Kind: v1alpha1.AgentDefinitionKind, Name: "triage"},
			Input:         v1alpha1.RunInput{Text: "Hello."},
			Principal:     principal,
		},
	}
}

// TestPrincipal is about who a new run acts for. Of the users dana is plain, the scheduler may act for dana, and
// the robot is a ServiceAccount.
func TestPrincipal(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace, elsewhere := server.Client(t), server.Namespace(t), server.Namespace(t)
	robot := "system:serviceaccount:" + namespace + ":robot"
	for _, place := range []string{namespace, elsewhere} {
		grant(t, admin, place, "ekiden-caller", "dana", "scheduler", "anyone", robot)
	}
	grantActas(t, admin, namespace, "scheduler", "dana")
	grantActas(t, admin, namespace, "anyone")

	var many, kept []string
	for nth := range 300 {
		many = append(many, fmt.Sprintf("group-%03d", nth))
	}
	kept = many[:128]
	type principal = v1alpha1.Principal
	plain := []string{"support", "system:authenticated"}

	cases := map[string]struct {
		user   string
		groups []string
		in     string
		given  principal
		want   principal
		words  []string
	}{
		"unset, it is the user who creates the run":            {user: "dana", groups: []string{"support"}, want: principal{User: "dana", Groups: plain}},
		"a user in no group of its own":                        {user: "dana", want: principal{User: "dana", Groups: []string{"system:authenticated"}}},
		"a group that is named twice is stamped once":          {user: "dana", groups: []string{"support", "support"}, want: principal{User: "dana", Groups: plain}},
		"of very many groups the first 128 are stamped":        {user: "dana", groups: many, want: principal{User: "dana", Groups: kept}},
		"a group too long for the schema is left out":          {user: "dana", groups: []string{strings.Repeat("g", 513), "support"}, want: principal{User: "dana", Groups: plain}},
		"a ServiceAccount is stamped with its groups":          {user: robot, want: principal{User: robot, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}}},
		"oneself, spelled out":                                 {user: "dana", groups: []string{"support"}, given: principal{User: "dana", Groups: plain}, want: principal{User: "dana", Groups: plain}},
		"oneself, with the groups in another order":            {user: "dana", groups: []string{"support"}, given: principal{User: "dana", Groups: []string{"system:authenticated", "support"}}, want: principal{User: "dana", Groups: []string{"system:authenticated", "support"}}},
		"oneself, with a group too many":                       {user: "dana", groups: []string{"support"}, given: principal{User: "dana", Groups: append([]string{"finance"}, plain...)}, words: notYourGroups},
		"oneself, with a group too few":                        {user: "dana", groups: []string{"support"}, given: principal{User: "dana", Groups: []string{"support"}}, words: notYourGroups},
		"oneself, without groups":                              {user: "dana", groups: []string{"support"}, given: principal{User: "dana"}, words: notYourGroups},
		"somebody else":                                        {user: "dana", given: principal{User: "carol"}, words: []string{"spec.principal.user: dana may not act for carol", "Leave spec.principal out", "actas on principals/carol"}},
		"an administrator's group does not come with a name":   {user: "dana", given: principal{User: "admin", Groups: []string{"system:masters"}}, words: []string{"spec.principal.user"}},
		"a ServiceAccount as a person":                         {user: robot, given: principal{User: "dana"}, words: []string{"spec.principal.user: " + robot + " may not act for dana"}},
		"a person as a ServiceAccount":                         {user: "dana", given: principal{User: robot}, words: []string{"spec.principal.user"}},
		"actas lets a user name another":                       {user: "scheduler", given: principal{User: "dana", Groups: []string{"support"}}, want: principal{User: "dana", Groups: []string{"support"}}},
		"actas on one user is not actas on another":            {user: "scheduler", given: principal{User: "carol"}, words: []string{"may not act for carol"}},
		"actas in one namespace is not actas in another":       {user: "scheduler", in: elsewhere, given: principal{User: "dana"}, words: []string{"may not act for dana"}},
		"actas on all users":                                   {user: "anyone", given: principal{User: "carol"}, want: principal{User: "carol"}},
		"whoever may act for others acts for itself by itself": {user: "scheduler", want: principal{User: "scheduler", Groups: []string{"system:authenticated"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := c.in
			if in == "" {
				in = namespace
			}
			object := run(in, c.given)
			err := server.As(t, c.user, c.groups...).Create(t.Context(), object)
			if c.words != nil {
				wantRefused(t, err, c.words...)
				return
			}
			wantAccepted(t, err)
			if got := object.Spec.Principal; got.User != c.want.User || !slices.Equal(got.Groups, c.want.Groups) {
				t.Errorf("the principal is %v, want %v", got, c.want)
			}
		})
	}
}

var notYourGroups = []string{"spec.principal.groups must be exactly the groups you are in", "Leave spec.principal out"}

// TestThePrincipalSurvivesBeingAppliedAgain: who applies a manifest again, the same person or another, changes nothing.
func TestThePrincipalSurvivesBeingAppliedAgain(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	grant(t, admin, namespace, "ekiden-caller", "dana", "erin")
	for _, user := range []string{"dana", "dana", "erin"} {
		manifest := example(t, "AgentRun", 1, namespace)
		err := server.As(t, user).Apply(t.Context(), client.ApplyConfigurationFromUnstructured(manifest), client.FieldOwner("kubectl"))
		wantAccepted(t, err)
	}
	kept := &v1alpha1.AgentRun{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "example"}, kept); err != nil {
		t.Fatal(err)
	}
	if kept.Spec.Principal.User != "dana" {
		t.Errorf("the principal is %q, want dana", kept.Spec.Principal.User)
	}
}

// TestWithoutTheStampRunsAreRefused: the guard does not trust the stamp to be there. It has a server-wide effect,
// so it runs alone, before the parallel tests.
func TestWithoutTheStampRunsAreRefused(t *testing.T) {
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	grant(t, admin, namespace, "ekiden-caller", "dana")
	dana := server.As(t, "dana")

	defer unbind(t, server, "MutatingAdmissionPolicyBinding", "ekiden-run-principal")()
	var refusal error
	apitest.Eventually(t, func() error {
		refusal = dana.Create(t.Context(), run(namespace, v1alpha1.Principal{}), client.DryRunAll)
		if refusal == nil {
			return fmt.Errorf("a run is still stamped")
		}
		return nil
	})
	wantRefused(t, refusal, "spec.principal is unset", "MutatingAdmissionPolicy ekiden-run-principal", "Apply it")
}

// unbind takes a policy out of force. The function it returns applies config/admission again.
func unbind(t *testing.T, server *apitest.Server, kind, name string) (restore func()) {
	t.Helper()
	binding := &unstructured.Unstructured{}
	binding.SetGroupVersionKind(runtimeschema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind})
	binding.SetName(name)
	if err := server.Client(t).Delete(t.Context(), binding); err != nil {
		t.Fatalf("unbinding %s: %v", name, err)
	}
	return func() {
		server.Apply(t, apitest.Path(t, "config", "admission"))
		server.AwaitAdmission(t)
	}
}
