package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/store/postgres"
	"github.com/ekiden-dev/ekiden/runtime/store/storetest"
	"github.com/ekiden-dev/ekiden/test/pgtest"
)

func TestErrorsAreTranslated(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return fmt.Errorf("sending: %w", &pgconn.PgError{Code: code}) }
	for name, c := range map[string]struct {
		given error
		heals bool
	}{
		"connection refused":         {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		"connection reset":           {syscall.ECONNRESET, true},
		"connection ended":           {io.ErrUnexpectedEOF, true},
		"connection closed":          {pgconn.ErrConnClosed, true},
		"too long to connect":        {fmt.Errorf("connecting: %w", context.DeadlineExceeded), true},
		"connection exception":       {state("08006"), true},
		"out of connections":         {state("53300"), true},
		"shutting down":              {state("57P01"), true},
		"crashed":                    {state("57P02"), true},
		"starting":                   {state("57P03"), true},
		"serialization failure":      {state("40001"), true},
		"deadlock":                   {state("40P01"), true},
		"read-only after a failover": {state("25006"), true},
		"promoted while it waited":   {state("57P04"), true}, // and any other of operator intervention
		"recovery took it back":      {state("40001"), true},
		"the disk is full":           {state("53100"), true},
		"an error of the disk":       {state("58030"), true},
		"no route to the host":       {&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, true},
		"the name is gone":           {&net.DNSError{Err: "no such host", IsNotFound: true}, true},
		"a broken pipe":              {&net.OpError{Op: "write", Err: syscall.EPIPE}, true},
		"a host that says nothing":   {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		"a pooler without a server":  {state("08P01"), true},
		"wrong password":             {state("28P01"), true},
		"no such role":               {state("28000"), true},
		"statement timeout":          {state("57014"), true},
		"lock timeout":               {state("55P03"), true},
		"no such table":              {state("42P01"), false},
		"a broken CHECK":             {state("23514"), false},
		"no permission":              {state("42501"), false},
		"a mistake of ours":          {errors.New("wrong number of arguments"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := postgres.Interpret(t.Context(), c.given)
			if errors.Is(got, segment.ErrUnavailable) != c.heals {
				t.Errorf("got %v", got)
			}
			var foreign *pgconn.PgError
			if c.heals && errors.As(got, &foreign) {
				t.Error("it can be seen that this is pgx")
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if got := postgres.Interpret(ctx, c.given); !errors.Is(got, context.Canceled) {
				t.Errorf("with a context that has ended: got %v", got)
			}
		})
	}
	if postgres.Interpret(t.Context(), nil) != nil {
		t.Error("no error became one")
	}
}

// TestAServerThatTurnsReadOnly is the old primary after a failover: it answers, and takes nothing. What was not committed did not
// happen, and is done again on the new one.
func TestAServerThatTurnsReadOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	s := w.claim(t, run)
	role := pgx.Identifier{loginOf(t, w.tenant)}.Sanitize()
	w.exec(t, `ALTER ROLE `+role+` SET default_transaction_read_only = on`)
	w.proxy.Cut()
	if _, err := s.Beat(t.Context()); !errors.Is(err, segment.ErrUnavailable) { // the connection that was cut
		t.Errorf("got error %v, want ErrUnavailable", err)
	}
	for name, write := range map[string]func() error{
		"beat": func() error { _, err := s.Beat(t.Context()); return err },
		"append": func() error {
			_, err := s.Append(t.Context(), 0, []segment.Entry{storetest.Answer(0, "x")}, nil)
			return err
		},
		"begin": func() error { _, err := s.Begin(t.Context(), storetest.Intent(0, 0)); return err },
		"settle": func() error {
			_, err := s.Settle(t.Context(), storetest.Settlement(0, 0, segment.ResultRefused))
			return err
		},
		"yield": func() error { return s.Yield(t.Context(), contract.Outcome{Yield: contract.YieldCompleted}, nil) },
		"claim": func() error { _, _, err := w.store.Claim(t.Context(), segment.Ask{Run: run}); return err },
	} {
		if err := write(); !errors.Is(err, segment.ErrUnavailable) {
			t.Errorf("%s: got error %v, want ErrUnavailable", name, err)
		}
	}
	w.exec(t, `ALTER ROLE `+role+` RESET default_transaction_read_only`)
	w.proxy.Cut()
	for range 2 {
		_, _ = s.Beat(t.Context())
	}
	if _, err := s.Append(t.Context(), 0, []segment.Entry{storetest.Answer(0, "x")}, nil); err != nil {
		t.Errorf("on the new primary: %v", err)
	}
}

// TestAHostThatIsGone says nothing, not even no: the connection stands and nothing comes.
func TestAHostThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	s := w.claim(t, run)
	w.store.SetAnswerWithin(300 * time.Millisecond)
	w.proxy.Silence(true)
	if _, err := s.Beat(t.Context()); !errors.Is(err, segment.ErrUnavailable) {
		t.Errorf("got error %v, want ErrUnavailable", err)
	}
	w.proxy.Silence(false)
	w.store.SetAnswerWithin(time.Minute)
	w.proxy.Cut()
	_, _ = s.Beat(t.Context()) // another connection may be as dead
	if _, err := s.Beat(t.Context()); err != nil {
		t.Errorf("on the new primary: %v", err)
	}
}

func TestAStoreOutlivesItsConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.admitted(t)
	s := w.claim(t, run)
	w.proxy.Refuse(true)
	w.proxy.Cut()
	if _, err := s.Beat(t.Context()); !errors.Is(err, segment.ErrUnavailable) {
		t.Errorf("got error %v, want ErrUnavailable", err)
	}
	w.proxy.Refuse(false)
	if _, err := s.Beat(t.Context()); err != nil {
		t.Errorf("after the server is back: %v", err)
	}
	if err := pgtest.Exec(t.Context(), w.Superuser, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = '`+loginOf(t, w.tenant)+`'`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Beat(t.Context()); err != nil && !errors.Is(err, segment.ErrUnavailable) {
		t.Errorf("got error %v, want ErrUnavailable", err)
	}
	if _, err := s.Beat(t.Context()); err != nil {
		t.Errorf("after the administrator cut the connections: %v", err)
	}
}
