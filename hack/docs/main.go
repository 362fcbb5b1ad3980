// Docs writes docs/reference from what the code says of itself: reasons from their constants, kinds from their CRDs,
// metrics from their help texts. Run it from the root of the module.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

const folder = "docs/reference"

// pages lists the pages of the reference and who writes them.
var pages = []struct {
	name  string
	write func(*bytes.Buffer) error
}{
	{"reasons.md", reasons},
	{"api.md", kinds},
	{"metrics.md", metrics},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run() error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // for everybody to read
		return err
	}
	for _, p := range pages {
		var page bytes.Buffer
		if err := p.write(&page); err != nil {
			return fmt.Errorf("writing %s: %w", p.name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, p.name), page.Bytes(), 0o644); err != nil { //nolint:gosec // for everybody to read
			return err
		}
	}
	return nil
}
