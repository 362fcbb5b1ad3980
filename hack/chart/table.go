package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// The lines in README.md between which the table stands.
const (
	begin = "<!-- values: written by make generate from values.yaml -->"
	end   = "<!-- end of values -->"
)

// table writes the table of values into the chart's README.
func table() error {
	values, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	rows, err := rowsOf(values)
	if err != nil {
		return err
	}
	path := filepath.Join(chart, "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(readme), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %q and %q", path, begin, end)
	}
	text := before + begin + "\n\n| value | default | meaning |\n|---|---|---|\n" + strings.Join(rows, "") + "\n" + end + after
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // for everybody to read
}

// A value is a key of values.yaml and the comment above it.
type value struct {
	path    []string
	comment string
	// section is set once a key below has a comment of its own.
	section bool
}

// rowsOf is a row for each value with a comment; what has values with comments of their own has no default of its own.
func rowsOf(file []byte) ([]string, error) {
	var defaults map[string]any
	if err := yaml.Unmarshal(file, &defaults); err != nil {
		return nil, err
	}
	values, err := read(string(file))
	if err != nil {
		return nil, err
	}
	var rows []string
	for _, v := range values {
		if v.comment == "" {
			continue
		}
		text := ""
		if !v.section {
			literal, err := json.Marshal(lookup(defaults, v.path))
			if err != nil {
				return nil, err
			}
			text = "`" + string(literal) + "`"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", strings.Join(v.path, "."), text, strings.ReplaceAll(v.comment, "|", `\|`)))
	}
	return rows, nil
}

// read finds the keys of a file of values, which are indented by two blanks, and their comments.
func read(file string) ([]*value, error) {
	var all, open []*value
	var comment []string
	for line := range strings.SplitSeq(file, "\n") {
		text := strings.TrimLeft(line, " ")
		if said, ok := strings.CutPrefix(text, "#"); ok {
			comment = append(comment, strings.TrimSpace(said))
			continue
		}
		key, _, ok := strings.Cut(text, ":")
		if !ok { // a blank line parts a comment from what follows
			comment = nil
			continue
		}
		depth := (len(line) - len(text)) / 2
		if depth > len(open) {
			return nil, fmt.Errorf("%q is indented too far", line)
		}
		open = open[:depth]
		v := &value{comment: strings.Join(comment, " ")}
		for _, above := range open {
			above.section = above.section || v.comment != ""
		}
		v.path = append(pathOf(open), key)
		all, open, comment = append(all, v), append(open, v), nil
	}
	return all, uncommented(all)
}

func pathOf(open []*value) []string {
	if len(open) == 0 {
		return nil
	}
	return append([]string(nil), open[len(open)-1].path...)
}

// uncommented names the values that nobody explains: neither they nor what they are part of has a comment, or their
// neighbours have one.
func uncommented(all []*value) error {
	sections := map[string]*value{}
	for _, v := range all {
		sections[strings.Join(v.path, ".")] = v
	}
	var missing []error
	for _, v := range all {
		above := sections[strings.Join(v.path[:len(v.path)-1], ".")]
		if v.comment == "" && !v.section && (above == nil || above.section) {
			missing = append(missing, fmt.Errorf("values.yaml: %s has no comment", strings.Join(v.path, ".")))
		}
	}
	return errors.Join(missing...)
}

func lookup(values map[string]any, path []string) any {
	below, ok := values[path[0]].(map[string]any)
	if len(path) == 1 || !ok {
		return values[path[0]]
	}
	return lookup(below, path[1:])
}
