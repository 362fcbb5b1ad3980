package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// said is the source of an API with the reasons that are fine, and these.
func said(t *testing.T, reasons string) source {
	t.Helper()
	text := "package v1\n\n// Reasons that are fine.\nconst (\n"
	for _, reason := range slices.Sorted(maps.Keys(fine)) {
		text += "// Reason" + reason + " surfaces when it is.\nReason" + reason + " = \"" + reason + "\"\n"
	}
	text += ")\n\n// Reasons of trouble.\nconst (\n" + reasons + ")\n"
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{files: []*ast.File{file}}
}

func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	const (
		marker = "<!-- cures: Reasons of trouble -->\n"
		cured  = "// ReasonBroken surfaces when it broke. Mend it.\nReasonBroken = \"Broken\"\n"
	)
	tests := map[string]struct {
		reasons, template string
		// want is in the page, or wrong in the error.
		want, wrong string
	}{
		"a reason with its cure is told":      {cured, "Before.\n" + marker, "Before.\n| reason | is said | what to do |\n|---|---|---|\n| `Broken` | when it broke | Mend it. |\n", ""},
		"a reason without a cure fails":       {"// ReasonBroken surfaces when it broke.\nReasonBroken = \"Broken\"\n", marker, "", "reason Broken does not say what to do"},
		"a page without its reasons fails":    {cured, "Before.\n", "", `does not tell the reasons of "Reasons of trouble"`},
		"a marker of nothing fails":           {cured, marker + "<!-- cures: Reasons of joy -->\n", "", `"Reasons of joy"`},
		"a table that is told twice fails":    {cured, marker + marker, "", "twice"},
		"reasons that are fine need no table": {cured, marker, "Broken", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var page bytes.Buffer
			err := said(t, tc.reasons).troubleshooting(&page, tc.template)
			switch {
			case tc.wrong == "" && err != nil:
				t.Errorf("it fails: %v", err)
			case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)):
				t.Errorf("the error is %v, want one with %q", err, tc.wrong)
			case !strings.Contains(page.String(), tc.want):
				t.Errorf("the page is\n%s\nwant it to hold\n%s", page.String(), tc.want)
			}
		})
	}
}

// TestFineReasonsExist: a reason that is gone cannot stay on the list.
func TestFineReasonsExist(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	err := source{}.troubleshooting(&page, "")
	if err == nil || !strings.Contains(err.Error(), "says that Compiled is fine") {
		t.Errorf("the error is %v", err)
	}
}
