package discovery

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// TestTheStatusIsBounded shows the longest names and descriptions that there are.
func TestTheStatusIsBounded(t *testing.T) {
	t.Parallel()
	many := func(n int, name func(i int) string, description string) (contracts []contract.ToolContract) {
		for i := range n {
			contracts = append(contracts, tool(name(i), description))
		}
		return contracts
	}
	long := func(i int) string { return fmt.Sprintf("%03d", i) + strings.Repeat("n", maxName-3) }
	short := func(i int) string { return fmt.Sprint("tool", i) }
	tests := map[string]struct {
		given []contract.ToolContract
		// fewest and most are bounds on the bytes of each description.
		fewest, most int
	}{
		"nothing is said":                    {many(128, short, ""), 0, 0},
		"a few descriptions":                 {many(3, short, strings.Repeat("d", 999)), 256, 256},
		"as many as there may be":            {many(128, short, strings.Repeat("d", 999)), 256, 256},
		"with the longest names":             {many(128, long, strings.Repeat("d", 999)), 150, 256},
		"of letters that take six bytes":     {many(128, long, strings.Repeat("<", 999)), 20, 60},
		"of letters of three bytes":          {many(128, short, strings.Repeat("√", 999)), 255, 255},
		"of bytes that nobody can read":      {many(1, short, strings.Repeat("\xff", 999)), 3, 3},
		"with names of letters of their own": {many(100, func(i int) string { return fmt.Sprintf("%03d", i) + strings.Repeat("<", 40) }, strings.Repeat("d", 999)), 100, 256},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, err := offered(mcp(), tc.given)
			if err != nil {
				t.Fatal(err)
			}
			if size := contract.InJSON(tools); size > maxShown {
				t.Errorf("%d bytes", size)
			}
			for _, s := range tools {
				if n := len(s.Description); n < tc.fewest || n > tc.most || !utf8.ValidString(s.Description) {
					t.Fatalf("a description of %d bytes: %q", n, s.Description)
				}
			}
		})
	}
}

func TestWhatCannotBeShown(t *testing.T) {
	t.Parallel()
	var many, wide []contract.ToolContract
	for i := range contract.MaxTools + 1 {
		many = append(many, tool(fmt.Sprint(i), ""))
	}
	for i := range contract.MaxTools {
		wide = append(wide, tool(fmt.Sprintf("%03d", i)+strings.Repeat("<", maxName-3), ""))
	}
	tests := map[string]struct {
		given []contract.ToolContract
		want  string
	}{
		"too many":                {many, "it offers 129 tools, 128 are the most"},
		"a tool without name":     {[]contract.ToolContract{tool("", "")}, `the name of tool "" has 0 bytes, 1 to 128 are allowed`},
		"a name that is long":     {[]contract.ToolContract{tool(strings.Repeat("n", 129), "")}, `the name of tool "` + strings.Repeat("n", 128) + `" has 129 bytes, 1 to 128 are allowed`},
		"names that are wide":     {wide, "the names of its tools do not fit into the status: offer fewer, or with shorter names"},
		"a contract that is long": {[]contract.ToolContract{tool("a", strings.Repeat("d", contract.MaxContract))}, fmt.Sprintf(`the contract of tool "a" has %d bytes, 65536 are the most`, contract.MaxContract+56)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := offered(mcp(), tc.given); err == nil || err.Error() != tc.want {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestManyDeclarationsWithoutATool(t *testing.T) {
	t.Parallel()
	s := mcp()
	for i := range 20 {
		s.Spec.Tools = append(s.Spec.Tools, v1alpha1.ToolDeclaration{Name: fmt.Sprint(i)})
	}
	if got, want := undone(s, nil), `"0", "1", "2", "3", "4", "5", "6", "7", 12 more`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
