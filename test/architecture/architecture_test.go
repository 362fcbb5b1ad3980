package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheHouseIsAStaircase(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	watch(t, root)
	for _, v := range violations(list(t, root)) {
		t.Error(v)
	}
}

// TestOneWayToATool holds what is true of the imports: only the pipeline's back half knows the adapters, only a segment's
// program knows the back half, and nobody but the gate's own package can name what a permit holds.
func TestOneWayToATool(t *testing.T) {
	t.Parallel()
	allowed := map[string]string{
		"runtime/tool/mcp":  "runtime/tool",
		"runtime/tool/http": "runtime/tool",
		"runtime/tool":      "runtime/cmd/segment",
		"github.com/modelcontextprotocol/go-sdk/mcp": "runtime/tool/mcp",
	}
	for _, p := range list(t, filepath.Join("..", "..")) {
		from := relative(p.ImportPath)
		for _, imported := range p.Imports {
			if only, guarded := allowed[relative(imported)]; guarded && from != only && !under(from, "test") {
				t.Errorf("%s may not import %s: that is a way to a tool past the pipeline", from, relative(imported))
			}
		}
	}
}

// TestRules shows that each rule bites: it gives a listing of one package and wants to hear of its imports.
func TestRules(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		from    string
		imports []string
		want    []string
	}{
		"a lower step may be imported": {
			from: "controllers/agentrun", imports: []string{"controllers/agentrun/lifecycle", "controllers/ledger", "runtime/contract", "runtime/budget", "api/v1alpha1"},
		},
		"an adapter may stand on the egress guard": {
			from: "runtime/model/openai", imports: []string{"runtime/egress", "runtime/segment", "net/http"},
		},
		"packages of one entry may import each other": {
			from: "controllers/ledger/postgres", imports: []string{"controllers/ledger", "github.com/jackc/pgx/v5"},
		},
		"a higher step may not be imported": {
			from: "controllers/agentrun/lifecycle", imports: []string{"controllers/agentrun/job"},
			want: []string{"controllers/agentrun/lifecycle may not import controllers/agentrun/job: it stands higher, on step 5 above step 4"},
		},
		"a neighbour may not be imported": {
			from: "controllers/agentrun", imports: []string{"controllers/sweep"},
			want: []string{"controllers/agentrun may not import controllers/sweep: they are neighbours on step 7"},
		},
		"the manager does not know the runtime": {
			from: "controllers/agentrun", imports: []string{"runtime/segment"},
			want: []string{"controllers/agentrun may not import runtime/segment: the manager knows the runtime by runtime/contract and the rules they share"},
		},
		"the runtime does not know the manager": {
			from: "runtime/cmd/segment", imports: []string{"controllers/agentrun/lifecycle"},
			want: []string{"runtime/cmd/segment may not import controllers/agentrun/lifecycle: what runs in a pod knows nothing of the manager"},
		},
		"a pure package does not reach the world": {
			from: "runtime/segment", imports: []string{"context", "net/netip", "net/http", "os/exec", "github.com/jackc/pgx/v5/pgxpool"},
			want: []string{
				"runtime/segment may not import net/http: it is pure, and that is the outside world",
				"runtime/segment may not import os/exec: it is pure, and that is the outside world",
				"runtime/segment may not import github.com/jackc/pgx/v5/pgxpool: it is pure, and that is the outside world",
			},
		},
		"a client is the world too": {
			from: "controllers/agentrun/job", imports: []string{"k8s.io/api/batch/v1", "sigs.k8s.io/controller-runtime/pkg/client"},
			want: []string{"controllers/agentrun/job may not import sigs.k8s.io/controller-runtime/pkg/client: it is pure, and that is the outside world"},
		},
		"the API drags nothing in": {
			from: "api/v1alpha1", imports: []string{"k8s.io/apimachinery/pkg/types", "github.com/google/cel-go/cel"},
			want: []string{"api/v1alpha1 may not import github.com/google/cel-go/cel: whoever reads our kinds would inherit it"},
		},
		"tests may import anything": {
			from: "test/integration", imports: []string{"controllers", "runtime/store/storetest", "hack/cluster", "test/given"},
		},
		"tools may not import tests": {
			from: "hack/demo", imports: []string{"test/given"},
			want: []string{"hack/demo may not import test/given: nothing imports test/ but test/"},
		},
		"what is for tests stays in tests": {
			from: "runtime/cmd/segment", imports: []string{"runtime/segment/segmenttest"},
			want: []string{"runtime/cmd/segment may not import runtime/segment/segmenttest: it is for tests"},
		},
		"what is for tests may reach the world and climb the stairs of its column": {
			from: "runtime/segment/segmenttest", imports: []string{"os/exec", "runtime/segment", "runtime/store/memory"},
		},
		"what is for tests stays in its column": {
			from: "runtime/segment/segmenttest", imports: []string{"controllers/ledger"},
			want: []string{"runtime/segment/segmenttest may not import controllers/ledger: what runs in a pod knows nothing of the manager"},
		},
		"an unknown package is reported": {
			from: "controllers/workflow",
			want: []string{"controllers/workflow has no place in the house: give it a line in test/architecture/house_test.go"},
		},
		"an unknown import is reported": {
			from: "cli", imports: []string{"gateway"},
			want: []string{"cli may not import gateway: it has no place in the house"},
		},
		"runtime is no package": {
			from: "runtime",
			want: []string{"runtime may not be a package: it would hide the standard library's, and it belongs to no step"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := Package{ImportPath: module + "/" + tc.from}
			for _, i := range tc.imports {
				if local(i) {
					i = module + "/" + i
				}
				given.Imports = append(given.Imports, i)
			}
			if diff := cmp.Diff(tc.want, violations([]Package{given})); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheTableIsSound keeps the table itself in order: what is pure stands low, and no two lines place the same packages.
func TestTheTableIsSound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range house {
		if (e.knows == world) == (e.step <= 5) {
			t.Errorf("%s stands on step %d and knows %s: steps 1 to 5 are pure, the others are not", e.pattern, e.step, e.knows)
		}
		if seen[e.pattern] {
			t.Errorf("%s stands in the table twice", e.pattern)
		}
		seen[e.pattern] = true
	}
}

// local tells the rows' short names of our packages from those of the standard library.
func local(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	switch first {
	case "api", "cli", "controllers", "gateway", "hack", "runtime", "test":
		return true
	default:
		return false
	}
}

func list(t *testing.T, root string) []Package {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var listing []Package
	for dec := json.NewDecoder(out); ; {
		var p Package
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		listing = append(listing, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(listing) == 0 {
		t.Fatal("go list found no packages")
	}
	return listing
}

// watch opens every folder of source code. go test keeps the results of a test until a file that the test itself
// opened has changed, and what go list opens does not count.
func watch(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == root || !d.IsDir():
			return nil
		case strings.HasPrefix(d.Name(), "."), d.Name() == "bin", d.Name() == "node_modules":
			return filepath.SkipDir
		default:
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
