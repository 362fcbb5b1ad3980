package compile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	// maxToolName is the longest name of a tool that model endpoints take.
	maxToolName = 64
	// maxNearest is how many tools a message offers in place of one that does not exist.
	maxNearest = 8
)

// ToolName is the name by which a model knows a tool, unless its declaration gives another. A name that is too long is cut,
// and the hash of the whole keeps it apart from its neighbours.
func ToolName(server, tool string) string {
	whole := server + "__" + tool
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, whole)
	if len(name) <= maxToolName {
		return name
	}
	sum := sha256.Sum256([]byte(whole))
	return name[:maxToolName-7] + "_" + hex.EncodeToString(sum[:3])
}

// unknown says that a server does not offer a tool, and which of those that it offers may have been meant.
func unknown(field, tool string, s *v1alpha1.ToolServer) *Problem {
	offered := slices.Clone(s.Status.Tools)
	slices.SortFunc(offered, func(a, b v1alpha1.DiscoveredTool) int {
		return cmp.Or(cmp.Compare(distance(tool, a.Name), distance(tool, b.Name)), cmp.Compare(a.Name, b.Name))
	})
	var names []string
	for _, t := range offered[:min(maxNearest, len(offered))] {
		names = append(names, contract.Clip(t.Name, maxToolName))
	}
	which := "It offers "
	if len(offered) > maxNearest {
		which = fmt.Sprintf("Of the %d it offers, the nearest are ", len(offered))
	}
	return &Problem{v1alpha1.ReasonToolNotFound, fmt.Sprintf("%s: ToolServer %q offers no tool %q. %s%s. Correct the name, or change spec.release of the ToolServer if the tool is new there", field, s.Name, tool, which, strings.Join(names, ", "))}
}

// distance is in how many letters two names differ: those to add, to drop and to change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
