package chaos

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ekiden-dev/ekiden/hack/mutants"
)

// programs builds those of pods anew, with wrong clocks and a planted bug, into a folder, and is their files by name. If neither is
// wanted there are none.
func programs(ctx context.Context, o Options, repo, dir string) (map[string]string, error) {
	if o.Clocks == 0 && o.Mutant == "" {
		return nil, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	goroot, err := findGo(ctx, repo, dir)
	if err != nil {
		return nil, err
	}
	overlay, err := overlay(o, goroot, repo, dir)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for program, pkg := range map[string]string{"manager": ".", "segment": "./runtime/cmd/segment"} {
		files[program] = filepath.Join(dir, program)
		build := exec.CommandContext(ctx, filepath.Join(goroot, "bin", "go"), "build", "-trimpath", "-ldflags", "-s -w -X main.version=dev", "-overlay", overlay, "-o", files[program], pkg)
		build.Dir, build.Env = repo, append(os.Environ(), "CGO_ENABLED=0", "GOROOT="+goroot, "GOTOOLCHAIN=local")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the %s anew, which CLOCKS=0 does without: %w: %s", program, err, bytes.TrimSpace(out))
		}
	}
	return files, nil
}

// findGo is the root of the Go that builds the module. One that Go has fetched itself lies in the cache of modules, where nothing may be laid
// over; it is taken by a link from elsewhere.
func findGo(ctx context.Context, repo, dir string) (string, error) {
	ask := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMODCACHE")
	ask.Dir = repo
	out, err := ask.Output()
	if err != nil {
		return "", fmt.Errorf("asking where Go is: %w", err)
	}
	goroot, cache, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !strings.HasPrefix(goroot, cache+string(filepath.Separator)) {
		return goroot, nil
	}
	link := filepath.Join(dir, "go")
	return link, os.Symlink(goroot, link)
}

// overlay writes what is different in the source, as go build takes it, and is its file.
func overlay(o Options, goroot, repo, dir string) (string, error) {
	replace := map[string]string{}
	if o.Clocks > 0 {
		clock, err := misled(goroot, dir, o.Clocks)
		if err != nil {
			return "", err
		}
		maps.Copy(replace, clock)
	}
	if o.Mutant != "" {
		i := slices.IndexFunc(mutants.List, func(m mutants.Mutant) bool { return m.Name == o.Mutant })
		if i < 0 {
			return "", fmt.Errorf("MUTANT=%s: docs/reference/mutants.md has none of this name", o.Mutant)
		}
		bug, err := mutants.List[i].Plant(repo, dir)
		if err != nil {
			return "", err
		}
		maps.Copy(replace, bug)
	}
	return mutants.Overlay(dir, replace)
}

// A process has no clock but the machine's. So what is to have a wrong one is built for the chaos, with a time.Now whose wall
// clock is off by up to so many seconds, by others in each process, and jumps every two seconds. Monotonic time is as it was, which
// is what a machine's own clock promises when somebody sets it.
const (
	rightClock = "\tsec, nsec, mono := runtimeNow()\n"
	wrongClock = rightClock + "\tsec += wrong(mono)\n"
	wrongBy    = `package time

import "syscall"

func wrong(mono int64) int64 {
	h := uint64(syscall.Getpid())*0x9e3779b97f4a7c15 + uint64(mono/2e9)*0xbf58476d1ce4e5b9
	h ^= h >> 29
	h *= 0x94d049bb133111eb
	return int64(h>>33)%%(2*%[1]d+1) - %[1]d
}
`
)

// misled writes a package time whose clock is wrong into a folder, and tells by the paths of its files where they are.
func misled(goroot, dir string, wrong time.Duration) (map[string]string, error) {
	std := filepath.Join(goroot, "src", "time")
	now, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(now), rightClock); n != 1 {
		return nil, fmt.Errorf("this Go reads the clock in another way: %q is in its time.go %d times: rightClock has to follow it, or CLOCKS=0 does without", rightClock, n)
	}
	replace := map[string]string{}
	for name, body := range map[string]string{
		"time.go":  strings.Replace(string(now), rightClock, wrongClock, 1),
		"wrong.go": fmt.Sprintf(wrongBy, int64(wrong/time.Second)),
	} {
		replace[filepath.Join(std, name)] = filepath.Join(dir, name+".txt")
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte(body), 0o600); err != nil {
			return nil, err
		}
	}
	return replace, nil
}
