package toolserver

import (
	"cmp"
	"net/http"
	"strings"
	"time"
)

// Mood is how a tool behaves. The zero Mood is good.
type Mood struct {
	// Times is for how many calls the mood lasts. Zero means for good.
	Times int `json:"times,omitempty"`
	// Slow is how long a call takes.
	Slow Duration `json:"slow,omitempty"`
	// Act has the call carried out before Hang, Drop, Status, Redirect, Garbage or Endless take effect: only its answer is lost.
	Act bool `json:"act,omitempty"`
	// Hang never answers.
	Hang bool `json:"hang,omitempty"`
	// Drop closes the connection: without an answer ("whole"), or within it ("within", or "resumable" after an event that
	// could be resumed from).
	Drop string `json:"drop,omitempty"`
	// Status is answered, with Body as it is.
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
	// Redirect is a Location to point to, with Status if that is set, and else 307.
	Redirect string `json:"redirect,omitempty"`
	// Garbage answers something that is no answer.
	Garbage bool `json:"garbage,omitempty"`
	// Endless is the type of content of an answer without an end.
	Endless string `json:"endless,omitempty"`

	// Problem is answered as an error of the protocol, with Status if that is set; by the API as 422.
	Problem string `json:"problem,omitempty"`
	// Fail has the tool say that it has failed.
	Fail bool `json:"fail,omitempty"`
	// Size is the size of the result in bytes.
	Size int `json:"size,omitempty"`
	// Image answers with an image.
	Image bool `json:"image,omitempty"`
	// Structured answers with structured content and no text.
	Structured bool `json:"structured,omitempty"`
	// Ask wants input from a person.
	Ask bool `json:"ask,omitempty"`
	// Echo answers with what came in Authorization.
	Echo bool `json:"echo,omitempty"`
	// Text is the result.
	Text string `json:"text,omitempty"`
}

// Duration is a time.Duration that reads as "1s".
type Duration time.Duration

// UnmarshalText reads a duration such as 1s.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// MarshalText writes it so.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Behave puts a tool into a mood.
func (s *Server) Behave(tool string, m Mood) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moods[tool] = m
}

// mood is the mood for one call, which uses it up.
func (s *Server) mood(tool string) Mood {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.moods[tool]
	if ok && m.Times > 0 {
		if m.Times--; m.Times == 0 {
			delete(s.moods, tool)
		} else {
			s.moods[tool] = m
		}
	}
	return m
}

// spoiled gives the answers that no tool gives. It is false if the call is to be answered by the tool.
func (s *Server) spoiled(w http.ResponseWriter, r *http.Request, m Mood, act func()) bool {
	if m.Slow > 0 && !s.wait(r, time.Duration(m.Slow)) {
		return true
	}
	bad := m.Hang || m.Drop != "" || m.Status != 0 && m.Problem == "" || m.Redirect != "" || m.Garbage || m.Endless != ""
	if bad && m.Act {
		act()
	}
	switch {
	case m.Hang:
		s.wait(r, 0)
		panic(http.ErrAbortHandler)
	case m.Drop != "":
		s.drop(w, m.Drop)
	case m.Redirect != "":
		w.Header().Set("Location", m.Redirect)
		w.WriteHeader(cmp.Or(m.Status, http.StatusTemporaryRedirect))
	case m.Status != 0:
		w.WriteHeader(m.Status)
		_, _ = w.Write([]byte(m.Body))
	case m.Endless != "":
		w.Header().Set("Content-Type", m.Endless)
		for chunk, err := []byte("data: "+strings.Repeat(" ", 32<<10)), error(nil); err == nil; {
			_, err = w.Write(chunk)
		}
	case m.Garbage:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":`))
	}
	return bad
}

// drop closes the connection. Aborting is the one way to do so without the last chunk.
func (s *Server) drop(w http.ResponseWriter, where string) {
	if where != "whole" {
		w.Header().Set("Content-Type", "text/event-stream")
		if where == "resumable" {
			_, _ = w.Write([]byte("id: 1_0\ndata: \n\n"))
		} else {
			_, _ = w.Write([]byte(": working\n\n"))
		}
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

// text is the result of a tool in the mood, said being what it would say in a good one.
func (m Mood) text(said, authorization string) string {
	switch {
	case m.Size > 0:
		return strings.Repeat("0123456789abcdef", m.Size/16+1)[:m.Size]
	case m.Echo:
		return "you sent " + authorization
	case m.Text != "":
		return m.Text
	case m.Fail:
		return "the customer has no such order"
	default:
		return said
	}
}
