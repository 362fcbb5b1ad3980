package architecture

import (
	"fmt"
	"strings"
)

// Package is what go list tells of a package: its non-test imports only.
type Package struct {
	ImportPath string
	Imports    []string
}

// violations reads a listing of the module and tells what in it bends the staircase.
func violations(listing []Package) []string {
	var out []string
	for _, p := range listing {
		from := relative(p.ImportPath)
		a, placed := place(from)
		switch {
		case from == "runtime":
			out = append(out, "runtime may not be a package: it would hide the standard library's, and it belongs to no step")
			continue
		case !placed:
			out = append(out, fmt.Sprintf("%s has no place in the house: give it a line in test/architecture/house_test.go", from))
			continue
		}
		for _, imported := range p.Imports {
			why := ""
			if ours(imported) {
				why = a.mayNotImport(from, relative(imported))
			} else if !forTests(from) {
				why = a.mayNotReach(imported)
			}
			if why != "" {
				out = append(out, fmt.Sprintf("%s may not import %s: %s", from, relative(imported), why))
			}
		}
	}
	return out
}

// mayNotImport says why a package of entry a may not import another package of the module, or nothing.
func (a entry) mayNotImport(from, to string) string {
	b, placed := place(to)
	switch {
	case !placed:
		return "it has no place in the house"
	case under(from, "test"):
		return ""
	case under(to, "test"):
		return "nothing imports test/ but test/"
	case forTests(to) && !forTests(from):
		return "it is for tests"
	case a.pattern == b.pattern:
		return ""
	case a.side == right && b.side == left:
		return "what runs in a pod knows nothing of the manager"
	case a.side == left && b.side == right:
		return "the manager knows the runtime by runtime/contract and the rules they share"
	case forTests(from):
		return "" // only tests import it, so nothing can come down the stairs through it
	case b.step > a.step:
		return fmt.Sprintf("it stands higher, on step %d above step %d", b.step, a.step)
	case b.step == a.step:
		return fmt.Sprintf("they are neighbours on step %d", a.step)
	default:
		return ""
	}
}

// mayNotReach says why a package of entry a may not import a package of another module, or nothing.
func (a entry) mayNotReach(to string) string {
	if a.knows == world {
		return ""
	}
	for _, o := range outside {
		if under(to, o) && !under(to, parsers...) {
			return "it is pure, and that is the outside world"
		}
	}
	if a.knows == values && !standard(to) && !under(to, vocabulary...) {
		return "whoever reads our kinds would inherit it"
	}
	return ""
}

func ours(pkg string) bool { return under(pkg, module) }

func relative(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

// standard tells packages of the standard library: their paths begin with no host.
func standard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}
