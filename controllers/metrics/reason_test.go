package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

func TestReasonOf(t *testing.T) {
	t.Parallel()
	failed := func(code string) v1alpha1.AgentRunStatus {
		return v1alpha1.AgentRunStatus{Phase: v1alpha1.RunFailed, Error: v1alpha1.RunError{Code: code}}
	}
	for name, tc := range map[string]struct {
		given v1alpha1.AgentRunStatus
		want  string
	}{
		"a run that succeeded":            {v1alpha1.AgentRunStatus{Phase: v1alpha1.RunSucceeded}, "Succeeded"},
		"a code of the API":               {failed(v1alpha1.ReasonPoisonSegment), "PoisonSegment"},
		"a code that a segment thinks up": {failed("Run4711"), "Other"},
		"a reason that is no error":       {failed(v1alpha1.ReasonRunning), "Other"},
	} {
		if got := reasonOf(tc.given); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestEveryErrorCodeIsCountedByName reads the group of error codes in the API.
func TestEveryErrorCodeIsCountedByName(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || !strings.HasPrefix(group.Doc.Text(), "Error codes") {
			continue
		}
		for _, s := range group.Specs {
			value, err := strconv.Unquote(s.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
			if err != nil || !slices.Contains(codes, value) {
				t.Errorf("%s would be counted as %s: %v", value, other, err)
			}
			n++
		}
	}
	if n == 0 {
		t.Error("no group of error codes was found")
	}
}
