package lifecycle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// TestCodesOfSegments are written down if they are words, and named as foreign if they are not.
func TestCodesOfSegments(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65)
	foreign := func(code string) Decision {
		return finish(v1alpha1.RunFailed, v1alpha1.ReasonIncompatibleSession, `a segment left the code "`+code+`", which is none: m`)
	}
	tests := map[string]struct {
		given string
		want  Decision
	}{
		"a reason of the API":         {given: v1alpha1.ReasonEmptyAnswer, want: finish(v1alpha1.RunFailed, v1alpha1.ReasonEmptyAnswer, "m")},
		"a reason of a later version": {given: "OutOfLuck2", want: finish(v1alpha1.RunFailed, "OutOfLuck2", "m")},
		"the longest":                 {given: long[1:], want: finish(v1alpha1.RunFailed, long[1:], "m")},
		"none":                        {given: "", want: foreign("")},
		"one that is too long":        {given: long, want: foreign(long[1:])},
		"a sentence":                  {given: "out of luck", want: foreign("out of luck")},
		"a number":                    {given: "2Many", want: foreign("2Many")},
		"letters of elsewhere":        {given: "É", want: foreign("É")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := Observed{Now: noon, Held: true, Admission: admitted(attempts(ended(first, yielded)), outcome(contract.Outcome{Yield: contract.YieldFailed, Code: tc.given, Message: "m"}))}
			if diff := cmp.Diff(tc.want, Decide(given)); diff != "" {
				t.Errorf("Decide() (-want +got):\n%s", diff)
			}
			fault := AttemptEnd{Class: Faulted, Code: contract.FaultCode(tc.given), Message: "m"}
			given = Observed{Now: noon, Held: true, Admission: admitted(attempts(ended(first, fault), ended(AttemptKey{Attempt: 1}, fault)))}
			if f, ok := effect[Finish](Decide(given)); !ok || !word(f.End.Code) {
				t.Errorf("a fault with the code gives %+v", f)
			}
		})
	}
}
