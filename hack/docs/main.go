// Docs writes docs/reference from what the code says of itself: reasons from their constants, kinds from their CRDs,
// metrics from their help texts, rights from their purposes. Of the reasons it also makes the guide to troubleshooting, and of
// the health checks for Argo CD the ConfigMap that holds them. Run it from the root of the module.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ekiden-dev/ekiden/hack/mutants"
	"github.com/ekiden-dev/ekiden/hack/rights"
)

// pages lists what is generated and by whom.
var pages = []struct {
	name  string
	write func(*bytes.Buffer) error
}{
	{"docs/reference/reasons.md", reasons},
	{"docs/reference/api.md", kinds},
	{"docs/reference/metrics.md", metrics},
	{"docs/reference/rights.md", rights.Page},
	{"docs/reference/mutants.md", mutants.Page},
	{"docs/guides/troubleshooting.md", troubleshooting},
	{"examples/gitops/argocd/argocd-cm.yaml", argocd},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run() error {
	for _, p := range pages {
		var page bytes.Buffer
		if err := p.write(&page); err != nil {
			return fmt.Errorf("writing %s: %w", p.name, err)
		}
		if err := os.MkdirAll(filepath.Dir(p.name), 0o755); err != nil { //nolint:gosec // for everybody to read
			return err
		}
		if err := os.WriteFile(p.name, page.Bytes(), 0o644); err != nil { //nolint:gosec // for everybody to read
			return err
		}
	}
	return nil
}
