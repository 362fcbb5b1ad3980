// Chart brings charts/ekiden in step with the rest of the repository: templates and the schema of values with
// config/, the table of values in README.md with values.yaml. Run it from the root of the module.
package main

import (
	"fmt"
	"os"
)

// chart is the folder of the chart.
const chart = "charts/ekiden"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run() error {
	for _, s := range sources {
		if err := s.write(); err != nil {
			return fmt.Errorf("writing templates from %s: %w", s.from, err)
		}
	}
	if err := schema(); err != nil {
		return fmt.Errorf("writing the schema of values: %w", err)
	}
	if err := table(); err != nil {
		return fmt.Errorf("writing the table of values: %w", err)
	}
	return nil
}
