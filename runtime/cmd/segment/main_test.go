package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given []string
		want  string // part of the error; empty for none
	}{
		"a DSN and a run are enough":         {[]string{"--dsn", "postgres://x", "--run", "u"}, ""},
		"a run must be named":                {[]string{"--dsn", "postgres://x"}, "--run is missing"},
		"Postgres must be named":             {[]string{"--run", "u"}, "exactly one of --dsn and --dsn-file"},
		"Postgres is named once":             {[]string{"--run", "u", "--dsn", "x", "--dsn-file", "y"}, "exactly one of --dsn and --dsn-file"},
		"what is not a flag is not expected": {[]string{"--run", "u", "--dsn", "x", "extra"}, `unexpected argument "extra"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(tc.given, io.Discard)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestLeave(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault *contract.Fault
		err   error
		code  int
		words string
	}{
		"an outcome is the end":                           {nil, nil, contract.ExitDone, ""},
		"nothing to do is the end":                        {nil, segment.ErrOver, contract.ExitDone, ""},
		"a fenced process leaves quietly":                 {nil, segment.ErrFenced, contract.ExitDone, ""},
		"a fault tells the manager what another could do": {&contract.Fault{Code: contract.FaultDeferred, NotBeforeSeconds: 3}, nil, contract.ExitFault, `{"fault":"Deferred","notBeforeSeconds":3}`},
		"a crash says why":                                {nil, errors.New("out of luck"), 1, "out of luck"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options{terminationLog: filepath.Join(t.TempDir(), "log")}
			if got := leave(slog.New(slog.DiscardHandler), o, tc.fault, tc.err); got != tc.code {
				t.Errorf("exit code %d, want %d", got, tc.code)
			}
			words, _ := os.ReadFile(o.terminationLog) // not there means nothing was said
			if string(words) != tc.words {
				t.Errorf("termination message %q, want %q", words, tc.words)
			}
			if tc.fault != nil && !json.Valid(words) {
				t.Error("not JSON")
			}
		})
	}
}
