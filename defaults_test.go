package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPodDefaults: a file that cannot be used ends the manager at its start, by the name of the flag, the file and the field.
func TestPodDefaults(t *testing.T) {
	t.Parallel()
	if s, err := podDefaults(""); err != nil || s.ServiceAccountName != "" {
		t.Errorf("without a file: %+v, %v", s, err)
	}
	file := filepath.Join(t.TempDir(), "pods.yaml")
	for text, want := range map[string]string{
		"serviceAccountName: agents": "", "serviceAccount: agents": `unknown field "serviceAccount"`, "labels: {ekiden.dev/x: y}": "labels[ekiden.dev/x]",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := podDefaults(file)
		if want == "" && (err != nil || s.ServiceAccountName != "agents") {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--pod-defaults-file "+file)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := podDefaults(file + "x"); err == nil || !strings.Contains(err.Error(), "--pod-defaults-file") {
		t.Errorf("a file that is not there: %v", err)
	}
}
