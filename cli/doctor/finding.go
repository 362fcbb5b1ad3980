// Package doctor looks for what is wrong with an installation of Ekiden. It gathers facts from the API server, judges
// them in pure functions, and tells its findings one a line.
//
//	API server ─► Gather ─► Facts ─► Judge (pure) ─► []Finding ─► Print
package doctor

import (
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/ekiden-dev/ekiden/cli/terminal"
)

// Level says how bad a finding is.
type Level string

const (
	// OK means that the check found nothing.
	OK Level = "ok"
	// Warn means that somebody should look, and that things go on meanwhile.
	Warn Level = "warn"
	// Fail means that something does not work.
	Fail Level = "fail"
	// Skip means that the check could not be made.
	Skip Level = "skip"
)

// Finding is what one check found.
type Finding struct {
	Level Level
	// What is what was looked at, Says what was seen there.
	What, Says string
	// Cure is what to do about it; empty if there is nothing to do.
	Cure string
}

func ok(what, says string, args ...any) Finding {
	return Finding{Level: OK, What: what, Says: fmt.Sprintf(says, args...)}
}

func skip(what, why, cure string) Finding {
	return Finding{Level: Skip, What: what, Says: "not checked: " + why, Cure: cure}
}

// unseen is the finding of a check whose facts could not be read. What the asker may not see is no fault of the installation.
func unseen(what string, err error) Finding {
	switch {
	case apierrors.IsForbidden(err):
		return skip(what, "you may not read it", "ask somebody who may, or use --as")
	case meta.IsNoMatchError(err):
		return skip(what, "the cluster does not know the kind", "")
	default:
		return Finding{Level: Fail, What: what, Says: "cannot be read: " + err.Error()}
	}
}

// Failed reports whether a check failed.
func Failed(fs []Finding) bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Level == Fail })
}

// Print tells the findings, one a line.
func Print(w io.Writer, fs []Finding) error {
	for _, f := range fs {
		line := fmt.Sprintf("%-4s  %s: %s", f.Level, f.What, f.Says)
		if f.Cure != "" {
			line += " | to do: " + f.Cure
		}
		if _, err := fmt.Fprintln(w, keepIndent(line)); err != nil {
			return err
		}
	}
	return nil
}

// keepIndent cleans a line behind its level.
func keepIndent(line string) string { return line[:6] + terminal.Line(line[6:]) }
