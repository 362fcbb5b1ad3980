package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ekiden-dev/ekiden/cli/terminal"
)

// Exit codes.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitUnfinished  = 3
	exitFailed      = 4
	exitCancelled   = 5
	exitInterrupted = 130
)

const exitCodes = `Exit codes:
  0    it worked
  1    something went wrong; of doctor: a check failed
  2    the command line is wrong
  3    the run has not finished (result), or not within --timeout
  4    the run failed (result)
  5    the run was cancelled (result)
  130  interrupted`

// exit is an error with an exit code of its own.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string { return e.err.Error() }
func (e exit) Unwrap() error { return e.err }

func exitf(code int, format string, args ...any) error {
	return exit{code, fmt.Errorf(format, args...)}
}

// misused is a mistake in the command line.
func misused(cmd *cobra.Command, err error) error {
	return exit{exitUsage, fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath())}
}

func usage(args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil {
			return misused(cmd, err)
		}
		return nil
	}
}

// errSaid is a failure that has been told already.
var errSaid = errors.New("said")

// conclude tells an error, once and cleaned, and returns the exit code.
func (p program) conclude(ctx context.Context, err error) int {
	var own exit
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, errSaid):
		return exitError
	}
	fmt.Fprintf(p.Err, "error: %s\n", terminal.Clean(err.Error()))
	if errors.As(err, &own) {
		return own.code
	}
	return exitError
}
