package architecture

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

const module = "github.com/ekiden-dev/ekiden"

// side says which column of the house an entry stands in.
type side string

const (
	// left is what the manager is made of, right what a segment's pod is made of.
	left  side = "left"
	right side = "right"
	// neutral is neither: the ground both stand on, and the programs above both.
	neutral side = "neutral"
)

// knows says what of the outside world an entry may reach.
type knows string

const (
	// values is the API's closure: the standard library and the types of Kubernetes. Whoever imports our kinds inherits no more.
	values knows = "values"
	// pure is everything but the world: no network, no files, no processes, no database, no cluster.
	pure knows = "pure"
	// world is everything.
	world knows = "world"
)

// An entry places packages in the house. A pattern names one package, or with /... a package and all below it; the
// longest one that fits counts.
type entry struct {
	step    int
	side    side
	knows   knows
	pattern string
}

// house is the staircase from the top down. A new package gets its line here before anything can import it.
var house = []entry{
	{step: 10, side: neutral, knows: world, pattern: "test/..."},

	{step: 9, side: neutral, knows: world, pattern: "."},
	{step: 9, side: neutral, knows: world, pattern: "cli/..."},
	{step: 9, side: neutral, knows: world, pattern: "hack/..."},
	{step: 9, side: right, knows: world, pattern: "runtime/cmd/segment"},

	{step: 8, side: left, knows: world, pattern: "controllers"},

	{step: 7, side: left, knows: world, pattern: "controllers/agentrun"},
	{step: 7, side: left, knows: world, pattern: "controllers/definition"},
	{step: 7, side: left, knows: world, pattern: "controllers/sweep"},
	{step: 7, side: left, knows: world, pattern: "controllers/toolserver"},
	{step: 7, side: left, knows: world, pattern: "controllers/approval"},
	{step: 7, side: left, knows: world, pattern: "controllers/policy"},
	{step: 7, side: left, knows: world, pattern: "controllers/install"},
	{step: 7, side: right, knows: world, pattern: "runtime/model/..."},
	{step: 7, side: right, knows: world, pattern: "runtime/tool/..."},
	{step: 7, side: right, knows: world, pattern: "runtime/store/..."},

	{step: 6, side: left, knows: world, pattern: "controllers/ledger/..."},
	{step: 6, side: left, knows: world, pattern: "controllers/metrics"},
	{step: 6, side: left, knows: world, pattern: "controllers/requeue"},
	{step: 6, side: left, knows: world, pattern: "controllers/approval/guard"},
	{step: 6, side: right, knows: world, pattern: "runtime/egress"},

	{step: 5, side: left, knows: pure, pattern: "controllers/agentrun/job"},
	{step: 5, side: left, knows: pure, pattern: "controllers/agentrun/request"},
	{step: 5, side: left, knows: pure, pattern: "controllers/toolserver/discovery"},
	{step: 5, side: right, knows: pure, pattern: "runtime/segment/..."},

	{step: 4, side: left, knows: pure, pattern: "controllers/agentrun/lifecycle"},
	{step: 4, side: left, knows: pure, pattern: "controllers/pod"},
	{step: 4, side: left, knows: pure, pattern: "controllers/approval/decide"},
	{step: 4, side: left, knows: pure, pattern: "controllers/definition/compile"},
	{step: 4, side: right, knows: pure, pattern: "runtime/prompt"},
	{step: 4, side: right, knows: pure, pattern: "runtime/gate"},

	// The rules by which both columns decide.
	{step: 3, side: neutral, knows: pure, pattern: "runtime/budget"},
	{step: 3, side: neutral, knows: pure, pattern: "runtime/policy"},
	{step: 3, side: neutral, knows: pure, pattern: "runtime/schema"},

	{step: 2, side: left, knows: pure, pattern: "config/admission"},
	{step: 2, side: neutral, knows: pure, pattern: "runtime/contract"},

	{step: 1, side: neutral, knows: values, pattern: "api/..."},
}

// outside is what a pure package is kept from. A name covers what lies below it; net/netip and net/url only parse.
var outside = []string{
	"net", "os", "syscall", "database/sql", "log",
	"github.com/jackc/pgx/v5", "k8s.io/client-go", "sigs.k8s.io/controller-runtime",
}

var parsers = []string{"net/netip", "net/url"}

// vocabulary is all that the API may import besides the standard library.
var vocabulary = []string{"k8s.io/apimachinery", "k8s.io/apiextensions-apiserver/pkg/apis"}

// place finds the entry of a package, given relative to the module. A package named for tests (segmenttest,
// storetest) belongs to the entry of the package it serves.
func place(pkg string) (entry, bool) {
	if forTests(pkg) {
		pkg = path.Dir(pkg)
	}
	fits := slices.DeleteFunc(slices.Clone(house), func(e entry) bool { return !e.covers(pkg) })
	if len(fits) == 0 {
		return entry{}, false
	}
	return slices.MaxFunc(fits, func(a, b entry) int { return cmp.Compare(len(a.pattern), len(b.pattern)) }), true
}

func (e entry) covers(pkg string) bool {
	if root, tree := strings.CutSuffix(e.pattern, "/..."); tree {
		return under(pkg, root)
	}
	return pkg == e.pattern
}

// forTests tells packages that only tests may import by their names.
func forTests(pkg string) bool {
	return strings.HasSuffix(pkg, "test") && strings.Contains(pkg, "/")
}

func under(pkg string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") })
}
