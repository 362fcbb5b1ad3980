package mutants_test

import (
	"os"
	"path/filepath"
	"testing"
)

// module is a module of its own with one test.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range map[string]string{
		"go.mod":      "module who\n\ngo 1.26\n",
		"who.go":      "package who\n\nfunc who() string { return \"nobody\" }\n\nvar _ = \"unused\"\n",
		"who_test.go": "package who\n\nimport \"testing\"\n\nfunc TestWho(t *testing.T) {\n\tif who() != \"nobody\" {\n\t\tt.Error(who())\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
