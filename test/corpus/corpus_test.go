package corpus

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ekiden-dev/ekiden/controllers/agentrun/lifecycle"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/bare"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

var record = flag.String("record", "", "write what this version stores as the corpus of a `release`")

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestWhatEveryReleaseLeftIsFinished goes on from every run that a release has stored: the manager decides about it, people do, a segment
// carries it to its end. What was done is not done again.
func TestWhatEveryReleaseLeftIsFinished(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		release, name := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(release+"/"+name, func(t *testing.T) {
			s, known := stories()[name]
			if !known {
				t.Fatal("nobody knows any more how this story goes on")
			}
			r := bare.OpenIn(t, pgtest.New(t), namespaceOf(name), runOf(name))
			if err := put(t.Context(), pgtest.Connect(t, r.Database.Superuser), read(t, file)); err != nil {
				t.Fatal(err)
			}
			s.finish(t, r)
		})
	}
}

// TestTheStoredFormIsThatOfTheNewestRelease tells of a change of what is stored: the versions before have to be able to read it, or to say
// that they cannot, and the next release needs a corpus of its own.
func TestTheStoredFormIsThatOfTheNewestRelease(t *testing.T) {
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			r := bare.OpenIn(t, pgtest.New(t), namespaceOf(name), runOf(name))
			s.leave(t, r)
			got, err := dump(t.Context(), pgtest.Connect(t, r.Database.Superuser), r.Namespace, r.UID)
			if err != nil {
				t.Fatal(err)
			}
			if *record != "" {
				write(t, filepath.Join("testdata", *record, name+".json"), got)
				return
			}
			want := read(t, filepath.Join("testdata", newest(t), name+".json"))
			if diff := cmp.Diff(want, reread(t, got)); diff != "" {
				t.Errorf("-%s +this version\n%s\nIf this is meant: is every change of form one that the schema numbers tell of, or one that older versions can read? "+
					"Then record a corpus: go test ./test/corpus -run Stored -record the-next-release", newest(t), diff)
			}
		})
	}
}

// finish carries a run that was left to its end.
func (s story) finish(t *testing.T, r *bare.Run) {
	t.Helper()
	if s.then != nil {
		if diff := cmp.Diff([]lifecycle.Effect{s.then}, decided(t, r).Do); diff != "" {
			t.Fatalf("the manager decides -want +got\n%s", diff)
		}
		c := s.then.(lifecycle.Close)
		if err := r.Ledger.EndAttempt(t.Context(), r.UID, c.AttemptKey, c.End); err != nil {
			t.Fatal(err)
		}
	}
	if s.decide != nil {
		for _, e := range decided(t, r).Do {
			if _, asks := e.(lifecycle.Raise); !asks {
				t.Fatalf("the manager does %#v about a run that waits", e)
			}
		}
		s.decide(t, r)
	}
	if diff := cmp.Diff([]lifecycle.Effect{lifecycle.Start{AttemptKey: s.goes}}, decided(t, r).Do); diff != "" {
		t.Fatalf("the manager goes on -want +got\n%s", diff)
	}
	if fault := r.Segment(t, s.goes, s.model, nil); fault != nil {
		t.Fatalf("the segment left with %+v", fault)
	}
	rec := r.Look(t)
	if rec.Outcome == nil || rec.Outcome.Yield != contract.YieldCompleted || rec.Outcome.Result != s.result {
		t.Errorf("the segment left %+v, want the result %q", rec.Outcome, s.result)
	}
	if diff := cmp.Diff(s.calls, r.Tools.Calls()); diff != "" {
		t.Errorf("calls -want +got\n%s", diff)
	}
	asked := s.model.Prompts()
	if len(asked) != 1 {
		t.Fatalf("the model was asked %d times, want once", len(asked))
	}
	var said []string
	for _, m := range asked[0].Conversation {
		said = append(said, m.Text)
	}
	for _, part := range s.read {
		if !strings.Contains(strings.Join(said, "\n"), part) {
			t.Errorf("%q is not in the conversation: %q", part, said)
		}
	}
}

// decided is what the manager decides about the run, long after everything it could wait for.
func decided(t *testing.T, r *bare.Run) lifecycle.Decision {
	t.Helper()
	rec := r.Look(t)
	return lifecycle.Decide(lifecycle.Observed{Now: rec.Now.Add(time.Hour), Held: true, Admission: rec.Admission(r.UID)})
}

// newest is the release whose corpus was recorded last.
func newest(t *testing.T) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("testdata", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	slices.SortFunc(dirs, func(a, b string) int {
		if version.MustParseGeneric(filepath.Base(a)).LessThan(version.MustParseGeneric(filepath.Base(b))) {
			return -1
		}
		return 1
	})
	return filepath.Base(dirs[len(dirs)-1])
}

func read(t *testing.T, file string) Rows {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, body)
}

func parse(t *testing.T, body []byte) Rows {
	t.Helper()
	var all map[string][]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatal(err)
	}
	rows := Rows{}
	for table, some := range all {
		for _, one := range some {
			row, err := decode(string(one))
			if err != nil {
				t.Fatal(err)
			}
			rows[table] = append(rows[table], row)
		}
	}
	return rows
}

// reread is rows as they are read back.
func reread(t *testing.T, rows Rows) Rows {
	t.Helper()
	body, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, body)
}

func write(t *testing.T, file string, rows Rows) {
	t.Helper()
	body, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Fatalf("%s is there already, and what a release has left does not change", file)
	}
	if err := os.WriteFile(file, append(body, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

var space = uuid.MustParse("e1c1de00-0000-4000-8000-000000000000")

func namespaceOf(story string) types.UID {
	return types.UID(uuid.NewSHA1(space, []byte("namespace "+story)).String())
}

func runOf(story string) types.UID {
	return types.UID(uuid.NewSHA1(space, []byte("run "+story)).String())
}
