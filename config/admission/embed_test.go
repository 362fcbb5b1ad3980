package admission

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestObjectsAreTheStampAndTheGuardWithTheirBindings(t *testing.T) {
	t.Parallel()
	objects, err := Objects()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range objects {
		got = append(got, object.GetKind()+" "+object.GetName())
	}
	want := []string{
		"ValidatingAdmissionPolicy ekiden-approval-decision",
		"ValidatingAdmissionPolicyBinding ekiden-approval-decision",
		"MutatingAdmissionPolicy ekiden-approval-decision",
		"MutatingAdmissionPolicyBinding ekiden-approval-decision",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTheGuardSaysCreatedDecided: the manager recognises the guard by these words, once and nowhere else.
func TestTheGuardSaysCreatedDecided(t *testing.T) {
	t.Parallel()
	objects, err := Objects()
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, object := range objects {
		validations, _, _ := unstructured.NestedSlice(object.Object, "spec", "validations")
		for _, validation := range validations {
			message, _, _ := unstructured.NestedString(validation.(map[string]any), "message")
			if strings.HasPrefix(message, CreatedDecided+" ") {
				said++
			}
		}
	}
	if said != 1 {
		t.Errorf("%d rules of the guard refuse with %q, want 1", said, CreatedDecided)
	}
}
