package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
)

// event is one event of a stream.
type event struct {
	// name is what an event field said; most servers send none.
	name string
	data []byte
}

// done says that the event is the end marker.
func (e event) done() bool { return string(e.data) == "[DONE]" }

// events reads server-sent events. It is more lenient than the standard where servers are known to be sloppy:
// a line that makes sense by itself is an event, with or without a blank line after it.
type events struct {
	r     *bufio.Reader
	line  []byte
	name  string
	lines []byte // data lines, so far, of an event that comes in several
	ready []event
	err   error
}

func newEvents(r *bufio.Reader) *events { return &events{r: r} }

// next is the next event. The error is io.EOF at the end, errTooLarge for an endless line, or the reader's.
func (s *events) next() (event, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return event{}, s.err
		}
		line, err := s.readLine()
		if err != nil {
			s.err = err
			// What the end cut short counts only if it happens to be whole.
			if whole(payload(line)) {
				s.field(line)
			}
			if whole(bytes.TrimSpace(s.lines)) {
				s.dispatch()
			}
			continue
		}
		if len(line) == 0 {
			s.dispatch()
			continue
		}
		s.field(line)
	}
	e := s.ready[0]
	s.ready = s.ready[1:]
	return e, nil
}

// readLine is the next line without its end, valid until the next call.
func (s *events) readLine() ([]byte, error) {
	s.line = s.line[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		s.line = append(s.line, part...)
		if len(s.line) > maxAnswer {
			return nil, errTooLarge
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(s.line, "\r\n"), err
	}
}

// field takes in one line. Comments, ids and retry times say nothing here.
func (s *events) field(line []byte) {
	if name, ok := bytes.CutPrefix(line, []byte("event:")); ok {
		s.name = string(bytes.TrimSpace(name))
		return
	}
	data := payload(line)
	switch {
	case len(data) == 0:
	case len(s.lines) == 0 && whole(data):
		s.ready = append(s.ready, event{name: s.name, data: bytes.Clone(data)})
	case len(s.lines)+len(data) > maxAnswer:
		s.err = errTooLarge
	default:
		s.lines = append(append(s.lines, data...), '\n')
	}
}

// payload is what a data line holds, or nil.
func payload(line []byte) []byte {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return nil
	}
	return bytes.TrimSpace(data)
}

// dispatch ends an event that came in several lines.
func (s *events) dispatch() {
	if len(s.lines) > 0 {
		s.ready = append(s.ready, event{name: s.name, data: bytes.TrimSpace(s.lines)})
	}
	s.name, s.lines = "", nil
}

func whole(data []byte) bool { return string(data) == "[DONE]" || json.Valid(data) }
