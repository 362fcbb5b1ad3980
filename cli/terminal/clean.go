// Package terminal makes text that others wrote safe to show on a terminal. What a model, a provider or a stored object
// says may hold sequences that move the cursor, hide words, set links or change the order of reading.
package terminal

import (
	"strings"
	"unicode/utf8"
)

const (
	escape = '\x1b'
	bell   = '\a'
	// The 8-bit forms of ESC [, ESC P, ESC X, ESC ], ESC ^, ESC _ and ESC \.
	csi, dcs, sos, osc, pm, apc, st = '\u009b', '\u0090', '\u0098', '\u009d', '\u009e', '\u009f', '\u009c'
)

// Clean is s without control sequences, control characters but tab and newline, and characters that change the
// direction of text. A return becomes a newline: on a terminal it would write over the line. Words stay.
func Clean(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch rest := s[size:]; {
		case r == escape:
			s = afterEscape(rest)
		case r == csi:
			s = afterCSI(rest)
		case stringOpener(r):
			s = afterString(rest)
		case r == '\r':
			b.WriteByte('\n')
			s = strings.TrimPrefix(rest, "\n")
		case dropped(r):
			s = rest
		default:
			b.WriteRune(r) // an invalid byte becomes U+FFFD
			s = rest
		}
	}
	return b.String()
}

// Line is Clean in one line.
func Line(s string) string {
	return strings.Join(strings.Fields(Clean(s)), " ")
}

func dropped(r rune) bool {
	switch {
	case r == '\t', r == '\n':
		return false
	case r < ' ', r >= '\x7f' && r <= '\u009f':
		return true
	case r == '\u061c', r == '\u200e', r == '\u200f', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
		return true
	default:
		return false
	}
}

// afterEscape skips the sequence that an escape begins.
func afterEscape(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == '[':
		return afterCSI(s[size:])
	case strings.ContainsRune("]PX^_", r):
		return afterString(s[size:])
	}
	rest := strings.TrimLeft(s, between(' ', '/'))
	if rest != "" && rest[0] >= '0' && rest[0] <= '~' {
		return rest[1:]
	}
	return s
}

// afterCSI skips parameters, intermediates and the final byte; of a sequence that breaks off nothing but its opener.
func afterCSI(s string) string {
	rest := strings.TrimLeft(strings.TrimLeft(s, between('0', '?')), between(' ', '/'))
	if rest != "" && rest[0] >= '@' && rest[0] <= '~' {
		return rest[1:]
	}
	return s
}

func stringOpener(r rune) bool {
	switch r {
	case dcs, sos, osc, pm, apc:
		return true
	default:
		return false
	}
}

// afterString skips a title, a link or another string for the terminal, up to its terminator. One that does not end on
// its line is not taken for a string: it would hide all that follows.
func afterString(s string) string {
	for i, r := range s {
		switch {
		case r == '\n':
			return s
		case r == bell, r == st:
			return s[i+utf8.RuneLen(r):]
		case r == escape && strings.HasPrefix(s[i+1:], `\`):
			return s[i+2:]
		}
	}
	return s
}

// between is all bytes from first to last, as a set.
func between(first, last byte) string {
	var b []byte
	for c := first; c <= last; c++ {
		b = append(b, c)
	}
	return string(b)
}
