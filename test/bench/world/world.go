// Package world is what the engines of a bench act upon: a server, in a process of its own, that counts effects, and a model
// that proposes them.
//
// What it counts is what the bench believes: an effect whose client died is counted all the same.
package world

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// Effect names one thing to be done in the world: once, if all is well.
type Effect struct {
	Run  string `json:"run"`
	Step string `json:"step"`
}

// Count is what became of one effect.
type Count struct {
	Effect
	// Executions is how often it was asked for, and so done.
	Executions int `json:"executions"`
	// Abandoned is how many of them were in flight when their client died: nobody heard the answer.
	Abandoned int `json:"abandoned"`
}

// Report is what the world has seen since it began.
type Report struct {
	// Busy is how many effects are in flight now.
	Busy    int     `json:"busy"`
	Effects []Count `json:"effects"`
}

// Server counts effects. It is an http.Handler.
type Server struct {
	takes time.Duration
	mux   *http.ServeMux

	mu    sync.Mutex
	busy  int
	count map[Effect]*Count
}

// New is a world in which each effect takes so long, and whose model wants so many of them of each run.
func New(takes time.Duration, steps int) *Server {
	s := &Server{takes: takes, mux: http.NewServeMux(), count: map[Effect]*Count{}}
	s.mux.HandleFunc("POST /effects", s.act)
	s.mux.HandleFunc("GET /report", s.report)
	s.mux.Handle("/v1/", newModel(steps))
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// act does the effect. From the moment its request has come nothing keeps it from happening.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	var e Effect
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := s.begin(e)
	time.Sleep(s.takes) //nolint:forbidigo // this is what the effect takes
	s.end(c, r.Context().Err() != nil)
	_, _ = w.Write([]byte("done")) // the client may be gone
}

func (s *Server) begin(e Effect) *Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.count[e]
	if c == nil {
		c = &Count{Effect: e}
		s.count[e] = c
	}
	c.Executions++
	s.busy++
	return c
}

func (s *Server) end(c *Count, abandoned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if abandoned {
		c.Abandoned++
	}
}

func (s *Server) report(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Report{Busy: s.busy, Effects: make([]Count, 0, len(s.count))}
	for _, c := range s.count {
		r.Effects = append(r.Effects, *c)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r) // the client may be gone
}
