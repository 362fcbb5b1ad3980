package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/config/admission"
)

const policyName = "ekiden-approval-decision"

// world is an API server with the policies, and a guard that looks at it.
type world struct {
	*testing.T
	*Guard
	api client.WithWatch
	at  time.Time
	// answer is what the API server says to the canary, tried how often it was sent.
	answer func(*v1alpha1.ApprovalRequest) error
	tried  int
	// broken is an error of every read.
	broken error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects, err := admission.Objects()
	if err != nil {
		t.Fatal(err)
	}
	installed := make([]client.Object, 0, len(objects))
	for _, o := range objects {
		o.SetLabels(map[string]string{"app.kubernetes.io/part-of": "ekiden"}) // as an installer may
		installed = append(installed, o)
	}
	w := &world{T: t, at: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), answer: refusal}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(installed...).Build()
	w.Guard, err = New(interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.broken != nil {
				return w.broken
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.tried++
			if !slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
				t.Error("the canary would be stored")
			}
			return w.answer(o.(*v1alpha1.ApprovalRequest))
		},
	}), func() time.Time { return w.at })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

var requests = schema.GroupResource{Group: "ekiden.dev", Resource: "approvalrequests"}

// denied is how the API server words the refusal of a ValidatingAdmissionPolicy.
func denied(name, policy, binding, message string) error {
	err := apierrors.NewForbidden(requests, name, fmt.Errorf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", policy, binding, message))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	return err
}

// refusal is ours.
func refusal(o *v1alpha1.ApprovalRequest) error {
	if o.Spec.Decision.Verdict == "" {
		return nil
	}
	return denied(o.Name, policyName, policyName, admission.CreatedDecided+" Leave spec.decision out; an approver of its pool decides")
}

func says(err error) func(*v1alpha1.ApprovalRequest) error {
	return func(*v1alpha1.ApprovalRequest) error { return err }
}

// hook is how the API server words the refusal of a webhook that answers with a Status of its own.
func hook(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: 403, Message: `admission webhook "x.example" denied the request: ` + message,
	}}
}

// change edits an installed object as whoever may does.
func change[T client.Object](w *world, o T, edit func(T)) {
	w.Helper()
	if err := w.api.Get(w.Context(), client.ObjectKey{Name: policyName}, o); err != nil {
		w.Fatal(err)
	}
	edit(o)
	if err := w.api.Update(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

func remove(o client.Object) func(*world) {
	return func(w *world) {
		w.Helper()
		o.SetName(policyName)
		if err := w.api.Delete(w.Context(), o); err != nil {
			w.Fatal(err)
		}
	}
}

type (
	vap  = admissionregistrationv1.ValidatingAdmissionPolicy
	vapb = admissionregistrationv1.ValidatingAdmissionPolicyBinding
	mapo = admissionregistrationv1.MutatingAdmissionPolicy
	mapb = admissionregistrationv1.MutatingAdmissionPolicyBinding
)

func TestGuarded(t *testing.T) {
	t.Parallel()
	validating := func(edit func(*vap)) func(*world) {
		return func(w *world) { w.Helper(); change(w, &vap{}, edit) }
	}
	bound := func(edit func(*vapb)) func(*world) {
		return func(w *world) { w.Helper(); change(w, &vapb{}, edit) }
	}
	answers := func(answer func(*v1alpha1.ApprovalRequest) error) func(*world) {
		return func(w *world) { w.answer = answer }
	}
	for name, tc := range map[string]struct {
		given func(*world)
		// want is how the reason begins. Empty means that decisions are guarded.
		want string
	}{
		"policies and bindings as they should be": {func(*world) {}, ""},

		"the guard is missing":                {remove(&vap{}), "ValidatingAdmissionPolicy ekiden-approval-decision is missing: apply config/admission"},
		"the binding of the guard is missing": {remove(&vapb{}), "ValidatingAdmissionPolicyBinding ekiden-approval-decision is missing: "},
		"the stamp is missing":                {remove(&mapo{}), "MutatingAdmissionPolicy ekiden-approval-decision is missing: "},
		"the binding of the stamp is missing": {remove(&mapb{}), "MutatingAdmissionPolicyBinding ekiden-approval-decision is missing: "},

		"the guard is being deleted": {func(w *world) {
			w.Helper()
			change(w, &vap{}, func(p *vap) { p.Finalizers = []string{"example.com/hold"} })
			remove(&vap{})(w)
		}, "ValidatingAdmissionPolicy ekiden-approval-decision is being deleted: "},
		"the guard is bound for the audit log only": {bound(func(b *vapb) {
			b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
		}), "spec.validationActions of ValidatingAdmissionPolicyBinding ekiden-approval-decision is not as this version of the manager has it: apply config/admission"},
		"the guard is bound to some namespaces only": {bound(func(b *vapb) {
			b.Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		}), "spec.matchResources of ValidatingAdmissionPolicyBinding "},
		"the guard is bound with parameters": {bound(func(b *vapb) {
			b.Spec.ParamRef = &admissionregistrationv1.ParamRef{Name: "x"}
		}), "spec.paramRef of ValidatingAdmissionPolicyBinding "},
		"the binding binds another policy": {bound(func(b *vapb) { b.Spec.PolicyName = "other" }), "spec.policyName of ValidatingAdmissionPolicyBinding "},
		"an expression of the guard is changed": {validating(func(p *vap) {
			p.Spec.Validations[0].Expression = "true"
		}), "spec.validations of ValidatingAdmissionPolicy "},
		"a rule of the guard is left out": {validating(func(p *vap) { p.Spec.Validations = p.Spec.Validations[:1] }), "spec.validations of ValidatingAdmissionPolicy "},
		"a variable of the guard is changed": {validating(func(p *vap) {
			p.Spec.Variables[len(p.Spec.Variables)-1].Expression = "''"
		}), "spec.variables of ValidatingAdmissionPolicy "},
		"the guard has lost its variables": {validating(func(p *vap) { p.Spec.Variables = nil }), "spec.variables of ValidatingAdmissionPolicy "},
		"the guard has a condition": {validating(func(p *vap) {
			p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "never", Expression: "false"}}
		}), "spec.matchConditions of ValidatingAdmissionPolicy "},
		"the guard lets faults pass": {validating(func(p *vap) {
			ignore := admissionregistrationv1.Ignore
			p.Spec.FailurePolicy = &ignore
		}), "spec.failurePolicy of ValidatingAdmissionPolicy "},
		"the guard wants parameters": {validating(func(p *vap) {
			p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		}), "spec.paramKind of ValidatingAdmissionPolicy "},
		"the guard is for some objects only": {validating(func(p *vap) {
			p.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}), "spec.matchConstraints of ValidatingAdmissionPolicy "},
		"the guard leaves requests out": {validating(func(p *vap) {
			p.Spec.MatchConstraints.ExcludeResourceRules = p.Spec.MatchConstraints.ResourceRules
		}), "spec.matchConstraints of ValidatingAdmissionPolicy "},
		"the stamp writes another name": {func(w *world) {
			w.Helper()
			change(w, &mapo{}, func(p *mapo) { p.Spec.Mutations[0].JSONPatch.Expression = "[]" })
		}, "spec.mutations of MutatingAdmissionPolicy "},
		"the stamp is bound to some requests only": {func(w *world) {
			w.Helper()
			change(w, &mapb{}, func(b *mapb) { b.Spec.MatchResources = &admissionregistrationv1.MatchResources{} })
		}, "spec.matchResources of MutatingAdmissionPolicyBinding "},

		"the canary passes through": {answers(says(nil)), "the policies of config/admission are installed and the API server does not heed them in namespace team: "},
		"the canary comes as far as a request of its name": {
			answers(says(apierrors.NewAlreadyExists(requests, canaryName))), "the policies of config/admission are installed and the API server does not heed them ",
		},
		"the canary is refused by a webhook": {
			answers(says(hook("no"))), "whether the API server heeds the policies in namespace team cannot be tried, because something else refuses to: ",
		},
		"the canary is refused by a webhook that speaks as our policy": {
			answers(func(o *v1alpha1.ApprovalRequest) error { return hook(refusal(o).Error()) }), "whether the API server heeds the policies ",
		},
		"the canary is refused by another policy": {
			answers(says(denied(canaryName, "other", "other", admission.CreatedDecided))), "whether the API server heeds the policies ",
		},
		"the canary is refused by another rule of our policy": {
			answers(says(denied(canaryName, policyName, policyName, "Only the manager creates approval requests."))), "whether the API server heeds the policies ",
		},
		"the manager may not create requests": {
			answers(says(apierrors.NewForbidden(requests, "", errors.New(`User "manager" cannot create resource`)))), "whether the API server heeds the policies ",
		},
		"the schema refuses the canary": {
			answers(says(apierrors.NewInvalid(schema.GroupKind{Group: "ekiden.dev", Kind: "ApprovalRequest"}, canaryName, nil))), "whether the API server heeds the policies ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tc.given(w)
			ok, why, err := w.Guarded(t.Context(), "team")
			if err != nil || ok != (why == "") || (tc.want == "") != ok || !strings.HasPrefix(why, tc.want) {
				t.Errorf("got %t %q %v, want %q", ok, why, err, tc.want)
			}
		})
	}
}

func TestWhatNobodyKnowsIsAnErrorAndNoReason(t *testing.T) {
	t.Parallel()
	terminating := apierrors.NewForbidden(requests, canaryName, errors.New("namespace team is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, given := range map[string]func(*world){
		"the cache does not answer":       func(w *world) { w.broken = errors.New("not synced") },
		"the API server takes too long":   func(w *world) { w.answer = says(context.DeadlineExceeded) },
		"the API server is overloaded":    func(w *world) { w.answer = says(apierrors.NewTooManyRequests("later", 1)) },
		"the API server has a fault":      func(w *world) { w.answer = says(apierrors.NewInternalError(errors.New("x"))) },
		"the namespace is being deleted":  func(w *world) { w.answer = says(terminating) },
		"the manager's token has expired": func(w *world) { w.answer = says(apierrors.NewUnauthorized("expired")) },
	} {
		w := newWorld(t)
		given(w)
		if ok, why, err := w.Guarded(t.Context(), "team"); ok || why != "" || err == nil {
			t.Errorf("%s: got %t %q %v", name, ok, why, err)
		}
	}
}

func TestSinceWhenThePoliciesExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := func(want time.Time) {
		t.Helper()
		if got, err := w.Since(t.Context()); err != nil || !got.Equal(want) {
			t.Errorf("got %s and %v, want %s", got, err, want)
		}
	}
	change(w, &vap{}, func(p *vap) { p.CreationTimestamp = metav1.NewTime(w.at) })
	change(w, &mapb{}, func(b *mapb) { b.CreationTimestamp = metav1.NewTime(w.at.Add(time.Minute)) })
	change(w, &vapb{}, func(b *vapb) { b.CreationTimestamp = metav1.NewTime(w.at.Add(time.Second)) })
	want(w.at.Add(time.Minute))
	remove(&vapb{})(w)
	want(time.Time{})
	w.broken = errors.New("not synced")
	if _, err := w.Since(t.Context()); !errors.Is(err, w.broken) {
		t.Errorf("got %v", err)
	}
}

func TestAProofIsKeptForAMinuteAndAFailureIsNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := func(namespace string, ok bool, tried int) {
		t.Helper()
		got, why, err := w.Guarded(t.Context(), namespace)
		if err != nil || got != ok || w.tried != tried {
			t.Fatalf("got %t %q %v after %d tries, want %t after %d", got, why, err, w.tried, ok, tried)
		}
	}
	want("team", true, 1)
	want("team", true, 1)
	want("other", true, 2) // each namespace is tried: what is heeded may depend on it
	w.at = w.at.Add(lasting - time.Nanosecond)
	want("team", true, 2)
	w.answer = says(nil)
	w.at = w.at.Add(time.Nanosecond)
	want("team", false, 3)
	want("team", false, 4)
	w.answer = refusal
	want("team", true, 5)
	// A proof says nothing about policies that are gone since.
	remove(&vapb{})(w)
	want("team", false, 5)
}

func TestAProofCountsFromBeforeItWasAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = func(o *v1alpha1.ApprovalRequest) error {
		w.at = w.at.Add(lasting)
		return refusal(o)
	}
	for tried := 1; tried <= 2; tried++ {
		if ok, why, err := w.Guarded(t.Context(), "team"); !ok || err != nil || w.tried != tried {
			t.Fatalf("got %t %q %v after %d tries", ok, why, err, w.tried)
		}
	}
}

func TestConcerns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, kind := range Kinds() {
		kind.SetName(policyName)
		if !w.Concerns(kind) {
			t.Errorf("%T %s is none of the policies", kind, kind.GetName())
		}
		kind.SetName("other")
		if w.Concerns(kind) {
			t.Errorf("%T %s is one of the policies", kind, kind.GetName())
		}
	}
}

// TestWhatIsExpectedGuards reads what every comparison rests on: an expected binding that only audits would make all agree.
func TestWhatIsExpectedGuards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var policy vap
	var binding vapb
	key := client.ObjectKey{Name: policyName}
	if err := errors.Join(w.api.Get(t.Context(), key, &policy), w.api.Get(t.Context(), key, &binding)); err != nil {
		t.Fatal(err)
	}
	p, b := policy.Spec, binding.Spec
	if p.FailurePolicy == nil || *p.FailurePolicy != admissionregistrationv1.Fail || p.ParamKind != nil || len(p.MatchConditions) > 0 {
		t.Errorf("the guard has a way around it: %+v", p)
	}
	if b.PolicyName != policyName || b.MatchResources != nil || b.ParamRef != nil || !slices.Equal(b.ValidationActions, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}) {
		t.Errorf("the guard is bound with a way around it: %+v", b)
	}
}
