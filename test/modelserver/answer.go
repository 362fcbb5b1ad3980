package modelserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// vars are what placeholders stand for.
type vars struct {
	task, last, model, authorization string
	n                                int
}

func (v vars) fill(s string) string {
	if !strings.Contains(s, "{{") {
		return s
	}
	return strings.NewReplacer("{{task}}", v.task, "{{last}}", v.last, "{{model}}", v.model,
		"{{n}}", strconv.Itoa(v.n), "{{authorization}}", v.authorization).Replace(s)
}

// answer is one step on its way to one client.
type answer struct {
	server  *Server
	step    Step
	vars    vars
	request request
	size    int
	w       http.ResponseWriter
	r       *http.Request
	sent    int
}

func (a *answer) give() {
	s := a.step
	if s.Silent {
		a.server.wait(a.r, 0, nil)
		return
	}
	if s.Gate != "" && !a.server.wait(a.r, 0, a.server.gate(s.Gate).open) {
		return
	}
	if s.Delay > 0 && !a.server.wait(a.r, time.Duration(s.Delay), nil) {
		return
	}
	switch {
	case s.Status != 0:
		a.plain()
	case s.Raw != nil:
		a.raw()
	case s.Whole || !a.request.Stream:
		writeJSON(a.w, http.StatusOK, a.whole())
	default:
		a.stream()
	}
}

// head sends the headers of the step after those that it may override.
func (a *answer) head(status int, contentType string) {
	a.w.Header().Set("Content-Type", contentType)
	for k, v := range a.step.Headers {
		a.w.Header().Set(k, a.vars.fill(v))
	}
	a.w.WriteHeader(status)
}

func (a *answer) plain() {
	body := a.vars.fill(a.step.Body)
	kind := "application/json"
	if strings.HasPrefix(strings.TrimSpace(body), "<") {
		kind = "text/html; charset=utf-8"
	}
	a.head(a.step.Status, kind)
	fmt.Fprint(a.w, body)
}

func (a *answer) raw() {
	a.head(http.StatusOK, "text/event-stream")
	for _, piece := range a.step.Raw {
		if !a.mayGoOn() || !a.write(a.vars.fill(piece)) {
			return
		}
	}
	a.mayGoOn()
}

func (a *answer) stream() {
	a.head(http.StatusOK, "text/event-stream")
	for _, e := range a.events() {
		if a.step.ChunkDelay > 0 && !a.server.wait(a.r, time.Duration(a.step.ChunkDelay), nil) {
			return
		}
		if !a.mayGoOn() || !a.event(e) {
			return
		}
	}
	if !a.mayGoOn() || a.step.NoDone {
		return
	}
	a.write(a.lines("data: [DONE]"))
}

// mayGoOn breaks the stream where the step says so.
func (a *answer) mayGoOn() bool {
	b := a.step.Break
	if b == nil || a.sent != b.After {
		return true
	}
	switch {
	case b.Gate != "":
		a.step.Break = nil
		return a.server.wait(a.r, 0, a.server.gate(b.Gate).open)
	case b.Error != nil:
		a.write(a.lines(`data: {"error":` + a.vars.fill(string(b.Error)) + `}`))
	case b.Stall:
		a.server.wait(a.r, 0, nil)
	case b.Cut:
		panic(http.ErrAbortHandler) // The one way to drop a connection without its last chunk.
	}
	return false
}

func (a *answer) event(v any) bool {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // Events are made of maps and strings.
	}
	out := a.lines("data: " + string(b))
	if a.step.Comments {
		out = a.lines(": still there") + out
	}
	return a.write(out)
}

func (a *answer) lines(s string) string {
	if a.step.CRLF {
		return s + "\r\n\r\n"
	}
	return s + "\n\n"
}

func (a *answer) write(s string) bool {
	if _, err := a.w.Write([]byte(s)); err != nil {
		return false
	}
	a.sent++
	return http.NewResponseController(a.w).Flush() == nil
}

// pieces cuts s between runes into n pieces, or fewer if it is short.
func pieces(s string, n int) []string {
	n = max(1, min(n, utf8.RuneCountInString(s)))
	runes, out := []rune(s), make([]string, 0, n)
	for i := range n {
		out = append(out, string(runes[i*len(runes)/n:(i+1)*len(runes)/n]))
	}
	return out
}

// clip is the beginning of s, at most n bytes, cut between runes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
