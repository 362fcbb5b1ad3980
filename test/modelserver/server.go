package modelserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Server follows a script. It is an http.Handler.
type Server struct {
	// URL is the base URL of a server that Start started, such as http://127.0.0.1:4321/v1.
	URL string

	script Script
	log    *slog.Logger
	mux    *http.ServeMux
	// done is closed when the server stops, so that silent answers end.
	done     chan struct{}
	stopOnce sync.Once

	mu     sync.Mutex
	report Report
	bodies [][]byte
	// steps counts the steps taken, by rule and conversation.
	steps map[string]int
	gates map[string]*gate
}

// Report is what the server has seen since it started or was reset.
type Report struct {
	Total int `json:"total"`
	// Violations counts requests that Validate refused. Each was answered 400.
	Violations int `json:"violations"`
	// Unauthorized counts requests without the key that the script requires.
	Unauthorized int            `json:"unauthorized"`
	ByKey        map[string]int `json:"byKey"`
	// Log holds the newest requests, at most 10,000.
	Log []Entry `json:"log"`
}

// Entry is one request.
type Entry struct {
	// Key is the beginning of the first user message: it names the conversation.
	Key string `json:"key"`
	// N is the number of the request in its conversation, from 1.
	N     int    `json:"n"`
	Model string `json:"model"`
	// Authorized says that the request carried a credential of some kind.
	Authorized bool `json:"authorized"`
	// PromptSHA is the SHA-256 of the messages.
	PromptSHA string `json:"promptSHA"`
	Bytes     int    `json:"bytes"`
	Violation string `json:"violation,omitempty"`
}

const (
	maxLog  = 10_000
	maxBody = 32 << 20
	// maxKey keeps the report readable when tasks are long.
	maxKey = 200
)

type gate struct {
	open chan struct{}
	once sync.Once
}

// New is a server that follows s. Log may be nil.
func New(s Script, log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	srv := &Server{script: s, log: log, mux: http.NewServeMux(), done: make(chan struct{}), gates: map[string]*gate{}}
	srv.Reset()
	srv.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	srv.mux.HandleFunc("GET /control/requests", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, srv.Report()) })
	srv.mux.HandleFunc("POST /control/reset", func(w http.ResponseWriter, _ *http.Request) { srv.Reset(); w.WriteHeader(http.StatusNoContent) })
	srv.mux.HandleFunc("POST /control/gates/{name}", func(w http.ResponseWriter, r *http.Request) {
		srv.Open(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	srv.mux.HandleFunc("POST /v1/chat/completions", srv.complete)
	srv.mux.HandleFunc("POST /chat/completions", srv.complete)
	return srv
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Stop ends all answers that wait.
func (s *Server) Stop() { s.stopOnce.Do(func() { close(s.done) }) }

// Open opens a gate, for good or until Reset.
func (s *Server) Open(name string) {
	g := s.gate(name)
	g.once.Do(func() { close(g.open) })
}

func (s *Server) gate(name string) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.gates[name]
	if !ok {
		g = &gate{open: make(chan struct{})}
		s.gates[name] = g
	}
	return g
}

// Report is what the server has seen.
func (s *Server) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.report
	r.ByKey = map[string]int{}
	for k, n := range s.report.ByKey {
		r.ByKey[k] = n
	}
	r.Log = append([]Entry{}, s.report.Log...)
	return r
}

// Bodies are the newest requests as they came, at most 10,000.
func (s *Server) Bodies() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte{}, s.bodies...)
}

// Reset forgets all requests and begins each conversation anew. Opened gates are shut; who waits at one goes on waiting.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = Report{ByKey: map[string]int{}, Log: []Entry{}}
	s.bodies = nil
	s.steps = map[string]int{}
	for name, g := range s.gates {
		select {
		case <-g.open:
			delete(s.gates, name)
		default:
		}
	}
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		problem(w, http.StatusRequestEntityTooLarge, "request_too_large", err.Error())
		return
	}
	req, invalid := read(body)
	v := vars{model: req.Model, authorization: r.Header.Get("Authorization")}
	v.task, v.last = req.said()
	authorized := s.authorized(r.Header)

	rule, step := "", (*Step)(nil)
	v.n, rule, step = s.record(req, v, body, r.Header, authorized, invalid)
	s.log.InfoContext(r.Context(), "request", "key", clip(v.task, 80), "n", v.n, "model", clip(req.Model, 80), "rule", rule, "bytes", len(body), "accepted", authorized && invalid == nil, "violation", text(invalid))
	switch {
	case !authorized:
		problem(w, http.StatusUnauthorized, "authentication_error", "the key is not the one this server wants")
	case invalid != nil:
		problem(w, http.StatusBadRequest, "invalid_request_error", invalid.Error())
	case step == nil:
		problem(w, http.StatusInternalServerError, "script_over", "the script has no answer for this request")
	default:
		(&answer{server: s, step: *step, vars: v, request: req, w: w, r: r, size: len(body)}).give()
	}
}

// said are the first and the last user message.
func (r request) said() (first, last string) {
	for _, m := range r.Messages {
		if m.Role != "user" {
			continue
		}
		last = m.text()
		if first == "" {
			first = last
		}
	}
	return first, last
}

func (s *Server) authorized(h http.Header) bool {
	if s.script.RequireKey == "" {
		return true
	}
	for _, got := range []string{strings.TrimPrefix(h.Get("Authorization"), "Bearer "), h.Get("Api-Key"), h.Get("X-Api-Key")} {
		if subtle.ConstantTimeCompare([]byte(got), []byte(s.script.RequireKey)) == 1 {
			return true
		}
	}
	return false
}

// record counts the request and picks its step. Only requests that will be answered use up a step.
func (s *Server) record(req request, v vars, body []byte, h http.Header, authorized bool, invalid error) (n int, rule string, step *Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := clip(v.task, maxKey)
	s.report.Total++
	s.report.ByKey[key]++
	n = s.report.ByKey[key]
	if !authorized {
		s.report.Unauthorized++
	}
	if invalid != nil {
		s.report.Violations++
	}
	var raw struct {
		Messages json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(body, &raw) // What does not parse is a violation already.
	sum := sha256.Sum256(raw.Messages)
	s.report.Log = newest(s.report.Log, Entry{
		Key: key, N: n, Model: req.Model, Authorized: h.Get("Authorization")+h.Get("Api-Key")+h.Get("X-Api-Key") != "",
		PromptSHA: hex.EncodeToString(sum[:]), Bytes: len(body), Violation: text(invalid),
	})
	s.bodies = newest(s.bodies, body)
	if !authorized || invalid != nil {
		return n, "", nil
	}
	rule, step = s.pick(v, n, req.answers())
	return n, rule, step
}

// answers is how many the conversation holds.
func (r request) answers() (n int) {
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

func (s *Server) pick(v vars, n, answers int) (string, *Step) {
	for i, r := range s.script.Rules {
		w := r.When
		if !strings.Contains(v.model, w.Model) || !strings.Contains(v.task, w.Task) || !strings.Contains(v.last, w.Last) || w.Request != 0 && w.Request != n {
			continue
		}
		name := r.Name
		if name == "" {
			name = fmt.Sprintf("rules[%d]", i)
		}
		counter := fmt.Sprintf("%d %s", i, v.task)
		at := s.steps[counter]
		s.steps[counter]++
		if r.ByTurn {
			at = answers
		}
		if at >= len(r.Steps) {
			if r.Then == Fail {
				return name, nil
			}
			at = len(r.Steps) - 1
		}
		return name, &r.Steps[at]
	}
	return "", nil
}

func newest[T any](list []T, x T) []T {
	if len(list) >= maxLog {
		list = append(list[:0], list[len(list)-maxLog/2:]...)
	}
	return append(list, x)
}

func problem(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"type": kind, "message": message, "code": nil, "param": nil}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // The client may be gone.
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// wait is true once after has passed or ch is closed, and false when the client or the server goes first.
func (s *Server) wait(r *http.Request, after time.Duration, ch <-chan struct{}) bool {
	var timer <-chan time.Time
	if after > 0 {
		t := time.NewTimer(after)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
		return true
	case <-ch:
		return true
	case <-r.Context().Done():
		return false
	case <-s.done:
		return false
	}
}
