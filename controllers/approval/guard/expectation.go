package guard

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kinds are the kinds of objects that the guard depends on, to be watched.
func Kinds() []client.Object {
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
		&admissionregistrationv1.MutatingAdmissionPolicy{}, &admissionregistrationv1.MutatingAdmissionPolicyBinding{},
	}
}

// expectation is one policy or binding as it should be.
type expectation struct {
	kind, name string
	prototype  client.Object
	spec       map[string]any
}

// expect reads what should be installed. What this version of the API does not know of it could not be compared, so that is
// an error.
func expect(o *unstructured.Unstructured) (expectation, error) {
	e := expectation{kind: o.GetKind(), name: o.GetName()}
	for _, k := range Kinds() {
		if reflect.TypeOf(k).Elem().Name() == e.kind {
			e.prototype = k
		}
	}
	if e.prototype == nil {
		return e, fmt.Errorf("config/admission: no way to compare a %s", e.kind)
	}
	typed := e.empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
		return e, fmt.Errorf("config/admission: %s %s: %w", e.kind, e.name, err)
	}
	var err error
	e.spec, err = specOf(typed)
	return e, err
}

func (e expectation) empty() client.Object { return e.prototype.DeepCopyObject().(client.Object) }

func (e expectation) is(o client.Object) bool {
	return reflect.TypeOf(o) == reflect.TypeOf(e.prototype) && o.GetName() == e.name
}

// differs names the first field of the spec that is not as it should be, or none. One that should be unset and is set counts:
// it could only narrow what is guarded. Fields that a later API server adds do not show here.
func (e expectation) differs(found client.Object) (string, error) {
	spec, err := specOf(found)
	if err != nil {
		return "", err
	}
	keys := maps.Clone(spec)
	maps.Copy(keys, e.spec)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !reflect.DeepEqual(e.spec[key], spec[key]) {
			return "spec." + key, nil
		}
	}
	return "", nil
}

// specOf is an object's spec in the one form in which two can be compared.
func specOf(o client.Object) (map[string]any, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("reading the spec of %s: %w", o.GetName(), err)
	}
	spec, _, err := unstructured.NestedMap(m, "spec")
	return spec, err
}
