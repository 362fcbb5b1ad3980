package crd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/test/apitest"
)

// page is a page of the documentation.
type page struct{ path, name, text string }

func read(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, path := range pages(t) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page{path, filepath.Base(path), string(content)})
	}
	return all
}

// commands are what a page tells to type that begins with the words: in blocks and in the middle of sentences.
func (p page) commands(words string) [][]string {
	var out [][]string
	for _, m := range regexp.MustCompile(`(?m)(?:^|\$ |`+"`"+`)`+words+` ([^`+"`"+`#\n|&]*)`).FindAllStringSubmatch(p.text, -1) {
		out = append(out, strings.Fields(m[1]))
	}
	return out
}

// TestCommandsOfThePlugin: every command of kubectl ekiden that a page names exists, with its flags.
func TestCommandsOfThePlugin(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "kubectl-ekiden")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/ekiden-dev/ekiden/cli/kubectl-ekiden").CombinedOutput(); err != nil {
		t.Fatalf("building kubectl-ekiden: %v\n%s", err, out)
	}
	help := map[string]string{}
	named := 0
	for _, p := range read(t) {
		for _, words := range p.commands("kubectl ekiden") {
			if len(words) == 0 {
				continue
			}
			named++
			if _, known := help[words[0]]; !known {
				out, err := exec.CommandContext(t.Context(), binary, words[0], "--help").CombinedOutput()
				help[words[0]] = string(out)
				if err != nil {
					help[words[0]] = ""
				}
			}
			if !strings.Contains(help[words[0]], "kubectl ekiden "+words[0]) {
				t.Errorf("%s: there is no command kubectl ekiden %s", p.name, words[0])
				continue
			}
			for _, flag := range flags(words) {
				if !regexp.MustCompile(`(?m)(^|[ ,])` + regexp.QuoteMeta(flag) + `\b`).MatchString(help[words[0]]) {
					t.Errorf("%s: kubectl ekiden %s has no flag %s", p.name, words[0], flag)
				}
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d commands were found", named)
	}
}

// flags are the flags of a command, without their values.
func flags(words []string) []string {
	var out []string
	for _, w := range words {
		if name, _, _ := strings.Cut(w, "="); strings.HasPrefix(name, "-") {
			out = append(out, strings.TrimRight(name, ".,;:)"))
		}
	}
	return out
}

// TestTargets: every target of make that a page names exists.
func TestTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(apitest.Path(t, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, p := range read(t) {
		for _, words := range p.commands("make") {
			for _, target := range words {
				if strings.Contains(target, "=") {
					continue
				}
				named++
				if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(makefile) {
					t.Errorf("%s: there is no target %s", p.name, target)
				}
				break // what follows is a comment or another word of the sentence
			}
		}
	}
	if named < 5 {
		t.Errorf("only %d targets were found", named)
	}
}

// TestValuesOfTheChart: every value that a page sets or names is one of the chart.
func TestValuesOfTheChart(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(apitest.Path(t, "charts", "ekiden", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, p := range read(t) {
		named += len(p.values())
		for _, path := range p.values() {
			if !holds(values, path) {
				t.Errorf("%s: the chart has no value %s", p.name, path)
			}
		}
	}
	if named == 0 {
		t.Error("no page sets a value of the chart")
	}
}

// values are the values of the chart that a page sets, and those of which the guide to installing has a row.
func (p page) values() []string {
	pattern := `--set ([A-Za-z0-9.]+)=`
	if p.name == "install.md" {
		pattern = "(?m)(?:--set |^\\| `)([A-Za-z0-9]+(?:\\.[A-Za-z0-9]+)+)[=`]"
	}
	var out []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(p.text, -1) {
		out = append(out, m[1])
	}
	return out
}

// holds reports whether there is a value at the path.
func holds(values map[string]any, path string) bool {
	var at any = values
	for step := range strings.SplitSeq(path, ".") {
		fields, _ := at.(map[string]any)
		next, there := fields[step]
		if !there {
			return false
		}
		at = next
	}
	return true
}

// TestFlagsOfTheManager: a flag that stands alone in a sentence is one of the manager.
func TestFlagsOfTheManager(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(apitest.Path(t, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	others := map[string]bool{"--use-service-account-credentials": true} // of the controller manager
	named := 0
	for _, p := range read(t) {
		if strings.Contains(p.path, "/adr/") || p.name == "CONTRIBUTING.md" {
			continue
		}
		for _, m := range regexp.MustCompile("`--([a-z-]+)[= ]?[^`]*`").FindAllStringSubmatch(p.text, -1) {
			named++
			if !others["--"+m[1]] && !strings.Contains(string(source), fmt.Sprintf("%q", m[1])) {
				t.Errorf("%s: the manager has no flag --%s", p.name, m[1])
			}
		}
	}
	if named == 0 {
		t.Error("no flag was found")
	}
}

// TestPaths: what a page links to, or applies from the repository, is there.
func TestPaths(t *testing.T) {
	t.Parallel()
	root := apitest.Path(t)
	named := 0
	there := func(p page, path string) {
		named++
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	for _, p := range read(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(p.text, -1) {
			there(p, filepath.Join(filepath.Dir(p.path), m[1]))
		}
		for _, m := range regexp.MustCompile(`(?:-k|-f|--filename|--kustomize) ((?:config|examples|charts)[A-Za-z0-9_./-]*)`).FindAllStringSubmatch(p.text, -1) {
			there(p, filepath.Join(root, m[1]))
		}
	}
	if named < 20 {
		t.Errorf("only %d paths were found", named)
	}
}

// TestMetricsInDocs: every metric that a page names, in an alert or a sentence, is one of the manager.
func TestMetricsInDocs(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile(apitest.Path(t, "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, p := range read(t) {
		if p.name == "metrics.md" {
			continue
		}
		if p.name == "operations.md" {
			for _, m := range regexp.MustCompile("(?m)^\\| `(ekiden_[a-z_]+)`").FindAllStringSubmatch(string(reference), -1) {
				if !strings.Contains(p.text, "`"+m[1]+"`") {
					t.Errorf("%s does not say what to look at %s for", p.name, m[1])
				}
			}
		}
		for _, name := range regexp.MustCompile(`\bekiden_(runs?|approvals|model|segment|policy|tool|ledger|sweep)_[a-z_]+[a-z]\b`).FindAllString(p.text, -1) {
			named++
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !strings.Contains(string(reference), "`"+name+"`") && !strings.Contains(string(reference), "`"+base+"`") {
				t.Errorf("%s: there is no metric %s", p.name, name)
			}
		}
	}
	if named < 5 {
		t.Errorf("only %d metrics were found", named)
	}
}
