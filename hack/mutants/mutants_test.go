package mutants_test

import (
	"bytes"
	"go/format"
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/hack/mutants"
)

// TestTheListFitsTheCode says that each mutant can still be planted. That it is found shows only when it is: make mutants.
func TestTheListFitsTheCode(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range mutants.List {
		if seen[m.Name] {
			t.Errorf("two mutants are named %s", m.Name)
		}
		seen[m.Name] = true
		files, err := m.Apply("../..")
		if err != nil {
			t.Error(err)
		}
		for name, body := range files {
			if _, err := format.Source(body); strings.HasSuffix(name, ".go") && err != nil {
				t.Errorf("mutant %s is no Go: %v", m.Name, err)
			}
		}
	}
	if len(seen) < 25 {
		t.Errorf("only %d mutants", len(seen))
	}
}

func TestWhatAnEditNeeds(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]mutants.Edit{
		"a text that is not there":   {File: "mutants.go", Old: "no" + "where", New: ""},
		"a text that is there twice": {File: "mutants.go", Old: "Name", New: ""},
		"a file that is not there":   {File: "none.go", Old: "a", New: "b"},
	} {
		if _, err := (mutants.Mutant{Name: "m", Edits: []mutants.Edit{e}}).Apply("."); err == nil {
			t.Errorf("%s was planted", name)
		}
	}
}

func TestABugThatATestFinds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		old, mutated string
		caught, bad  bool
	}{
		"a bug that is found":        {`"nobody"`, `"somebody"`, true, false},
		"a change that is no bug":    {`"nobody"`, `"no" + "body"`, false, false},
		"a change that is no Go":     {`"nobody"`, `nobody`, false, true},
		"a change of what is unused": {`"unused"`, `"other"`, false, false},
	} {
		m := mutants.Mutant{Name: "m", Edits: []mutants.Edit{{File: "who.go", Old: tc.old, New: tc.mutated}}, Package: ".", Test: "Test"}
		var out bytes.Buffer
		v, err := m.Try(t.Context(), module(t), &out)
		if v.Caught != tc.caught || (err != nil) != tc.bad {
			t.Errorf("%s: %+v, %v\n%s", name, v, err, &out)
		}
		if tc.caught && (len(v.By) != 1 || v.By[0] != "TestWho") {
			t.Errorf("%s: found by %v", name, v.By)
		}
	}
}
