package postgres

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

func TestNewestFirstComparesNumbers(t *testing.T) {
	t.Parallel()
	got := []string{"/pg/9/bin", "/pg/16/bin", "/pg/15/bin"}
	slices.SortFunc(got, newestFirst)
	if diff := cmp.Diff([]string{"/pg/16/bin", "/pg/15/bin", "/pg/9/bin"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReaches(t *testing.T) {
	t.Parallel()
	open := t.TempDir()
	closed := filepath.Join(open, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	someone := &account{uid: 65534, gid: 65534}
	if someone.reaches(filepath.Join(closed, "data")) {
		t.Error("another user passes a closed folder")
	}
	if (*account)(nil).reaches(filepath.Join(closed, "data")) != true {
		t.Error("we do not reach our own folder")
	}
}

func TestRemoveOutsideRemovesOnlyWhatWasMadeHere(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given string
		fails bool
	}{
		"a folder of ours is removed":     {given: "devcluster-postgres-1"},
		"another folder is not":           {given: "home", fails: true},
		"without a pointer nothing is to": {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := cluster.Dir(t.TempDir())
			data := filepath.Join(t.TempDir(), test.given)
			if err := os.MkdirAll(data, 0o700); err != nil {
				t.Fatal(err)
			}
			if test.given != "" {
				if err := os.WriteFile(dir.Path(pointer), []byte(data+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := RemoveOutside(dir)
			_, gone := os.Stat(data)
			if failed := err != nil; failed != test.fails || test.given != "" && (gone == nil) != test.fails {
				t.Errorf("RemoveOutside() = %v; the folder: %v", err, gone)
			}
		})
	}
}
