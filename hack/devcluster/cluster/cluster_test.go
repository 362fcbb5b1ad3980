package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSupervises(t *testing.T) {
	t.Parallel()
	const dir = Dir("/clusters/a")
	tests := map[string]struct {
		given []string
		want  bool
	}{
		"run in the directory":                 {[]string{"/bin/devcluster", "run", "--dir", "/clusters/a"}, true},
		"run with the flag in one word":        {[]string{"devcluster", "run", "--no-node", "--dir=/clusters/a/"}, true},
		"run in another directory":             {[]string{"devcluster", "run", "--dir", "/clusters/ab"}, false},
		"another verb in the directory":        {[]string{"devcluster", "process-node", "--dir=/clusters/a"}, false},
		"run by hand with a relative path":     {[]string{"devcluster", "run", "--dir", "./a"}, true},
		"a process that is gone":               {nil, false},
		"an editor that looks into the folder": {[]string{"vi", "/clusters/a/cluster.json"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := supervises(test.given, dir); got != test.want {
				t.Errorf("supervises(%q) = %v", test.given, got)
			}
		})
	}
}

func TestSupervisorIsNotAnyProcessWithThatID(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	if _, alive := dir.Supervisor(); alive {
		t.Error("a directory without a process id has a supervisor")
	}
	if err := os.WriteFile(dir.PID(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if pid, alive := dir.Supervisor(); alive || pid != os.Getpid() {
		t.Errorf("Supervisor() = %d, %v; this test is none", pid, alive)
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	binary := dir.Path("app")
	if err := os.WriteFile(binary, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		given []string
		want  Images
		fails bool
	}{
		"a name and a binary":                {given: []string{"example.org/app:1=" + binary}, want: Images{"example.org/app:1": binary}},
		"no images":                          {want: Images{}},
		"a pair without a binary":            {given: []string{"app="}, fails: true},
		"a pair without a name":              {given: []string{"=" + binary}, fails: true},
		"a word":                             {given: []string{"app"}, fails: true},
		"a binary that is not there":         {given: []string{"app=" + filepath.Join(string(dir), "none")}, fails: true},
		"a digest in the name is part of it": {given: []string{"app@sha256:1=" + binary}, want: Images{"app@sha256:1": binary}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseImages(test.given)
			if failed := err != nil; failed != test.fails {
				t.Fatalf("ParseImages(%q) = %v", test.given, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAddImagesKeepsThoseOfOthers(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	for _, images := range []Images{{"a": "/a", "b": "/b"}, {"b": "/new"}} {
		if err := dir.AddImages(images); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadImages(dir.Images())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Images{"a": "/a", "b": "/new"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestChoosePorts(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	first, err := dir.ChoosePorts()
	if err != nil {
		t.Fatal(err)
	}
	again, err := dir.ChoosePorts()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("free ports are kept for the next start:\n%s", diff)
	}
	distinct := map[int]bool{first.EtcdClient: true, first.EtcdPeer: true, first.APIServer: true, first.Postgres: true, first.Node: true}
	if len(distinct) != 5 {
		t.Errorf("two servers have the same port: %+v", first)
	}
}
