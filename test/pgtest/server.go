package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser is the superuser of servers that this package starts.
const superuser = "postgres"

// The superuser is trusted, so that tests can make databases and roles; everybody else proves a password, so that
// passwords are really exercised.
const authentication = `host all ` + superuser + ` 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
`

// Options say how a server runs.
type Options struct {
	// Durable syncs what is committed to the disk, as in production. Most tests do not survive the machine anyway.
	Durable bool
	// Settings are further settings, such as {"log_statement", "all"}.
	Settings [][2]string
}

// Server is a Postgres server on loopback.
type Server struct {
	dsn      string // of the superuser, to the database postgres
	options  Options
	binaries string
	dir      string
	account  *account
	port     int

	process *os.Process
	ended   <-chan struct{}
}

// Start makes a new server and starts it. A server that EKIDEN_TEST_DSN names is not made, only used.
func Start(o Options) (*Server, error) {
	if dsn := os.Getenv("EKIDEN_TEST_DSN"); dsn != "" {
		return &Server{dsn: dsn}, nil
	}
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	a, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := a.folder()
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, binaries: bin, dir: dir, account: a}
	if err := s.initialize(); err != nil {
		s.Stop()
		return nil, err
	}
	for range 5 { // the port may be taken between our look and the server's
		if s.port, err = freePort(); err != nil {
			break
		}
		s.dsn = "postgres://" + superuser + "@127.0.0.1:" + strconv.Itoa(s.port) + "/postgres?sslmode=disable"
		if err = s.Up(); err == nil {
			return s, nil
		}
	}
	s.Stop()
	return nil, err
}

func (s *Server) initialize() error {
	c := exec.Command(filepath.Join(s.binaries, "initdb"), "--pgdata", s.data(), "--username", superuser,
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	c.SysProcAttr = s.account.attributes()
	bind(c.SysProcAttr, syscall.SIGKILL)
	c.Dir = s.dir
	runtime.LockOSThread() // what is bound ends with the thread that started it
	defer runtime.UnlockOSThread()
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("running initdb: %w\n%s", err, out)
	}
	return os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(authentication), 0o600)
}

// Up starts the server, again after Down or Crash, on the same port and data. It returns when the server answers.
func (s *Server) Up() error {
	if s.binaries == "" {
		return errors.New("the server that EKIDEN_TEST_DSN names is not ours to start")
	}
	durable := "off"
	if s.options.Durable {
		durable = "on"
	}
	args := []string{"-D", s.data()}
	for _, kv := range append([][2]string{
		{"listen_addresses", "127.0.0.1"},
		{"port", strconv.Itoa(s.port)},
		{"unix_socket_directories", ""},
		{"max_connections", "200"},
		{"fsync", durable},
		{"synchronous_commit", durable},
		{"full_page_writes", durable},
		{"shared_buffers", "32MB"},
		{"log_timezone", "UTC"},
		{"timezone", "UTC"},
	}, s.options.Settings...) {
		args = append(args, "-c", kv[0]+"="+kv[1])
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()

	c := exec.Command(filepath.Join(s.binaries, "postgres"), args...)
	c.SysProcAttr = s.account.attributes()
	bind(c.SysProcAttr, syscall.SIGQUIT) // at once, without a checkpoint
	c.Dir, c.Stdout, c.Stderr = s.dir, log, log

	ended, err := startBound(c)
	if err != nil {
		return fmt.Errorf("starting postgres: %w", err)
	}
	s.process, s.ended = c.Process, ended
	if err := s.answers(); err != nil {
		s.Crash()
		said, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("starting postgres: %w\n%s", err, said)
	}
	return nil
}

func (s *Server) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.dsn)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Down stops the server as an administrator would: connections are cut, everything is written.
func (s *Server) Down() { s.end(syscall.SIGINT) }

// Crash stops the server as a crash would: it recovers when it is up again.
func (s *Server) Crash() { s.end(syscall.SIGQUIT) }

func (s *Server) end(how syscall.Signal) {
	if s.process == nil {
		return
	}
	_ = s.process.Signal(how) // it may have ended already
	<-s.ended
	s.process = nil
}

// Stop ends the server and removes its data.
func (s *Server) Stop() {
	s.Crash()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// DSN is the DSN of a login of this server. An empty login is the superuser.
func (s *Server) DSN(database, login, password string) string {
	c, err := pgx.ParseConfig(s.dsn)
	if err != nil {
		panic(err) // Start connected with it
	}
	if login == "" {
		login, password = c.User, c.Password
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(login, password), Host: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), Path: "/" + database}
	if c.TLSConfig == nil {
		u.RawQuery = "sslmode=disable"
	} else {
		u.RawQuery = "sslmode=require"
	}
	return u.String()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func dial(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
