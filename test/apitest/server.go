package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// startPatience covers a machine that is busy with builds.
	startPatience = 3 * time.Minute
	stopPatience  = 30 * time.Second
)

// Server is a control plane that runs.
type Server struct {
	binary     string
	dir        string
	kubeconfig string
	config     *rest.Config
	process    *exec.Cmd
	ended      chan struct{} // closed when the process has ended

	namespaces      atomic.Int64
	installed       sync.Once
	installWarnings []string
	ready           bool
}

var (
	once   sync.Once
	shared *Server
	failed error
)

// Main runs the tests of m, then stops the server if one was started. It returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared != nil {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "apitest:", err)
			return max(code, 1)
		}
	}
	return code
}

// Start returns the test binary's server; the first call starts it.
func Start(t testing.TB) *Server {
	t.Helper()
	once.Do(func() { shared, failed = start() })
	if failed != nil {
		t.Fatalf("starting an API server: %v", failed)
	}
	return shared
}

// description is what the development cluster says of itself in cluster.json.
type description struct {
	Kubeconfig string `json:"kubeconfig"`
}

func start() (_ *Server, err error) {
	binary, err := devcluster()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ekiden-apitest-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the cluster: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()

	output := new(bytes.Buffer)
	s := &Server{binary: binary, dir: dir, ended: make(chan struct{})}
	// No test's context: the server outlives the test that starts it.
	s.process = exec.CommandContext(context.Background(), binary, "run", "--dir", dir, "--no-node", "--no-postgres")
	s.process.Stdout, s.process.Stderr = output, output
	// A group of its own, so that an interrupt at the terminal reaches it only through us; and the
	// signal to stop comes from the kernel if we die without saying so.
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := s.launch(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}

	d, err := s.untilReady()
	if err != nil {
		_ = s.stop()
		return nil, fmt.Errorf("%w; it said:\n%s", err, output)
	}
	s.kubeconfig = d.Kubeconfig
	s.config, err = clientcmd.BuildConfigFromFlags("", d.Kubeconfig)
	if err != nil {
		_ = s.stop()
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	s.config.QPS = -1 // The API server protects itself.
	return s, nil
}

// launch starts the process from a thread that never ends: the kernel sends the death signal when the
// thread that made the child ends, and Go ends threads as it likes.
func (s *Server) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := s.process.Start()
		started <- err
		if err == nil {
			_ = s.process.Wait() // how it ended is in ProcessState
			close(s.ended)
		}
		select {}
	}()
	return <-started
}

func (s *Server) untilReady() (description, error) {
	deadline := time.After(startPatience)
	for {
		var d description
		content, err := os.ReadFile(filepath.Join(s.dir, "cluster.json"))
		if err == nil {
			return d, json.Unmarshal(content, &d)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return d, err
		}
		select {
		case <-s.ended:
			return d, fmt.Errorf("the cluster ended before it was ready (%s)", s.process.ProcessState)
		case <-deadline:
			return d, fmt.Errorf("the cluster was not ready after %s", startPatience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) stop() error {
	defer func() { _ = os.RemoveAll(s.dir) }()
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
		return nil
	case <-time.After(stopPatience):
		_ = s.process.Process.Kill()
		return fmt.Errorf("the cluster did not stop within %s and was killed", stopPatience)
	}
}

// devcluster is the path of the binary.
func devcluster() (string, error) {
	path := os.Getenv("EKIDEN_DEVCLUSTER")
	if path == "" {
		root, err := root()
		if err != nil {
			return "", err
		}
		path = filepath.Join(root, "bin", "devcluster")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: run make bin/devcluster, or set EKIDEN_DEVCLUSTER to the path of the binary", err)
	}
	return path, nil
}

// Path is the absolute path of a file of the repository.
func Path(t testing.TB, names ...string) string {
	t.Helper()
	root, err := root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root}, names...)...)
}

// root is the folder of the module. Tests run in the folder of their package.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the folder of the test")
		}
		dir = parent
	}
}
