package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
)

func TestClass(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		given error
		want  string
	}{
		"it answers again":        {nil, "it did not answer and now does again"},
		"a wrong password":        {&pgconn.PgError{Code: "28P01", Message: "for user jane"}, "login refused"},
		"no entry for the host":   {&pgconn.PgError{Code: "28000"}, "login refused"},
		"too many connections":    {&pgconn.PgError{Code: "53300"}, "refused with SQLSTATE 53300"},
		"a name that is none":     {&net.DNSError{Err: "no such host", Name: "pg.example"}, "its name is not known"},
		"a port that is closed":   {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "connection refused"},
		"a host that is far away": {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, "no route to its host"},
		"a host that is silent":   {fmt.Errorf("dialling: %w", context.DeadlineExceeded), "timeout"},
		"anything else":           {errors.New("10.0.0.1: out of luck"), "connection broken"},
	} {
		if got := class(tc.given); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestLastWordsHoldNoAddress lets Postgres fail in all its ways, and looks for where it is and who asked.
func TestLastWordsHoldNoAddress(t *testing.T) {
	t.Parallel()
	secrets := []string{"127.0.0.1", "localhost", "ekiden_jane", "hush", "thedatabase"}
	closed := fmt.Sprintf("postgres://ekiden_jane:hush@127.0.0.1:%d/thedatabase", closedPort(t))
	_, connecting := pgconn.Connect(t.Context(), closed)
	_, parsing := postgres.Open(t.Context(), "postgres://ekiden_jane:hush@localhost:x/thedatabase")
	for name, tc := range map[string]struct {
		fault *contract.Fault
		err   error
		want  string
	}{
		"a fault":                    {&contract.Fault{Code: contract.FaultLedger, Message: connecting.Error()}, nil, `{"fault":"LedgerUnavailable","message":"Postgres: connection refused"}`},
		"a crash for want of it":     {nil, fmt.Errorf("%w: %v", segment.ErrUnavailable, connecting), "Postgres: connection refused"}, //nolint:errorlint // as the store does
		"a crash at its first word":  {nil, fmt.Errorf("claiming: %w", connecting), "Postgres: connection refused"},
		"a crash over its refusal":   {nil, fmt.Errorf("claiming: %w", &pgconn.PgError{Code: "42501", Message: "permission denied for thedatabase"}), "Postgres: refused with SQLSTATE 42501"},
		"a crash over an odd Secret": {nil, parsing, "key dsn of Secret ekiden-postgres is not a DSN: delete the Secret, and it is made anew"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options{dsn: closed, terminationLog: filepath.Join(t.TempDir(), "log")}
			leave(slog.New(slog.DiscardHandler), o, tc.fault, tc.err)
			words, err := os.ReadFile(o.terminationLog)
			if err != nil || string(words) != tc.want {
				t.Errorf("got %q, %v; want %q", words, err, tc.want)
			}
			for _, s := range secrets {
				if strings.Contains(string(words), s) {
					t.Errorf("%q holds %q", words, s)
				}
			}
		})
	}
}

// closedPort is a port on which nobody listens.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
