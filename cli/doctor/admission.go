package doctor

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pair is a policy that stamps and one that guards, of the same name, with their bindings.
type pair struct {
	name string
	// things are what they judge, without is what is so where they are missing.
	things, without string
}

// pairs are what config/admission installs.
var pairs = []pair{
	{"ekiden-run-principal", "runs", "nobody keeps apart for whom runs act"},
	{"ekiden-approval-decision", "approval requests", "the manager honours no decision on a call"},
}

// part is one policy or binding of a pair.
type part struct {
	kind   string
	object client.Object
	err    error
	// wrong says what of it lets pass what should be held up. It is asked of what could be read.
	wrong func() string
}

func (p pair) parts(a Admission) []part {
	return []part{
		{"MutatingAdmissionPolicy", a.Stamp.Value, a.Stamp.Err, func() string { return "" }}, // stamps are not trusted
		{"MutatingAdmissionPolicyBinding", a.StampBinding.Value, a.StampBinding.Err, func() string {
			if b := a.StampBinding.Value.Spec; b.PolicyName != p.name || b.MatchResources != nil {
				return "does not bind the policy to all " + p.things
			}
			return ""
		}},
		{"ValidatingAdmissionPolicy", a.Guard.Value, a.Guard.Err, func() string {
			if policy := a.Guard.Value.Spec.FailurePolicy; policy != nil && *policy != admissionregistrationv1.Fail {
				return fmt.Sprintf("lets %s pass where it cannot be evaluated (failurePolicy %s)", p.things, *policy)
			}
			return ""
		}},
		{"ValidatingAdmissionPolicyBinding", a.GuardBinding.Value, a.GuardBinding.Err, func() string {
			b := a.GuardBinding.Value.Spec
			if b.PolicyName != p.name || b.MatchResources != nil || !slices.Contains(b.ValidationActions, admissionregistrationv1.Deny) {
				return "does not bind the policy to all " + p.things + " with the action Deny"
			}
			return ""
		}},
	}
}

func policies(f Facts) []Finding {
	if f.Expected.Err != nil {
		return []Finding{unseen("admission policies of this version", f.Expected.Err)}
	}
	var out []Finding
	for _, p := range pairs {
		out = append(out, p.judge(f.Admission[p.name], f.Expected.Value)...)
	}
	return out
}

func (p pair) judge(a Admission, expected []*unstructured.Unstructured) []Finding {
	var out []Finding
	compared := false
	for _, one := range p.parts(a) {
		what := one.kind + " " + p.name
		wrong := func(says, cure string) {
			out = append(out, Finding{Level: Fail, What: what, Says: says, Cure: cure})
		}
		if apierrors.IsNotFound(one.err) {
			wrong("is missing: "+p.without, cureAdmit)
			continue
		}
		if one.err != nil {
			out = append(out, unseen(what, one.err))
			continue
		}
		at := slices.IndexFunc(expected, func(o *unstructured.Unstructured) bool { return o.GetKind() == one.kind && o.GetName() == p.name })
		var fields []string
		if at >= 0 {
			var err error
			if fields, err = differences(expected[at], one.object); err != nil {
				out = append(out, unseen(what, err))
				continue
			}
			compared = true
		}
		switch says := one.wrong(); {
		case one.object.GetDeletionTimestamp() != nil:
			wrong("is being deleted: then "+p.without, cureAdmit+" once it is gone")
		case says != "": // applying it again mends the rest as well
			wrong(says, cureAdmit)
		case len(fields) > 0:
			wrong(fmt.Sprintf("differs from that of this version in %s: %s", some(fields), p.without),
				"apply config/admission of the manager's version, and ask with the kubectl-ekiden of that version")
		}
	}
	if a.Guard.Err == nil && a.Guard.Value.Status.TypeChecking != nil {
		for _, w := range a.Guard.Value.Status.TypeChecking.ExpressionWarnings {
			out = append(out, Finding{Level: Warn, What: "ValidatingAdmissionPolicy " + p.name, Says: w.FieldRef + ": " + w.Warning, Cure: cureAdmit})
		}
	}
	if len(out) > 0 {
		return out
	}
	says := p.name + ": two policies and their bindings are there"
	if compared {
		says += ", as this version has them"
	}
	return []Finding{ok("admission policies", "%s", says)}
}

// differences names the fields of an object's spec that are not as expected. Both are read through the same type: what this
// version of the API does not know of an object does not show.
func differences(expected *unstructured.Unstructured, found client.Object) ([]string, error) {
	same := reflect.New(reflect.TypeOf(found).Elem()).Interface()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(expected.Object, same); err != nil {
		return nil, fmt.Errorf("reading that of this version: %w", err)
	}
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(same)
	if err != nil {
		return nil, err
	}
	got, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found)
	if err != nil {
		return nil, err
	}
	return compare("spec", want["spec"], got["spec"]), nil
}

// compare names what differs, as deep as both sides have the same shape.
func compare(at string, want, got any) []string {
	var out []string
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			keys := maps.Clone(w)
			maps.Copy(keys, g)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				out = append(out, compare(at+"."+key, w[key], g[key])...)
			}
			return out
		}
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			for i := range w {
				out = append(out, compare(fmt.Sprintf("%s[%d]", at, i), w[i], g[i])...)
			}
			return out
		}
	}
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return []string{at}
}

// some are the first of the names, and how many there are besides.
func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

func inForce(f Facts) []Finding {
	const what = "admission in force"
	p := f.Probe
	switch {
	case p.MayCreate.Err != nil:
		return []Finding{skip(what, "whether you may create runs cannot be asked: "+p.MayCreate.Err.Error(), "")}
	case !p.MayCreate.Value:
		return []Finding{skip(what, "you may not create runs in namespace "+p.Namespace, "name a namespace with --namespace in which you are ekiden-caller")}
	case apierrors.IsNotFound(p.Plain.Err):
		return []Finding{skip(what, p.Plain.Err.Error(), "name a namespace that exists with --namespace")}
	case p.Plain.Err != nil:
		return []Finding{{Level: Fail, What: what, Says: "an ordinary run would be refused: " + p.Plain.Err.Error(), Cure: cureAdmit + ", if its policies are what refuses; else whatever the message names"}}
	case p.Plain.Value.User == "":
		return []Finding{{Level: Fail, What: what, Says: "a run without a principal is neither stamped nor refused", Cure: cureAdmit}}
	case p.Self.Err == nil && p.Plain.Value.User != p.Self.Value:
		return []Finding{{Level: Fail, What: what, Says: fmt.Sprintf("a run of %s was stamped with %s", p.Self.Value, p.Plain.Value.User), Cure: cureAdmit}}
	case apierrors.IsForbidden(p.Foreign):
		return []Finding{ok(what, "a run is stamped with its creator, and one that acts for somebody else is refused")}
	case p.Foreign != nil:
		return []Finding{{Level: Warn, What: what, Says: "a run that acts for somebody else is refused, but not by our policy: " + p.Foreign.Error()}}
	case p.MayActAs.Value:
		return []Finding{
			ok(what, "a run is stamped with its creator"),
			skip("guard of principals", "you hold actas for everybody, so that it rightly lets you pass", "ask as an ordinary caller, with --as"),
		}
	default:
		return []Finding{{Level: Fail, What: what, Says: "a run that acts for somebody else is accepted: whoever creates runs can act for anybody", Cure: cureAdmit}}
	}
}
