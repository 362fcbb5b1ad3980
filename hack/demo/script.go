package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// script is as much of the model's script as the demo holds results against.
type script struct {
	Rules []struct {
		Name  string
		Steps []struct {
			Text  string
			Break any
			Calls struct {
				List []struct{ Name, Arguments string }
			}
		}
	}
}

func scriptFile(p place) string { return filepath.Join(p.repo, "hack", "demo", "script.yaml") }

func readScript(p place) (script, error) {
	var s script
	b, err := os.ReadFile(scriptFile(p))
	if err != nil {
		return s, err
	}
	if err := yaml.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("reading the script: %w", err)
	}
	return s, nil
}

// answer is what the rule of that name answers in the end: the text of its steps, but for those that break off and
// those that call tools.
func (s script) answer(rule string) string {
	var answer strings.Builder
	for _, r := range s.Rules {
		for _, step := range r.Steps {
			if r.Name == rule && step.Break == nil && len(step.Calls.List) == 0 {
				answer.WriteString(step.Text)
			}
		}
	}
	return answer.String()
}

// arguments are those with which the rule of that name calls a tool.
func (s script) arguments(rule, tool string) string {
	for _, r := range s.Rules {
		for _, step := range r.Steps {
			for _, call := range step.Calls.List {
				if r.Name == rule && call.Name == tool {
					return call.Arguments
				}
			}
		}
	}
	return ""
}
