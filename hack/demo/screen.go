package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
)

// Widths of a line: time, subject, and the text beside them.
const (
	subjectWidth = 10
	textWidth    = 78
)

var margin = strings.Repeat(" ", len("  00.0s  ")+subjectWidth+len("  "))

// screen prints what happens, line by line, and in between words as they come. It is for concurrent use.
type screen struct {
	out     io.Writer
	colours bool
	began   time.Time

	mu sync.Mutex
	// column is how far the open line of streamed text has come, -1 if there is none; word is what of it is not printed yet.
	column int
	word   strings.Builder
	// last is what was printed last, if an empty line sets it apart from what follows.
	last apart
}

// apart is what is set apart by empty lines.
type apart string

const (
	quote apart = "quote" // the line is still owed
	plain apart = "plain" // it was printed
)

func newScreen(out *os.File) *screen {
	information, err := out.Stat()
	terminal := err == nil && information.Mode()&os.ModeCharDevice != 0
	return &screen{out: out, colours: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", began: time.Now(), column: -1}
}

const (
	dim   = "2"
	bold  = "1"
	red   = "1;31"
	green = "1;32"
)

// Say prints what happened to a subject.
func (s *screen) Say(subject, text string) { s.line(bold, subject, text) }

// Cheer is Say for a good end, Alarm for what goes wrong.
func (s *screen) Cheer(subject, text string) { s.line(green, subject, text) }

// Alarm is Say for what goes wrong.
func (s *screen) Alarm(subject, text string) { s.line(red, subject, text) }

func (s *screen) line(colour, subject, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
	if s.last == quote {
		fmt.Fprintln(s.out)
	}
	s.last = ""
	first, rest, more := strings.Cut(text, "\n")
	elapsed := s.paint(dim, fmt.Sprintf("%6.1fs", time.Since(s.began).Seconds()))
	fmt.Fprintf(s.out, "%s  %s  %s\n", elapsed, s.paint(colour, fmt.Sprintf("%-*s", subjectWidth, subject)), first)
	if more {
		s.indented(rest)
	}
}

// Quote prints the output of a command below the command.
func (s *screen) Quote(command, output string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
	if s.last != plain {
		fmt.Fprintln(s.out)
	}
	fmt.Fprintf(s.out, "%s\n%s\n", s.paint(bold, "$ "+command), strings.TrimRight(output, "\n"))
	s.last = quote
}

// Plain prints text as it is, between empty lines.
func (s *screen) Plain(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
	fmt.Fprintf(s.out, "\n%s\n\n", text)
	s.last = plain
}

func (s *screen) indented(text string) {
	for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(s.out, "%s%s\n", margin, l)
	}
}

// Stream prints a piece of text behind the one before it, wrapped between words.
func (s *screen) Stream(piece string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range piece {
		switch {
		case r == '\n':
			s.flush()
			s.newLine()
		case r == ' ':
			s.flush()
			s.word.WriteByte(' ')
		case unicode.IsGraphic(r): // what moves the cursor or turns the text around is left out
			s.word.WriteRune(r)
		}
	}
}

// Pause ends the open line of streamed text, if there is one.
func (s *screen) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
}

// flush prints the word that has been gathered, on a new line if it does not fit.
func (s *screen) flush() {
	word := s.word.String()
	s.word.Reset()
	if strings.TrimSpace(word) == "" {
		return
	}
	if s.column > 0 && s.column+len(word) > textWidth {
		s.newLine()
	}
	if s.column <= 0 {
		word = strings.TrimLeft(word, " ")
		fmt.Fprint(s.out, margin+"| ")
		s.column = 0
	}
	fmt.Fprint(s.out, word)
	s.column += len(word)
}

func (s *screen) newLine() {
	if s.column < 0 {
		fmt.Fprint(s.out, margin+"|")
	}
	fmt.Fprintln(s.out)
	s.column = -1
}

func (s *screen) close() {
	s.flush()
	if s.column >= 0 {
		s.newLine()
	}
}

func (s *screen) paint(colour, text string) string {
	if !s.colours {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// progress prints each line that is written to it as news of a subject, until it is muted.
type progress struct {
	screen  *screen
	subject string
	muted   atomic.Bool
	partial []byte
}

func (p *progress) Write(b []byte) (int, error) {
	p.partial = append(p.partial, b...)
	for {
		line, rest, whole := bytes.Cut(p.partial, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		p.partial = rest
		if !p.muted.Load() {
			p.screen.Say(p.subject, string(line))
		}
	}
}
