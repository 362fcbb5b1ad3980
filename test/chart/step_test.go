package chart

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// everything sets all that adds an object or a field.
const everything = `
manager:
  image: {pullPolicy: Always}
  imagePullSecrets: [{name: registry}]
  nodeSelector: {pool: system}
  tolerations: [{key: dedicated, operator: Exists}]
  affinity: {nodeAffinity: {}}
  priorityClassName: system-cluster-critical
  podLabels: {team: platform}
  podAnnotations: {example.com/a: b}
  extraEnv: [{name: A, value: b}]
segment:
  postgresAddress: db:5432
  pods: {labels: {team: support}}
postgres: {trial: {enabled: true}}
networkPolicy: {enabled: true}
metrics: {serviceMonitor: {enabled: true, labels: {a: b}, interval: 30s}}
keep: {sessions: 7d, runs: 700d, policies: "0"}
log: {level: 1}
`

func TestLintFindsNothing(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{"of defaults": "", "of everything": everything} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := helm(t, "lint", "--strict", "--kube-version", oldest, "--namespace", namespace,
				"--values", written(t, images), "--values", written(t, values), chart); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestNothingGeneratedIsStale runs the generator on a copy: templates, schema and the table in README.md are what it writes.
func TestNothingGeneratedIsStale(t *testing.T) {
	t.Parallel()
	copied := t.TempDir()
	for _, folder := range []string{"charts/ekiden", "config"} {
		if err := os.CopyFS(filepath.Join(copied, folder), os.DirFS(filepath.Join(repo, folder))); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(copied, "generate")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./hack/chart")
	build.Dir = repo
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building hack/chart: %v\n%s", err, out)
	}
	generate := exec.CommandContext(t.Context(), program)
	generate.Dir = copied
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("generating: %v\n%s", err, out)
	}
	written, kept := files(t, filepath.Join(copied, "charts/ekiden")), files(t, chart)
	for name, content := range written {
		if !bytes.Equal(content, kept[name]) {
			t.Errorf("charts/ekiden/%s is out of step: run make generate", name)
		}
	}
	for name := range kept {
		if _, ok := written[name]; !ok {
			t.Errorf("charts/ekiden/%s is left over: run make generate", name)
		}
	}
}

func files(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		found[path], err = os.ReadFile(filepath.Join(folder, path))
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("reading %s: %v", folder, err)
	}
	return found
}

func TestTheNotesSayWhatComesNext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set, want string
	}{
		"which Secret is waited for":     {"postgres.dsnSecret.name=db,postgres.dsnSecret.key=uri", "The manager waits for Secret db with the DSN of Postgres under uri"},
		"that a trial is a trial":        {"postgres.trial.enabled=true", "Postgres is the one for TRIALS: no backup, no failover"},
		"how a trial begins anew":        {"postgres.trial.enabled=true", "delete pvc/data-ekiden-trial-postgres-0 pod/ekiden-trial-postgres-0"},
		"how to see whether all is well": {"log.level=0", "helm -n ekiden-system test ekiden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := helm(t, "install", release, chart, "--dry-run=client", "--namespace", namespace, "--values", written(t, images), "--set", c.set)
			if err != nil {
				t.Fatal(err)
			}
			_, notes, _ := strings.Cut(text, "\nNOTES:\n")
			if !strings.Contains(notes, c.want) {
				t.Errorf("no word of %q in:\n%s", c.want, notes)
			}
			if lines := strings.Count(strings.TrimSpace(notes), "\n"); lines < 5 || lines > 6 {
				t.Errorf("a headline and %d lines, want 5, and one more of a trial", lines)
			}
		})
	}
}
