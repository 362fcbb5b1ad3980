package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// askWithin bounds the question what ails Postgres.
const askWithin = 5 * time.Second

// inWords is what the manager is told about a crash. What Postgres and its client say holds its address and the login,
// which whoever may see a run's status need not be shown: that stays in the log.
func inWords(o options, err error) string {
	var parsing *pgconn.ParseConfigError
	var connecting *pgconn.ConnectError
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &parsing):
		return fmt.Sprintf("key %s of Secret %s is not a DSN: delete the Secret, and it is made anew", contract.PostgresKey, contract.PostgresSecret)
	case errors.Is(err, segment.ErrUnavailable):
		return trouble(o)
	case errors.As(err, &connecting), errors.As(err, &refused):
		return "Postgres: " + class(err)
	default:
		return err.Error()
	}
}

// trouble asks Postgres once more what ails it: of the failure itself only a text is left.
func trouble(o options) string {
	dsn, fault := dsnOf(o)
	if fault != nil {
		return fault.Message
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	conn, err := pgconn.Connect(ctx, dsn)
	if err == nil {
		_ = conn.Close(ctx) // the answer is all that was wanted
	}
	return "Postgres: " + class(err)
}

// class names a failure of a connection in words that are the same for every address.
func class(err error) string {
	var refused *pgconn.PgError
	var name *net.DNSError
	switch {
	case err == nil:
		return "it did not answer and now does again"
	case errors.As(err, &refused) && strings.HasPrefix(refused.Code, "28"):
		return "login refused"
	case errors.As(err, &refused):
		return "refused with SQLSTATE " + refused.Code
	case errors.As(err, &name):
		return "its name is not known"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to its host"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), pgconn.Timeout(err):
		return "timeout"
	default:
		return "connection broken"
	}
}
