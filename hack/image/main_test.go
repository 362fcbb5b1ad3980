package main

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stage is what the Dockerfile says of a target.
type stage struct {
	from, user, entrypoint string
	files                  []string
}

// dockerfile reads the stages. A stage begins with what the one has that it is made from.
func dockerfile(t *testing.T) map[string]stage {
	t.Helper()
	content, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := map[string]stage{}
	name := ""
	for line := range strings.Lines(strings.ReplaceAll(string(content), "\\\n", " ")) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		s := stages[name]
		switch words[0] {
		case "FROM":
			if len(words) != 4 || words[2] != "AS" {
				t.Fatalf("a stage without a name: %s", line)
			}
			name, s = words[3], stages[words[1]]
			s.from, s.files = words[1], slices.Clone(s.files)
		case "USER":
			s.user = words[1]
		case "ENTRYPOINT":
			s.entrypoint = strings.Join(words[1:], " ")
		case "COPY":
			s.files = append(s.files, words[len(words)-1])
		}
		stages[name] = s
	}
	return stages
}

// TestTheDockerfileSaysTheSame of user, entrypoint and files, for an image is an image, whoever wrote it.
func TestTheDockerfileSaysTheSame(t *testing.T) {
	t.Parallel()
	stages := dockerfile(t)
	if stages["base"].from != "scratch" {
		t.Errorf("the images begin with %s, and ours with nothing", stages["base"].from)
	}
	program := build(t)
	for _, target := range []string{"manager", "segment"} {
		image, err := describe(target, program, "dev", "", authorities(t))
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for f := range image.Files {
			files = append(files, f)
		}
		ours := stage{from: "base", user: image.User, entrypoint: `["` + image.Entrypoint + `"]`, files: files}
		theirs := stages[target]
		slices.Sort(ours.files)
		slices.Sort(theirs.files)
		if diff := cmp.Diff(theirs, ours, cmp.AllowUnexported(stage{})); diff != "" {
			t.Errorf("%s: the Dockerfile (-) and hack/image (+) differ:\n%s", target, diff)
		}
	}
}

// TestTheDockerfileLabelsTheSame keeps both in step: a label that one has, the other has too.
func TestTheDockerfileLabelsTheSame(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for target, a := range images {
		if !a.public {
			continue // the Dockerfile has no pause
		}
		for key, value := range labels(a, "${VERSION}", "${REVISION}") {
			if line := key + `="` + value + `"`; !strings.Contains(string(content), line) {
				t.Errorf("%s: the Dockerfile lacks %s", target, line)
			}
		}
	}
}

// build is a static program for this machine.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./pause")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// dynamic is a program that wants a loader: a static one, one of whose notes is called the name of a loader.
func dynamic(t *testing.T) string {
	t.Helper()
	path := build(t)
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	order := binary.LittleEndian
	for header := order.Uint64(program[32:]); ; header += 56 { // where a file for 64 bits has its list of segments, and the size of one
		if elf.ProgType(order.Uint32(program[header:])) == elf.PT_NOTE {
			order.PutUint32(program[header:], uint32(elf.PT_INTERP))
			break
		}
	}
	if err := os.WriteFile(path, program, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func authorities(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, []byte("certificates"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOnlyStaticProgramsBecomeImages(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		target, binary string
		want           string
	}{
		"a static program":            {"segment", build(t), ""},
		"one that wants a loader":     {"segment", dynamic(t), "dynamically"},
		"a text":                      {"segment", text, "not a program for Linux"},
		"a program that is not there": {"segment", filepath.Join(t.TempDir(), "none"), "no such file"},
		"an image that is not known":  {"other", build(t), `no image "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := describe(tc.target, tc.binary, "dev", "", authorities(t))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("describe: %v, want %q", err, tc.want)
			}
		})
	}
}

// TestWhatIsBuiltBecomesImages writes the archives of two binaries twice, and finds the same bytes.
func TestWhatIsBuiltBecomesImages(t *testing.T) {
	t.Parallel()
	program, out := build(t), t.TempDir()
	pairs := []string{"manager=" + program, "segment=" + program, "pause=" + program}
	read := func() (all string) {
		t.Helper()
		if err := write(out, "v1.2.3", "abc", authorities(t), pairs); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"manager.tar", "segment.tar", "pause.tar"} {
			content, err := os.ReadFile(filepath.Join(out, name))
			if err != nil {
				t.Fatal(err)
			}
			all += string(content)
		}
		return all
	}
	if first, second := read(), read(); first != second {
		t.Error("the archives of the same binaries differ")
	}
	if entries, _ := os.ReadDir(out); len(entries) != 3 {
		t.Errorf("%d files, want the three archives and nothing else", len(entries))
	}
}
