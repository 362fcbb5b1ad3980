package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/test/given"
)

// patience is how long Eventually tries.
const patience = 30 * time.Second

// Eventually tries until try succeeds, and fails the test with the last error if it never does.
func Eventually(t testing.TB, try func() error) {
	t.Helper()
	Within(t, patience, try)
}

// Within is Eventually with a patience of its own.
func Within(t testing.TB, patience time.Duration, try func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s still: %v", patience, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("interrupted while: %v", err)
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// Install applies config/default and waits until its admission policies are in force. Only the first call does something.
func (s *Server) Install(t testing.TB) {
	t.Helper()
	s.installed.Do(func() {
		s.installWarnings = s.Apply(t, Path(t, "config", "default"))
		s.AwaitAdmission(t)
		s.ready = true
	})
	if !s.ready {
		t.Fatal("config/default could not be installed; the first test that tried says why")
	}
}

// InstallWarnings are what the API server warned of while config/default was installed.
func (s *Server) InstallWarnings() []string { return s.installWarnings }

// Kustomize returns the objects of a kustomization, in the order in which they are to be applied.
func (s *Server) Kustomize(t testing.TB, dir string) []*unstructured.Unstructured {
	t.Helper()
	command := exec.CommandContext(t.Context(), s.binary, "kubectl", "kustomize", dir)
	complaints := new(bytes.Buffer)
	command.Stderr = complaints
	output, err := command.Output()
	if err != nil {
		t.Fatalf("kustomize %s: %v\n%s", dir, err, complaints)
	}
	return Objects(t, output)
}

// Objects are the objects of a YAML file.
func Objects(t testing.TB, content []byte) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("reading YAML: %v", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Apply applies a kustomization as an administrator, waits for its CustomResourceDefinitions, and returns what the API server warned of.
func (s *Server) Apply(t testing.TB, dir string) (warnings []string) {
	t.Helper()
	heard, config := &Warnings{}, s.Config()
	config.WarningHandler = heard
	admin := NewClient(t, config)
	for _, object := range s.Kustomize(t, dir) {
		Eventually(t, func() error {
			err := admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()),
				client.FieldOwner("apitest"), client.ForceOwnership)
			// The kind may be as new as the object; anything else is final.
			if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
				t.Fatalf("applying %s %s: %v", object.GetKind(), object.GetName(), err)
			}
			return err
		})
		if object.GetKind() == "CustomResourceDefinition" {
			Eventually(t, func() error { return established(t.Context(), admin, object.GetName()) })
		}
	}
	return heard.All()
}

func established(ctx context.Context, c client.Client, name string) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return err
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("%s is not established: %v", name, crd.Status.Conditions)
}

// prober is a user who may create runs in the namespace of the same name, and nothing else.
const prober = "apitest-prober"

// AwaitAdmission waits until the policies of config/admission are in force. A run without a principal is then stamped and one
// with a foreign principal refused; a decision is stamped and a request that is created decided refused.
func (s *Server) AwaitAdmission(t testing.TB) {
	t.Helper()
	admin, caller := s.Client(t), s.As(t, prober)
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: prober}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: prober, Namespace: prober},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ekiden-caller"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: prober}},
		},
	} {
		if err := admin.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatalf("preparing to probe admission: %v", err)
		}
	}
	probe := func(principal v1alpha1.Principal) (*v1alpha1.AgentRun, error) {
		run := &v1alpha1.AgentRun{
			ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: prober},
			Spec: v1alpha1.AgentRunSpec{
				DefinitionRef: v1alpha1.RunDefinitionReference{Kind: v1alpha1.AgentDefinitionKind, Name: "probe"},
				Input:         v1alpha1.RunInput{Text: "probe"},
				Principal:     principal,
			},
		}
		return run, caller.Create(t.Context(), run, client.DryRunAll)
	}
	Eventually(t, func() error {
		run, err := probe(v1alpha1.Principal{})
		if err == nil && run.Spec.Principal.User != prober {
			err = errors.New("a run without a principal is not stamped")
		}
		return err
	})
	Eventually(t, func() error {
		switch _, err := probe(v1alpha1.Principal{User: "somebody-else"}); {
		case err == nil:
			return errors.New("a run with a foreign principal is not refused")
		case !apierrors.IsForbidden(err):
			return fmt.Errorf("a run with a foreign principal is not forbidden but: %w", err)
		default:
			return nil
		}
	})
	s.awaitApprovals(t, admin)
}

func (s *Server) awaitApprovals(t testing.TB, admin client.Client) {
	t.Helper()
	Eventually(t, func() error {
		switch err := admin.Create(t.Context(), given.Request("decided", prober, given.Decided(v1alpha1.VerdictApproved, "somebody")), client.DryRunAll); {
		case err == nil:
			return errors.New("a request that is created decided is not refused")
		case !apierrors.IsForbidden(err):
			return fmt.Errorf("a request that is created decided is not forbidden but: %w", err)
		default:
			return nil
		}
	})
	open := given.Request("probe", prober)
	if err := admin.Create(t.Context(), open); client.IgnoreAlreadyExists(err) != nil {
		t.Fatalf("preparing to probe admission: %v", err)
	}
	Eventually(t, func() error {
		request := open.DeepCopy()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"decision":{"verdict":"Denied","by":"somebody"}}}`))
		err := admin.Patch(t.Context(), request, patch, client.DryRunAll)
		if err == nil && request.Spec.Decision.By == "somebody" {
			err = errors.New("a decision is not stamped")
		}
		return err
	})
}
