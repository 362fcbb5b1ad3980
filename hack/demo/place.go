package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// place is where a demo lives: the repository, and the folder of its cluster.
type place struct {
	repo, dir string
	keep      bool
}

// programs are what make builds for the demo.
var programs = []string{"devcluster", "manager", "segment", "modelserver", "toolserver", "kubectl-ekiden"}

// newPlace makes the folder: one for temporary files, or the one that is kept.
func newPlace(keep bool) (place, error) {
	repo, err := repository()
	if err != nil {
		return place{}, err
	}
	p := place{repo: repo, dir: keptDir(repo), keep: keep}
	for _, program := range programs {
		if _, err := os.Stat(p.bin(program)); err != nil {
			return place{}, fmt.Errorf("bin/%s is not built: make demo builds it", program)
		}
	}
	if !keep {
		p.dir, err = os.MkdirTemp("", "ekiden-demo-")
		return p, err
	}
	if _, err := os.Stat(p.dir); !errors.Is(err, fs.ErrNotExist) {
		return place{}, errors.New("a demo is kept already, in .devcluster/demo: look at it, or take it away with make demo-down")
	}
	return p, os.MkdirAll(p.dir, 0o700)
}

// keptDir is the folder of a demo that is kept.
func keptDir(repo string) string { return filepath.Join(repo, ".devcluster", "demo") }

// repository is the root of the module, at or above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module github.com/ekiden-dev/ekiden\n") {
			return filepath.EvalSymlinks(dir)
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("run the demo inside the repository")
		}
		dir = filepath.Dir(dir)
	}
}

func (p place) bin(program string) string { return filepath.Join(p.repo, "bin", program) }

// own is a file or folder of the demo itself, beside those of the cluster: bin, overlay, tools.key, and those of its servers.
func (p place) own(name string) string { return filepath.Join(p.dir, name) }

func (p place) logs() string { return filepath.Join(p.dir, "logs") }

// links puts kubectl and its plugin into a folder for PATH.
func (p place) links() error {
	if err := os.MkdirAll(p.own("bin"), 0o700); err != nil {
		return err
	}
	return errors.Join(
		os.Symlink(p.bin("devcluster"), p.own("bin/kubectl")),
		os.Symlink(p.bin("kubectl-ekiden"), p.own("bin/kubectl-ekiden")),
	)
}

// keepLogs removes all of the folder but the logs: the cluster's data hold keys.
func (p place) keepLogs() error {
	entries, err := os.ReadDir(p.dir)
	for _, e := range entries {
		if path := filepath.Join(p.dir, e.Name()); path != p.logs() {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// remove removes the folder, and that of all kept clusters if it is empty then.
func (p place) remove() error {
	if err := os.RemoveAll(p.dir); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(keptDir(p.repo))) // not if something else is in it
	return nil
}
