package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	named = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	said  = regexp.MustCompile(`"([^"]+)"`)
)

// TestWhatIsPromisedIsShown checks that every behaviour of docs/contract.md names tests, and that each of them is there.
func TestWhatIsPromisedIsShown(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOfTheModule(t)
	behaviours := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| behaviour") {
			continue
		}
		behaviours++
		shown := 0
		for _, m := range named.FindAllStringSubmatch(cells[2], -1) {
			shown++
			if !strings.Contains(tests, "func "+m[1]+"(t ") {
				t.Errorf("%s: there is no %s", strings.TrimSpace(cells[1]), m[1])
			}
		}
		for _, m := range said.FindAllStringSubmatch(cells[2], -1) {
			shown++
			if !strings.Contains(tests, `"`+m[1]+`"`) {
				t.Errorf("%s: no test has the row %q", strings.TrimSpace(cells[1]), m[1])
			}
		}
		if shown == 0 {
			t.Errorf("nothing shows that %s", strings.TrimSpace(cells[1]))
		}
	}
	if behaviours < 24 {
		t.Errorf("only %d behaviours were found: something was not read", behaviours)
	}
}

// testsOfTheModule is the text of all tests and suites.
func testsOfTheModule(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name == ".git"):
			return filepath.SkipDir
		case !d.IsDir() && (strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".go") && strings.HasSuffix(filepath.Dir(path), "test")):
			body, err := os.ReadFile(path)
			all.Write(body)
			return err
		default:
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
