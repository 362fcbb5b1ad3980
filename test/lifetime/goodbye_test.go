package lifetime

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/hack/cluster"
)

// way is how an administrator installs Ekiden, and takes it away so that the kinds and their objects stay.
type way struct{ install, check, uninstall, purge func(*story) }

var ways = map[string]way{
	"with kubectl": {
		install: (*story).install,
		check:   func(*story) {},
		uninstall: func(s *story) {
			s.release()
			s.remove(func(kind string) bool { return kind != "CustomResourceDefinition" })
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
				"--set", "manager.image.tag=dev", "--set", "segment.image.tag=dev")
		},
		check:     func(s *story) { s.helm("test", "ekiden", "--timeout=3m") },
		uninstall: func(s *story) { s.helm("uninstall", "ekiden", "--wait", "--timeout=5m") },
		purge: func(s *story) {
			s.helm("uninstall", "ekiden", "--wait", "--timeout=5m")
			s.kubectl("delete", "crd", "-l", "app.kubernetes.io/name=ekiden")
			s.kubectl("delete", "namespace", cluster.ManagerNamespace)
		},
	},
}

// TestGoodbye takes an installation away while one run waits for people, one works and one is over. What is deleted meanwhile
// goes, and its namespace; what stays goes on where it stood once Ekiden is back. In the end all goes.
func TestGoodbye(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			s := begin(t, root())
			w.install(s)
			w.check(s)
			s.employ(refunding("parked"), slow("working"), slow("doomed"), slow("over"))
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
			s.delete(s.get("over"))
			s.delete(s.get("doomed"))
			// Nobody guards decisions now, and nobody honours them.
			s.forge()
			s.model.Open("working")
			s.podless()

			w.install(s)
			s.until("working", v1alpha1.RunSucceeded)
			s.eventually("the forged decision is asked for again", func() bool { return s.pending() == 1 })
			s.wantRefunds(0)
			s.approve()
			s.until("parked", v1alpha1.RunSucceeded)
			s.wantSaid(8)
			s.wantRefunds(1)

			s.start("doomed-again")
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

// helm runs Helm in the manager's namespace.
func (s *story) helm(args ...string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), filepath.Join(s.repo, "bin", "helm"), append(args, "--kubeconfig", s.cluster.Kubeconfig(), "-n", cluster.ManagerNamespace)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
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

// pending is how many requests wait for a decision.
func (s *story) pending() int {
	s.Helper()
	var all v1alpha1.ApprovalRequestList
	if err := s.api.List(s.Context(), &all, client.InNamespace(namespace)); err != nil {
		s.Fatal(err)
	}
	n := 0
	for _, r := range all.Items {
		if r.Status.Phase == v1alpha1.ApprovalPending && r.Spec.Decision.Verdict == "" {
			n++
		}
	}
	return n
}

// forge decides in fran's name while no policy is there to see that.
func (s *story) forge() {
	s.Helper()
	s.kubectl("-n", namespace, "patch", "areq", "--type", "merge", "-p", `{"spec":{"decision":{"verdict":"Approved","by":"fran"}}}`,
		strings.TrimSpace(s.kubectl("-n", namespace, "get", "areq", "-o", "jsonpath={.items[0].metadata.name}")))
}

// podless waits until no pod of a run works.
func (s *story) podless() {
	s.Helper()
	s.eventually("no pod works", func() bool {
		var pods corev1.PodList
		if err := s.api.List(s.Context(), &pods, client.InNamespace(namespace)); err != nil {
			s.Fatal(err)
		}
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodPending {
				return false
			}
		}
		return true
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
	for _, kind := range []string{"clusterrole", "clusterrolebinding", "validatingadmissionpolicy", "validatingadmissionpolicybinding", "mutatingadmissionpolicy", "mutatingadmissionpolicybinding"} {
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
