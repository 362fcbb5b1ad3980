package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	_ "github.com/lib/pq" // The driver with which readiness is asked.

	"github.com/ekiden-dev/ekiden/hack/devcluster/cluster"
)

// pointer is the file of the cluster that says where the data is when it cannot
// be in the cluster's own directory.
const pointer = "postgres.path"

// The superuser is trusted on loopback, so tests can make databases and roles;
// everyone else proves a password, so that it is really exercised.
const hostBasedAuthentication = `# TYPE DATABASE USER ADDRESS METHOD
host all postgres 127.0.0.0/8 trust
host all all 127.0.0.0/8 scram-sha-256
`

// Pods is where a node's pods come from and go to, if not to loopback. They prove
// a password, the superuser too, who has none.
type Pods struct {
	Address  string   // Where the server listens for them.
	Networks []string // Where they come from.
}

func (p Pods) authentication() string {
	rules := hostBasedAuthentication
	for _, network := range p.Networks {
		rules += "host all all " + network + " scram-sha-256\n"
	}
	return rules
}

// Server is one database server of a cluster.
type Server struct {
	binaries string
	data     string
	port     int
	pods     Pods
	account  *account
}

// Prepare finds the binaries and makes the data directory unless it is there.
func Prepare(ctx context.Context, dir cluster.Dir, port int, pods Pods) (*Server, error) {
	binaries, err := FindBinaries()
	if err != nil {
		return nil, err
	}
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	data, err := dataDirectory(dir, account)
	if err != nil {
		return nil, fmt.Errorf("choosing the directory of Postgres' data: %w", err)
	}
	server := &Server{binaries: binaries, data: data, port: port, pods: pods, account: account}
	if err := server.initialize(ctx); err != nil {
		return nil, err
	}
	return server, server.write("pg_hba.conf", pods.authentication())
}

// dataDirectory is DIR/postgres, or a folder for temporary files remembered in
// DIR when the server's account cannot reach DIR.
func dataDirectory(dir cluster.Dir, account *account) (string, error) {
	data := dir.Path("postgres")
	if !account.reaches(data) {
		remembered, err := os.ReadFile(dir.Path(pointer))
		if err == nil {
			return strings.TrimSpace(string(remembered)), nil
		}
		if data, err = os.MkdirTemp("", "devcluster-postgres-"); err != nil {
			return "", err
		}
		if err := os.WriteFile(dir.Path(pointer), []byte(data+"\n"), 0o600); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return "", err
	}
	if account == nil {
		return data, nil
	}
	return data, os.Chown(data, account.uid, account.gid)
}

// RemoveOutside removes data that is not in the cluster's directory.
func RemoveOutside(dir cluster.Dir) error {
	remembered, err := os.ReadFile(dir.Path(pointer))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data := strings.TrimSpace(string(remembered))
	if !strings.HasPrefix(filepath.Base(data), "devcluster-postgres-") {
		return fmt.Errorf("%s names %s, which this program did not make", dir.Path(pointer), data)
	}
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	return os.Remove(dir.Path(pointer))
}

func (s *Server) initialize(ctx context.Context) error {
	// The last file we write: initdb and all that follows it were complete.
	done := filepath.Join(s.data, "devcluster.initialized")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if err := s.empty(); err != nil {
		return fmt.Errorf("clearing a data directory that was left half made: %w", err)
	}
	// Not synced: the server syncs what it writes later, and a machine that
	// crashes now leaves a cluster that was never ready.
	command := exec.CommandContext(ctx, filepath.Join(s.binaries, "initdb"), "--pgdata", s.data, "--username", "postgres",
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync") // pg_hba.conf is replaced at every start.
	command.SysProcAttr = s.account.attributes()
	command.Dir = s.data
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running initdb: %w\n%s", err, output)
	}
	return s.write("devcluster.initialized", "")
}

func (s *Server) empty() error {
	entries, err := os.ReadDir(s.data)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(s.data, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) write(name, content string) error {
	path := filepath.Join(s.data, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if s.account == nil {
		return nil
	}
	return os.Chown(path, s.account.uid, s.account.gid)
}

// Command runs the server in the foreground.
//
// It has no Unix socket: the path of a socket may have 107 bytes, and a cluster's
// directory is often longer.
func (s *Server) Command() *exec.Cmd {
	addresses := cluster.Loopback
	if s.pods.Address != "" {
		addresses += "," + s.pods.Address
	}
	settings := []string{
		"listen_addresses=" + addresses, "port=" + strconv.Itoa(s.port), "unix_socket_directories=",
		"max_connections=300", "fsync=on", "password_encryption=scram-sha-256",
		"log_line_prefix=%m [%p] %q%u@%d ",
	}
	arguments := []string{"-D", s.data}
	for _, setting := range settings {
		arguments = append(arguments, "-c", setting)
	}
	command := exec.Command(filepath.Join(s.binaries, "postgres"), arguments...)
	command.Dir = s.data
	command.SysProcAttr = s.account.attributes()
	return command
}

// Ready asks the server whether it answers.
func (s *Server) Ready(ctx context.Context) error {
	database, err := sql.Open("postgres", cluster.LocalPostgres(cluster.Loopback, s.port).SuperuserDSN)
	if err != nil {
		return err
	}
	defer func() { _ = database.Close() }()
	return database.PingContext(ctx)
}
