package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// interpret translates an error of pgx: nothing above this package knows what Postgres says. An end of ctx is ctx's
// error, what may heal is segment.ErrUnavailable, and the rest passes as it is, because it is a bug.
func interpret(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("asking Postgres: %w", ctx.Err())
	case transient(err):
		return fmt.Errorf("%w: %v", segment.ErrUnavailable, err) //nolint:errorlint // pgx ends here
	default:
		return err
	}
}

// transient reports whether the same statement may succeed later.
func transient(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return transientState(refused.Code)
	}
	return broken(err)
}

// transientState reports whether an SQLSTATE tells of the server's state rather than of the statement.
func transientState(code string) bool {
	switch code {
	case "25006", // read-only: the old primary after a failover
		"25P03", "25P04", // the transaction took too long
		"28000", "28P01", // refused login: the Secret and the role may be about to meet
		"3D000",          // no such database: being restored
		"40001", "40P01", // serialization failure, deadlock
		"55P03", // lock timeout
		"57014": // statement timeout
		return true
	}
	// Connection, resources, operator intervention, system errors.
	for _, class := range []string{"08", "53", "57P", "58"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// broken reports whether the connection, and not the server, gave the error.
func broken(err error) bool {
	var network net.Error
	var connecting *pgconn.ConnectError
	var number syscall.Errno
	return errors.As(err, &network) || errors.As(err, &connecting) || errors.As(err, &number) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, context.DeadlineExceeded) || // a timeout of the pool's own: ctx has not ended
		pgconn.Timeout(err) || pgconn.SafeToRetry(err)
}

// duplicate reports whether a row was there already.
func duplicate(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "23505"
}

// locked reports whether a lock was waited for too long.
func locked(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "55P03"
}

// shed drops the idle connections once one of them has turned out to be dead: the next attempt shall not meet another.
func shed(pool *pgxpool.Pool, err error) {
	var refused *pgconn.PgError
	if err != nil && (broken(err) || errors.As(err, &refused) && strings.HasPrefix(refused.Code, "57P")) {
		pool.Reset()
	}
}
