package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// poolerVariable names the binary of pgbouncer, before all others.
const poolerVariable = "EKIDEN_PGBOUNCER"

// poolerSettings are what docs/guides/operations.md says was tested: everything else is pgbouncer's default.
const poolerSettings = `[databases]
* = host=%s port=%d auth_user=%s

[pgbouncer]
pool_mode = transaction
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = users
max_client_conn = 500
`

// Pooler is pgbouncer in transaction mode, before a server. Logins prove to it the passwords that the server has for them.
type Pooler struct {
	Port int

	dir     string
	account *account
	process *os.Process
	ended   <-chan struct{}
}

// NewPooler starts pgbouncer before the server of the DSN, which is a superuser's. It ends with the test. Where there is no
// pgbouncer the test is skipped: it is no condition for anything else.
func NewPooler(t testing.TB, superuser string) *Pooler {
	t.Helper()
	binary, err := poolerBinary()
	if err != nil {
		t.Skip(err)
	}
	p, err := startPooler(binary, superuser)
	if err != nil {
		t.Fatalf("starting pgbouncer: %v", err)
	}
	t.Cleanup(p.stop)
	return p
}

// Through is a DSN that leads where the given one leads, through the pooler.
func (p *Pooler) Through(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "127.0.0.1:" + strconv.Itoa(p.Port)
	u.RawQuery = "sslmode=disable"
	return u.String()
}

// Said is what the pooler has written, a line for each connection and more.
func (p *Pooler) Said(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func poolerBinary() (string, error) {
	if named := os.Getenv(poolerVariable); named != "" {
		return named, nil
	}
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} { // sbin is on the path of few
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no pgbouncer found: install the package pgbouncer, or set %s to the binary", poolerVariable)
}

func startPooler(binary, superuser string) (*Pooler, error) {
	server, err := pgx.ParseConfig(superuser)
	if err != nil {
		return nil, err
	}
	p := &Pooler{}
	if p.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if p.dir, err = p.account.folder(); err != nil {
		return nil, err
	}
	for range 5 { // the port may be taken between our look and the pooler's
		if p.Port, err = freePort(); err != nil {
			break
		}
		if err = p.start(binary, server); err == nil {
			return p, nil
		}
	}
	p.stop()
	return nil, err
}

func (p *Pooler) start(binary string, server *pgx.ConnConfig) error {
	for name, text := range map[string]string{
		"settings": fmt.Sprintf(poolerSettings, server.Host, server.Port, server.User, p.Port),
		"users":    fmt.Sprintf("%q %q\n", server.User, server.Password),
	} {
		path := filepath.Join(p.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		if p.account != nil {
			if err := os.Chown(path, p.account.uid, p.account.gid); err != nil {
				return err
			}
		}
	}
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	c := exec.Command(binary, "settings")
	c.SysProcAttr = p.account.attributes()
	bind(c.SysProcAttr, syscall.SIGKILL)
	c.Dir, c.Stdout, c.Stderr = p.dir, log, log
	ended, err := startBound(c)
	if err != nil {
		return err
	}
	p.process, p.ended = c.Process, ended
	if err := p.answers(); err != nil {
		p.end()
		said, _ := os.ReadFile(filepath.Join(p.dir, "log"))
		return fmt.Errorf("%w\n%s", err, said)
	}
	return nil
}

// answers waits until the pooler takes connections.
func (p *Pooler) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		err := dial(ctx, "127.0.0.1:"+strconv.Itoa(p.Port))
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *Pooler) end() {
	if p.process != nil {
		_ = p.process.Kill() // it may have ended already
		<-p.ended
		p.process = nil
	}
}

func (p *Pooler) stop() {
	p.end()
	_ = os.RemoveAll(p.dir)
}
