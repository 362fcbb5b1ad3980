package crd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/test/apitest"
)

const manager = "system:serviceaccount:ekiden-system:ekiden-manager"

var (
	reads = []string{"get", "list", "watch"}
	// caches is what a cache needs.
	caches = []string{"list", "watch"}
	writes = []string{"create", "update", "patch", "delete", "deletecollection"}
	all    = append(slices.Clone(reads), writes...)
)

// right is a set of verbs on a resource: resource, resource/subresource or resource.group.
type right struct {
	verbs []string
	on    string
}

// resource reads a right's words. Without a group it is ekiden.dev; core is "".
func (r right) attributes(namespace, verb string) *authorizationv1.ResourceAttributes {
	resource, name, _ := strings.Cut(r.on, ":")
	resource, sub, _ := strings.Cut(resource, "/")
	resource, group, found := strings.Cut(resource, ".")
	switch {
	case !found:
		group = "ekiden.dev"
	case group == "core":
		group = ""
	}
	return &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: name}
}

// TestRoles asks the API server what each role allows, and what not.
func TestRoles(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	elsewhere := server.Namespace(t)

	nobodys := []right{
		{writes, "agentruns/status"},
		{writes, "agentdefinitions/status"},
		{writes, "agentruns/finalizers"},
		{writes, "definitionrevisions"},
		{[]string{"actas"}, "principals"},
		{writes, "agentpolicies/status"},
		{writes, "toolservers/status"},
		{writes, "approvalrequests/status"},
		{[]string{"create", "update", "delete", "deletecollection", "manage"}, "approvalrequests"},
		{[]string{"approve"}, "approverpools"},
		{[]string{"approve"}, "approverpools:default"},
	}
	cases := map[string]struct{ may, mayNot []right }{
		"ekiden-author": {
			may: []right{{all, "agentdefinitions"}, {reads, "definitionrevisions"}, {reads, "modelendpoints"}, {reads, "toolservers"}, {reads, "agentpolicies"}},
			mayNot: []right{
				{all, "agentruns"}, {writes, "modelendpoints"}, {writes, "toolservers"}, {writes, "agentpolicies"}, {[]string{"patch"}, "approvalrequests"}, {all, "secrets.core"}, {all, "configmaps.core"}, {all, "pods.core"},
			},
		},
		"ekiden-caller": {
			may: []right{{all, "agentruns"}, {reads, "agentdefinitions"}, {reads, "definitionrevisions"}, {reads, "approvalrequests"}},
			mayNot: []right{
				{[]string{"patch"}, "approvalrequests"},
				{all, "toolservers"},
				{writes, "agentdefinitions"},
				{all, "modelendpoints"},
				{all, "agentpolicies"},
				{all, "secrets.core"},
				{all, "configmaps.core"},
				{all, "jobs.batch"},
			},
		},
		"ekiden-viewer": {
			may: []right{
				{reads, "agentruns"},
				{reads, "agentdefinitions"},
				{reads, "definitionrevisions"},
				{reads, "modelendpoints"},
				{reads, "toolservers"},
				{reads, "agentpolicies"},
				{reads, "approvalrequests"},
			},
			mayNot: []right{
				{writes, "agentruns"},
				{writes, "agentdefinitions"},
				{writes, "modelendpoints"},
				{writes, "toolservers"},
				{writes, "agentpolicies"},
				{[]string{"patch"}, "approvalrequests"},
				{all, "secrets.core"},
			},
		},
		"ekiden-platform": {
			may: []right{
				{all, "modelendpoints"},
				{all, "toolservers"},
				{all, "agentpolicies"},
				{reads, "agentruns"},
				{reads, "agentdefinitions"},
				{reads, "definitionrevisions"},
				{reads, "approvalrequests"},
			},
			mayNot: []right{{writes, "agentruns"}, {writes, "agentdefinitions"}, {[]string{"patch"}, "approvalrequests"}, {all, "secrets.core"}},
		},
		"ekiden-approver": {
			may: []right{{append([]string{"patch"}, reads...), "approvalrequests"}},
			mayNot: []right{
				{all, "agentruns"}, {all, "agentdefinitions"}, {all, "modelendpoints"}, {all, "toolservers"}, {all, "agentpolicies"}, {all, "secrets.core"},
			},
		},
		"view": {
			may:    []right{{reads, "agentruns"}, {reads, "agentdefinitions"}, {reads, "modelendpoints"}, {reads, "toolservers"}, {reads, "approvalrequests"}},
			mayNot: []right{{writes, "agentruns"}, {writes, "agentdefinitions"}, {writes, "modelendpoints"}, {writes, "toolservers"}, {writes, "agentpolicies"}, {writes, "approvalrequests"}},
		},
		"edit": {
			may:    []right{{all, "agentruns"}, {all, "agentdefinitions"}, {reads, "modelendpoints"}, {reads, "toolservers"}, {reads, "agentpolicies"}, {reads, "approvalrequests"}},
			mayNot: []right{{writes, "modelendpoints"}, {writes, "toolservers"}, {writes, "agentpolicies"}, {writes, "approvalrequests"}},
		},
		"admin": {
			may:    []right{{all, "agentruns"}, {all, "agentdefinitions"}, {reads, "modelendpoints"}, {reads, "toolservers"}, {reads, "agentpolicies"}, {reads, "approvalrequests"}},
			mayNot: []right{{writes, "modelendpoints"}, {writes, "toolservers"}, {writes, "agentpolicies"}, {writes, "approvalrequests"}},
		},
	}
	for role, c := range cases {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			user := "a-" + role
			grant(t, admin, namespace, role, user)
			for _, right := range c.may {
				wantRight(t, admin, user, namespace, right, true)
				wantRight(t, admin, user, elsewhere, right, false)
			}
			for _, right := range append(c.mayNot, nobodys...) {
				wantRight(t, admin, user, namespace, right, false)
			}
		})
	}
}

// TestTheManagersRights: what the manager needs, and what nobody can make it do.
func TestTheManagersRights(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	may := []right{
		{[]string{"get", "list", "watch", "patch", "delete"}, "agentruns"},
		{[]string{"patch"}, "agentruns/status"},
		{[]string{"update"}, "agentruns/finalizers"},
		{caches, "agentdefinitions"},
		{[]string{"patch"}, "agentdefinitions/status"},
		{[]string{"update"}, "agentdefinitions/finalizers"},
		{[]string{"get", "list", "watch", "create", "delete"}, "definitionrevisions"},
		{caches, "modelendpoints"},
		{caches, "agentpolicies"},
		{[]string{"patch"}, "agentpolicies/status"},
		{caches, "toolservers"},
		{[]string{"patch"}, "toolservers/status"},
		{[]string{"get", "list", "watch", "create", "manage"}, "approvalrequests"},
		{[]string{"patch"}, "approvalrequests/status"},
		{[]string{"get", "list", "watch", "create", "delete"}, "jobs.batch"},
		{caches, "pods.core"},
		{reads, "namespaces.core"},
		{[]string{"get"}, "configmaps.core"},
		{[]string{"create", "patch"}, "events.events.k8s.io"},
		{[]string{"create", "list"}, "events.core"},
		{[]string{"get"}, "secrets.core:ekiden-postgres"},
	}
	mayNot := []right{
		{[]string{"list", "watch", "deletecollection"}, "secrets.core"},
		{[]string{"get", "list", "watch", "update", "patch", "delete"}, "secrets.core:llm"},
		{[]string{"create", "update"}, "agentruns"},
		{append([]string{"get"}, writes...), "agentdefinitions"},
		{[]string{"update", "patch"}, "definitionrevisions"},
		{writes, "modelendpoints"},
		{writes, "agentpolicies"},
		{writes, "toolservers"},
		{[]string{"update", "patch", "deletecollection"}, "approvalrequests"},
		{[]string{"approve"}, "approverpools"},
		{[]string{"approve"}, "approverpools:default"},
		{[]string{"update", "patch"}, "jobs.batch"},
		{writes, "pods.core"},
		{all, "pods.core/exec"},
		{all, "pods.core/log"},
		{writes, "namespaces.core"},
		{append([]string{"list", "watch"}, writes...), "configmaps.core"},
		{all, "leases.coordination.k8s.io"},
		{[]string{"create"}, "serviceaccounts.core/token"},
		{[]string{"impersonate"}, "users.core"},
		{[]string{"impersonate"}, "groups.core"},
		{[]string{"impersonate"}, "serviceaccounts.core"},
		{append([]string{"bind", "escalate"}, writes...), "roles.rbac.authorization.k8s.io"},
		{append([]string{"bind", "escalate"}, writes...), "clusterroles.rbac.authorization.k8s.io"},
		{writes, "rolebindings.rbac.authorization.k8s.io"},
		{writes, "clusterrolebindings.rbac.authorization.k8s.io"},
		{writes, "validatingadmissionpolicies.admissionregistration.k8s.io"},
		{writes, "mutatingadmissionpolicies.admissionregistration.k8s.io"},
		{writes, "customresourcedefinitions.apiextensions.k8s.io"},
	}
	for _, right := range may {
		wantRight(t, admin, manager, namespace, right, true)
	}
	for _, right := range mayNot {
		wantRight(t, admin, manager, namespace, right, false)
	}
	wantRight(t, admin, manager, "ekiden-system", right{[]string{"create"}, "leases.coordination.k8s.io"}, true)
	wantRight(t, admin, manager, "ekiden-system", right{[]string{"get", "update"}, "leases.coordination.k8s.io:ekiden-manager"}, true)
	wantRight(t, admin, manager, "ekiden-system", right{[]string{"get", "update", "patch", "delete"}, "leases.coordination.k8s.io:other"}, false)
}

// TestNoRoleIsOpenEnded: a star grows with every kind that is added, and three verbs give away all others.
func TestNoRoleIsOpenEnded(t *testing.T) {
	t.Parallel()
	server := apitest.Start(t)
	for _, object := range server.Kustomize(t, apitest.Path(t, "config", "default")) {
		if object.GetKind() != "ClusterRole" && object.GetKind() != "Role" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := convert(object.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, word := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs) {
				if strings.Contains(word, "*") || slices.Contains([]string{"escalate", "bind", "impersonate"}, word) {
					t.Errorf("%s %s holds %q in %v", object.GetKind(), role.Name, word, rule)
				}
			}
		}
	}
}

// wantRight asks until the answer is right: aggregated roles and bindings take a moment.
func wantRight(t *testing.T, admin client.Client, user, namespace string, right right, want bool) {
	t.Helper()
	for _, verb := range right.verbs {
		ask := func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: right.attributes(namespace, verb),
			}}
			if err := admin.Create(t.Context(), review); err != nil {
				return err
			}
			if review.Status.Allowed != want {
				return fmt.Errorf("%s: %s %s: %t, want %t (%s)", user, verb, right.on, review.Status.Allowed, want, review.Status.Reason)
			}
			return nil
		}
		if want {
			apitest.Eventually(t, ask)
		} else if err := ask(); err != nil {
			t.Error(err)
		}
	}
}
