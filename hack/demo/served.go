package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ekiden-dev/ekiden/hack/cluster"
)

// served is a server of the demo's own, in a process of its own: the scripted model, or the tools.
type served struct {
	// name is that of its files: NAME.address, NAME.json and logs/NAME.log.
	name    string
	address string
	cmd     *exec.Cmd
	ended   chan struct{}
}

// servers are the names of all that may run.
var servers = []string{"model", "tools"}

// servedWithin is how long a server may take to listen.
const servedWithin = 30 * time.Second

// serve starts a program that serves and waits until it listens. In a demo that is kept it outlives this process, and down
// finds it again.
func (p place) serve(ctx context.Context, name, program string, flags ...string) (*served, error) {
	ready := p.own(name + ".address")
	args := append([]string{p.bin(program), "--listen", "127.0.0.1:0", "--ready-file", ready}, flags...)
	log, err := os.OpenFile(filepath.Join(p.logs(), name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()                                                            // the process has its own
	s := &served{name: name, cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})} //nolint:noctx // it may outlive us
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = log, log, p.dir
	start := cluster.StartBound
	if p.keep {
		start = startDetached
	}
	if err := start(s.cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		close(s.ended)
	}()
	if p.keep { // before anything else can go wrong: down must find it
		found, err := identify(s.cmd.Process.Pid, args)
		if err = errors.Join(err, found.save(p.own(name+".json"))); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}
	if err := s.listening(ctx, ready, log.Name()); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// startDetached starts a process in a session of its own, which outlives this one.
func startDetached(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

func (s *served) listening(ctx context.Context, ready, log string) error {
	ctx, cancel := context.WithTimeout(ctx, servedWithin)
	defer cancel()
	for {
		if b, err := os.ReadFile(ready); err == nil {
			s.address = strings.TrimSpace(string(b))
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the server of the %s ended before it listened: see %s", s.name, log)
		case <-ctx.Done():
			return fmt.Errorf("the server of the %s did not listen: see %s: %w", s.name, log, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends a server that this process has started. One that was never started is stopped.
func (s *served) stop() error {
	if s == nil {
		return nil
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-s.ended:
		return nil
	case <-time.After(10 * time.Second):
		return s.cmd.Process.Kill()
	}
}

// url is an address below the server.
func (s *served) url(path string) string { return "http://" + s.address + path }

// ask makes a request of the server's own, beside what it serves.
func (s *served) ask(ctx context.Context, method, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url(path), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("asking the server of the %s: %w", s.name, err)
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}
