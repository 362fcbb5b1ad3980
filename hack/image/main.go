// Image writes the images of this repository without Docker: what the Dockerfile makes, from binaries that are built.
//
//	image -out bin/images -version v1.2.3 -certificates FILE manager=bin/manager segment=bin/segment pause=bin/pause
package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ekiden-dev/ekiden/hack/image/archive"
)

const (
	// certificates is where programs of Go look for public authorities.
	certificates = "/etc/ssl/certs/ca-certificates.crt"
	// user is nobody in particular. It is a number, so that a kubelet can tell that it is not root.
	user = "65532:65532"
)

// about describes an image.
type about struct {
	name, title, description string
	// public has the certificates of public authorities.
	public bool
}

var images = map[string]about{
	"manager": {name: "ekiden/manager:dev", title: "ekiden-manager", description: "The manager of Ekiden, which runs LLM agents durably on Kubernetes.", public: true},
	"segment": {name: "ekiden/segment:dev", title: "ekiden-segment", description: "A segment of an agent's run by Ekiden.", public: true},
	"pause":   {name: "localhost/pause:dev", title: "pause", description: "Holds the namespaces of a pod on the development cluster."},
}

func main() {
	out := flag.String("out", "bin/images", "`folder` of the archives")
	version := flag.String("version", "dev", "`version` that the labels name")
	revision := flag.String("revision", "", "`commit` that the labels name")
	authorities := flag.String("certificates", certificates, "`file` with the certificates of public authorities")
	flag.Parse()
	if err := write(*out, *version, *revision, *authorities, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(out, version, revision, authorities string, pairs []string) error {
	if len(pairs) == 0 {
		return errors.New("name images and their binaries: manager=bin/manager")
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	for _, pair := range pairs {
		target, binary, _ := strings.Cut(pair, "=")
		image, err := describe(target, binary, version, revision, authorities)
		if err != nil {
			return err
		}
		var content bytes.Buffer
		if err := archive.Write(&content, image); err != nil {
			return err
		}
		path := filepath.Join(out, target+".tar")
		if err := replace(path, content.Bytes()); err != nil {
			return err
		}
		fmt.Printf("%s: %s, %d bytes\n", path, image.Name, content.Len())
	}
	return nil
}

// describe is a target of the Dockerfile.
func describe(target, binary, version, revision, authorities string) (archive.Image, error) {
	a, known := images[target]
	if !known {
		return archive.Image{}, fmt.Errorf("there is no image %q", target)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return archive.Image{}, fmt.Errorf("image %s: %w", target, err)
	}
	architecture, err := static(program)
	if err != nil {
		return archive.Image{}, fmt.Errorf("image %s: %s %w", target, binary, err)
	}
	image := archive.Image{
		Name: a.name, Architecture: architecture, User: user, Entrypoint: "/" + target,
		Files: map[string][]byte{"/" + target: program}, Labels: labels(a, version, revision),
	}
	if a.public {
		if image.Files[certificates], err = os.ReadFile(authorities); err != nil {
			return archive.Image{}, fmt.Errorf("image %s: reading the certificates of public authorities: %w", target, err)
		}
	}
	return image, nil
}

func labels(a about, version, revision string) map[string]string {
	l := map[string]string{"title": a.title, "description": a.description, "version": version, "licenses": "Apache-2.0", "source": "https://github.com/ekiden-dev/ekiden"}
	if revision != "" {
		l["revision"] = revision
	}
	full := map[string]string{}
	for key, value := range l {
		full["org.opencontainers.image."+key] = value
	}
	return full
}

// static says for which architecture a program is, and refuses one that needs a loader or libraries: an image has none.
func static(program []byte) (architecture string, err error) {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", fmt.Errorf("is not a program for Linux: %w", err)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			return "", errors.New("is linked dynamically; build it with CGO_ENABLED=0")
		}
	}
	architecture, known := map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[file.Machine]
	if !known {
		return "", fmt.Errorf("is for %s, of which there are no images", file.Machine)
	}
	return architecture, nil
}

// replace puts the file in place in one step: a cluster may be reading the old one.
func replace(path string, content []byte) error {
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name()) //nolint:errcheck // it is gone if all went well
	if _, err := draft.Write(content); err != nil {
		return errors.Join(err, draft.Close())
	}
	if err := errors.Join(draft.Chmod(0o644), draft.Close()); err != nil {
		return err
	}
	return os.Rename(draft.Name(), path)
}
