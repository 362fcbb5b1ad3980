package main

import (
	"context"
	"encoding/json"
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

	"sigs.k8s.io/yaml"

	"github.com/ekiden-dev/ekiden/hack/cluster"
)

// model is what answers the agents: an endpoint of the user's, or a scripted one of the demo's.
type model struct {
	URL, Name, Key string
	// scripted is nil for the user's endpoint.
	scripted *scripted
}

// scripted is the process of a scripted model.
type scripted struct {
	address string
	process process
	cmd     *exec.Cmd
	ended   chan struct{}
}

// realModel is the endpoint that the environment names, if it does.
func realModel() (*model, error) {
	m := &model{URL: os.Getenv("MODEL_URL"), Name: os.Getenv("MODEL_NAME"), Key: os.Getenv("MODEL_API_KEY")}
	switch {
	case m.URL == "" && m.Name == "" && m.Key == "":
		return nil, nil
	case m.URL == "" || m.Name == "" || m.Key == "":
		return nil, errors.New("MODEL_URL, MODEL_NAME and MODEL_API_KEY belong together: set all three, or none for a scripted model")
	default:
		return m, nil
	}
}

// modelWithin is how long the scripted model may take to listen.
const modelWithin = 30 * time.Second

// startModel starts the scripted model and waits until it listens.
func startModel(ctx context.Context, p place) (*model, error) {
	ready := p.own("model.address")
	args := []string{p.bin("modelserver"), "--listen", "127.0.0.1:0", "--script", scriptFile(p), "--ready-file", ready}
	log, err := os.OpenFile(filepath.Join(p.logs(), "model.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()                                                  // the process has its own
	s := &scripted{cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})} //nolint:noctx // it may outlive us
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = log, log, p.dir
	start := cluster.StartBound
	if p.keep {
		start = startDetached
	}
	if err := start(s.cmd); err != nil {
		return nil, fmt.Errorf("starting the scripted model: %w", err)
	}
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		close(s.ended)
	}()
	m := &model{Name: "scripted", scripted: s}
	if err := s.listening(ctx, ready, log.Name()); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	m.URL = "http://" + s.address + "/v1"
	if s.process, err = identify(s.cmd.Process.Pid, args); err == nil && p.keep {
		err = s.process.save(p.own("model.json"))
	}
	if err != nil {
		return nil, errors.Join(err, m.stop())
	}
	return m, nil
}

// startDetached starts a process in a session of its own, which outlives this one.
func startDetached(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

func (s *scripted) listening(ctx context.Context, ready, log string) error {
	ctx, cancel := context.WithTimeout(ctx, modelWithin)
	defer cancel()
	for {
		if b, err := os.ReadFile(ready); err == nil {
			s.address = strings.TrimSpace(string(b))
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the scripted model ended before it listened: see %s", log)
		case <-ctx.Done():
			return fmt.Errorf("the scripted model did not listen: see %s: %w", log, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends a scripted model that this process has started.
func (m *model) stop() error {
	if m == nil || m.scripted == nil {
		return nil
	}
	_ = m.scripted.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-m.scripted.ended:
		return nil
	case <-time.After(10 * time.Second):
		return m.scripted.cmd.Process.Kill()
	}
}

// startOver makes a scripted model forget what it was asked, so that the same task gets the same answer again.
func (m *model) startOver(ctx context.Context) error {
	if m == nil || m.scripted == nil {
		return nil
	}
	_, err := m.scripted.control(ctx, http.MethodPost, "reset")
	return err
}

// asked is how many requests a conversation has cost whose task holds the words.
func (m *model) asked(ctx context.Context, words string) (int, error) {
	body, err := m.scripted.control(ctx, http.MethodGet, "requests")
	if err != nil {
		return 0, err
	}
	var report struct {
		ByKey map[string]int `json:"byKey"`
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return 0, err
	}
	for task, n := range report.ByKey {
		if strings.Contains(task, words) {
			return n, nil
		}
	}
	return 0, nil
}

func (s *scripted) control(ctx context.Context, method, what string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+"/control/"+what, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("asking the scripted model: %w", err)
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

func scriptFile(p place) string { return filepath.Join(p.repo, "hack", "demo", "script.yaml") }

// scriptedAnswer is what the rule of that name says in all: its steps, but for those that break off.
func scriptedAnswer(p place, rule string) (string, error) {
	b, err := os.ReadFile(scriptFile(p))
	if err != nil {
		return "", err
	}
	var script struct {
		Rules []struct {
			Name  string
			Steps []struct {
				Text  string
				Break any
			}
		}
	}
	if err := yaml.Unmarshal(b, &script); err != nil {
		return "", fmt.Errorf("reading the script: %w", err)
	}
	var answer strings.Builder
	for _, r := range script.Rules {
		for _, step := range r.Steps {
			if r.Name == rule && step.Break == nil {
				answer.WriteString(step.Text)
			}
		}
	}
	return answer.String(), nil
}
