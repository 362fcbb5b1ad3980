// Mutants plants bugs, one after the other, and fails if a test does not find one. Run it from the root of the module.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/ekiden-dev/ekiden/hack/mutants"
)

func main() {
	only := flag.String("only", "", "plant only the mutants whose `name` this regular expression fits")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func run(ctx context.Context, only string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	tried, missed := 0, []string{}
	for _, m := range mutants.List {
		if !pattern.MatchString(m.Name) {
			continue
		}
		tried++
		began := time.Now()
		var output bytes.Buffer
		v, err := m.Try(ctx, root, &output)
		if err != nil {
			return err
		}
		what := "found by " + strings.Join(v.By, ", ")
		if !v.Caught {
			what = "NOT FOUND"
			missed = append(missed, m.Name)
		}
		fmt.Printf("%-28s %-70s %5.1f s  %s\n", m.Name, m.Bug, time.Since(began).Seconds(), what)
	}
	switch {
	case tried == 0:
		return fmt.Errorf("--only %q fits no mutant", only)
	case len(missed) > 0:
		return fmt.Errorf("%d of %d mutants were not found: %s", len(missed), tried, strings.Join(missed, ", "))
	}
	fmt.Printf("all %d mutants were found\n", tried)
	return nil
}
