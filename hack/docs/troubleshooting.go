package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// symptoms is the page as it is written by hand. A line that is a marker stands for a table of reasons: those of the group whose
// heading it names.
//
//go:embed troubleshooting.md
var symptoms string

const (
	markerBegin = "<!-- cures: "
	markerEnd   = " -->"
)

// fine are the reasons about which nobody has to do anything. Every other one has to say what to do.
var fine = map[string]bool{
	"Compiled": true, "Discovering": true, "Discovered": true, "InForce": true,
	"AwaitingDecision": true, "Approved": true, "Denied": true, "Happened": true, "NotHappened": true, "Retry": true, "Withdrawn": true, "Guarded": true,
	"Admitted": true, "Starting": true, "PodQueued": true, "Running": true, "BackingOff": true, "AwaitingApproval": true, "Cancelling": true,
	"Completed": true, "Cancelled": true,
}

// troubleshooting fills the tables of the page: what a reason means and what to do about it, from its constant.
func troubleshooting(page *bytes.Buffer) error {
	source, err := parse("api/v1alpha1")
	if err != nil {
		return err
	}
	return source.troubleshooting(page, symptoms)
}

func (s source) troubleshooting(page *bytes.Buffer, template string) error {
	tables := map[string]string{}
	unused := maps.Clone(fine)
	var faults []error
	for _, g := range s.constants() {
		if rows := g.rows("Reason", " surfaces "); len(rows) > 0 {
			table, err := cures(rows, unused)
			tables[heading(g.title)] = table
			faults = append(faults, err)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(unused)) {
		faults = append(faults, fmt.Errorf("hack/docs says that %s is fine, and the API has no such reason", reason))
	}
	for line := range strings.Lines(template) {
		title, begun := strings.CutPrefix(strings.TrimSpace(line), markerBegin)
		title, ended := strings.CutSuffix(title, markerEnd)
		if !begun || !ended {
			page.WriteString(line)
			continue
		}
		table, there := tables[title]
		if !there {
			faults = append(faults, fmt.Errorf("the page wants the reasons of %q twice, or there are none", title))
		}
		delete(tables, title)
		page.WriteString(table)
	}
	for _, title := range slices.Sorted(maps.Keys(tables)) {
		if tables[title] != "" {
			faults = append(faults, fmt.Errorf("the page does not tell the reasons of %q: add the line %s%s%s", title, markerBegin, title, markerEnd))
		}
	}
	return errors.Join(faults...)
}

// cures is a table of the reasons about which something is to be done, or nothing if there are none. It takes those that are fine
// out of the set.
func cures(rows []row, unused map[string]bool) (string, error) {
	var table strings.Builder
	var faults []error
	for _, r := range rows {
		when, then := firstSentence(r.text)
		switch {
		case fine[r.value]:
			delete(unused, r.value)
		case then == "":
			faults = append(faults, fmt.Errorf("reason %s does not say what to do: add it to the comment of its constant, after what it means", r.value))
		default:
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", r.value, cell(sentence(when)), cell(then))
		}
	}
	if table.Len() == 0 {
		return "", errors.Join(faults...)
	}
	return "| reason | is said | what to do |\n|---|---|---|\n" + table.String(), errors.Join(faults...)
}

// sentence is a text without the full stop of its end.
func sentence(s string) string { return strings.TrimSuffix(s, ".") }
