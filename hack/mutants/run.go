package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Apply gives what the mutant makes of the files below root, by their paths. It fails if an edit does not fit in exactly one place:
// the code has moved on, and the list has to follow.
func (m Mutant) Apply(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, e := range m.Edits {
		body, changed := files[e.File]
		if !changed {
			var err error
			if body, err = os.ReadFile(filepath.Join(root, e.File)); err != nil {
				return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
			}
		}
		if n := bytes.Count(body, []byte(e.Old)); n != 1 {
			return nil, fmt.Errorf("mutant %s: %q stands in %s %d times, and must stand there once", m.Name, e.Old, e.File, n)
		}
		files[e.File] = bytes.Replace(body, []byte(e.Old), []byte(e.New), 1)
	}
	return files, nil
}

// Verdict is what became of a mutant.
type Verdict struct {
	// Caught says that a test failed. By are those that did.
	Caught bool
	By     []string
}

// timeout is how long the tests of one mutant may take: a bug may also show by an end that never comes.
const timeout = 5 * time.Minute

// Try tests the mutant's package with the bug in it, in the module at root. What the tests say goes to output. It is an error if
// the mutant does not compile: nothing was tried then.
func (m Mutant) Try(ctx context.Context, root string, output *bytes.Buffer) (Verdict, error) {
	overlay, clean, err := m.lay(root)
	if err != nil {
		return Verdict{}, err
	}
	defer clean()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	args := []string{"test", "-count=1", "-failfast", "-timeout=" + (timeout - 30*time.Second).String(), "-overlay=" + overlay, "-run", m.Test, m.Package}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = root, output, output, 10*time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch said := output.String(); {
	case err == nil:
		return Verdict{}, nil
	case !errors.As(err, &exit):
		return Verdict{}, fmt.Errorf("mutant %s: %w", m.Name, err)
	case strings.Contains(said, "[build failed]") || strings.Contains(said, "[setup failed]") || !strings.Contains(said, "FAIL"):
		return Verdict{}, fmt.Errorf("mutant %s does not compile: %s", m.Name, said)
	default:
		return Verdict{Caught: true, By: failed(said)}, nil
	}
}

// lay writes the overlay of the mutant, as go test -overlay takes it.
func (m Mutant) lay(root string) (overlay string, clean func(), err error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", nil, err
	}
	clean = func() { _ = os.RemoveAll(dir) }
	replace, err := m.Plant(root, dir)
	if err != nil {
		clean()
		return "", nil, err
	}
	if overlay, err = Overlay(dir, replace); err != nil {
		clean()
		return "", nil, err
	}
	return overlay, clean, nil
}

// Overlay writes into a folder which file stands for which, as go build -overlay takes it, and is its file.
func Overlay(dir string, replace map[string]string) (string, error) {
	body, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, body, 0o600)
}

// Plant writes what the mutant makes of files into a folder, and tells by their paths below root where each is.
func (m Mutant) Plant(root, dir string) (map[string]string, error) {
	files, err := m.Apply(root)
	if err != nil {
		return nil, err
	}
	replace := map[string]string{}
	for file, body := range files {
		at := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(at, body, 0o600); err != nil {
			return nil, err
		}
		replace[filepath.Join(root, file)] = at
	}
	return replace, nil
}

// failed are the tests that failed, by what go test said of them, each once.
func failed(output string) []string {
	var names []string
	for line := range strings.Lines(output) {
		name, found := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: ")
		if !found {
			continue
		}
		if name, _, _ = strings.Cut(name, " ("); !strings.HasPrefix(line, "---") || len(names) == 0 {
			names = append(names, name)
		}
	}
	return names
}
