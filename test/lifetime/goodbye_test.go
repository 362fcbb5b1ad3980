package lifetime

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
	"github.com/ekiden-dev/ekiden/hack/rights"
	"github.com/ekiden-dev/ekiden/test/given"
)

// way is how an administrator installs Ekiden, and takes it away so that the kinds and their objects stay.
type way struct{ install, check, uninstall, purge func(*story) }

var ways = map[string]way{
	"with kubectl": {
		install: (*story).install,
		check:   func(*story) {},
		uninstall: func(s *story) {
			s.release()
			s.remove(func(kind string) bool { return !stays(kind) })
		},
		purge: func(s *story) {
			s.release()
			s.remove(func(string) bool { return true })
		},
	},
	"with Helm": {
		install: func(s *story) {
			if err := s.cluster.Prepare(s.Context()); err != nil {
				s.Fatal(err)
			}
			s.helm("upgrade", "--install", "ekiden", filepath.Join(s.repo, "charts", "ekiden"), "--wait", "--timeout=3m",
				"--set", "manager.image.repository=ekiden/manager", "--set", "manager.image.tag=dev",
				"--set", "segment.image.repository=ekiden/segment", "--set", "segment.image.tag=dev")
		},
		check:     func(s *story) { s.helm("test", "ekiden", "--timeout=3m") },
		uninstall: func(s *story) { s.helm("uninstall", "ekiden", "--wait", "--timeout=5m") },
		purge: func(s *story) {
			s.helm("uninstall", "ekiden", "--wait", "--timeout=5m")
			s.kubectl("delete", "crd", "-l", "app.kubernetes.io/name=ekiden")
			for _, kind := range policies {
				s.kubectl("delete", kind, "-l", "app.kubernetes.io/name=ekiden")
			}
			s.kubectl("delete", "namespace", cluster.ManagerNamespace)
		},
	},
}

// policies are the kinds of what guards our kinds.
var policies = []string{"validatingadmissionpolicy", "validatingadmissionpolicybinding", "mutatingadmissionpolicy", "mutatingadmissionpolicybinding"}

// stays reports whether objects of a kind are left when Ekiden goes: the kinds, what guards them, and the namespace, in which the
// platform keeps its policy.
func stays(kind string) bool {
	return slices.Contains(append(policies, "customresourcedefinition", "namespace"), strings.ToLower(kind))
}

// TestGoodbye takes an installation away while one run waits for people, one works and one is over. What is deleted meanwhile
// goes, and its namespace; what stays goes on where it stood once Ekiden is back. In the end all goes.
func TestGoodbye(t *testing.T) {
	t.Parallel()
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, root())
			w.install(s)
			w.check(s)
			s.employ(refunding("parked"), slow("working"), slow("doomed"), slow("over"), refunding("late"))
			s.model.Open("over")
			s.start("over")
			s.until("over", v1alpha1.RunSucceeded)
			s.start("parked")
			s.until("parked", v1alpha1.RunWaiting)
			s.start("working")
			s.start("doomed")
			s.asked(7) // both of them think about what they were told of the customer

			w.uninstall(s)
			s.released()
			s.used()
			s.delete(s.get("over"))
			s.delete(s.get("doomed"))
			s.forge()
			s.model.Open("working")
			s.yields("working")

			w.install(s)
			s.until("working", v1alpha1.RunSucceeded)
			s.wantRefunds(0)
			s.approve()
			s.until("parked", v1alpha1.RunSucceeded)
			s.wantSaid(8)
			s.wantRefunds(1)

			s.start("late")
			w.purge(s)
			s.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
			s.cleared()
		})
	}
}

// release runs config/uninstall as its text says.
func (s *story) release() {
	s.Helper()
	folder := filepath.Join(s.repo, "config", "uninstall")
	s.kubectl("apply", "-k", folder)
	s.kubectl("-n", cluster.ManagerNamespace, "wait", "--for=condition=Complete", "job/ekiden-uninstall", "--timeout=180s")
	s.kubectl("delete", "-k", folder)
}

// remove deletes what config/default holds of some kinds.
func (s *story) remove(wanted func(kind string) bool) {
	s.Helper()
	var kept []string
	for object := range strings.SplitSeq(s.kubectl("kustomize", filepath.Join(s.repo, "config", "default")), "\n---\n") {
		_, rest, _ := strings.Cut("\n"+object, "\nkind: ")
		kind, _, _ := strings.Cut(rest, "\n")
		if wanted(kind) {
			kept = append(kept, object)
		}
	}
	if _, err := s.cluster.KubectlIn(s.Context(), strings.Join(kept, "\n---\n"), "delete", "--timeout=120s", "-f", "-"); err != nil {
		s.Fatal(err)
	}
}

// helm is what an administrator types.
func (s *story) helm(args ...string) {
	s.Helper()
	if out, err := s.cluster.Helm(s.Context(), args...); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
}

// released checks that nothing of ours has a finalizer.
func (s *story) released() {
	s.Helper()
	var runs v1alpha1.AgentRunList
	if err := s.api.List(s.Context(), &runs); err != nil {
		s.Fatal(err)
	}
	if len(runs.Items) != 4 {
		s.Errorf("%d runs are left of 4", len(runs.Items))
	}
	for _, r := range runs.Items {
		if len(r.Finalizers) > 0 {
			s.Errorf("run %s has the finalizers %v", r.Name, r.Finalizers)
		}
	}
}

// used checks that whoever prepares the end makes use of all that it may. It looks at a run anew only if that changes meanwhile.
func (s *story) used() {
	s.Helper()
	objects, err := rights.Manifests(filepath.Join(s.repo, "config", "uninstall"))
	if err != nil {
		s.Fatal(err)
	}
	granted, err := rights.Of("ekiden-uninstall", objects)
	if err != nil || len(granted) == 0 {
		s.Fatalf("it has no rights (%v)", err)
	}
	log, err := os.Open(filepath.Join(s.cluster.Dir, "logs", "audit.jsonl"))
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // it was only read
	used, err := rights.Used(log, "system:serviceaccount:"+cluster.ManagerNamespace+":ekiden-uninstall", granted)
	if err != nil {
		s.Fatal(err)
	}
	for _, r := range granted {
		if !used[r] && r != (rights.Right{Group: v1alpha1.GroupVersion.Group, Resource: "agentruns", Verb: "get"}) {
			s.Errorf("the end was prepared without the right to %s", r)
		}
	}
}

// delete deletes an object and waits until it is gone.
func (s *story) delete(o client.Object) {
	s.Helper()
	if err := s.api.Delete(s.Context(), o); err != nil {
		s.Fatal(err)
	}
	s.eventually(o.GetName()+" is gone", func() bool {
		return apierrors.IsNotFound(s.api.Get(s.Context(), client.ObjectKeyFromObject(o), o))
	})
}

// forge has somebody act for another, and decide for fran. While nobody manages, that is guarded as ever.
func (s *story) forge() {
	s.Helper()
	run := given.Run("forged", namespace, func(r *v1alpha1.AgentRun) { r.Spec.Principal = v1alpha1.Principal{User: "boss"} })
	if err := s.as("edna").Create(s.Context(), run); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not act for boss") {
		s.Errorf("a run that acts for somebody else: %v", err)
	}
	name := strings.TrimSpace(s.kubectl("-n", namespace, "get", "areq", "-o", "jsonpath={.items[0].metadata.name}"))
	_, err := s.cluster.Kubectl(s.Context(), "-n", namespace, "--as", "edna", "patch", "areq", name, "--type", "merge", "-p", `{"spec":{"decision":{"verdict":"Approved","by":"fran"}}}`)
	if err == nil || !strings.Contains(err.Error(), "ekiden-approval-decision") {
		s.Errorf("a decision in another's name: %v", err)
	}
}

// yields waits until no pod of a run works.
func (s *story) yields(run string) {
	s.Helper()
	of := client.MatchingLabels{v1alpha1.LabelRunUID: string(s.get(run).UID)}
	s.eventually("the pod of "+run+" has ended", func() bool {
		var pods corev1.PodList
		if err := s.api.List(s.Context(), &pods, client.InNamespace(namespace), of); err != nil {
			s.Fatal(err)
		}
		return !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
			return p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodPending
		})
	})
}

// cleared checks that nothing of an installation is left in the cluster.
func (s *story) cleared() {
	s.Helper()
	s.eventually("the kinds are gone", func() bool {
		var kinds apiextensionsv1.CustomResourceDefinitionList
		if err := s.api.List(s.Context(), &kinds); err != nil {
			s.Fatal(err)
		}
		return len(kinds.Items) == 0
	})
	for _, kind := range append([]string{"clusterrole", "clusterrolebinding"}, policies...) {
		for name := range strings.FieldsSeq(s.kubectl("get", kind, "-o", "name")) {
			if strings.Contains(name, "ekiden") {
				s.Errorf("%s is left", name)
			}
		}
	}
	s.eventually("the manager's namespace is gone", func() bool {
		return apierrors.IsNotFound(s.api.Get(s.Context(), client.ObjectKey{Name: cluster.ManagerNamespace}, &corev1.Namespace{}))
	})
}
