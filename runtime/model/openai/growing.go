package openai

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// growing is a text that comes as pieces of JSON strings. A piece may end within a character: between the bytes of
// its UTF-8, or between the two escapes of a surrogate pair. What is not whole yet is held until the rest has come.
type growing struct {
	text strings.Builder
	held []byte // the end of the last piece, still in JSON's escapes
}

// add takes a piece, a JSON string with its quotes, and returns the text that became whole.
func (g *growing) add(piece json.RawMessage) string {
	inner := append(g.held, piece[1:len(piece)-1]...)
	cut := len(inner) - unfinished(inner)
	g.held = append([]byte(nil), inner[cut:]...)
	return g.put(inner[:cut])
}

// end takes what is held as it is: the rest will not come any more.
func (g *growing) end() string {
	held := g.held
	g.held = nil
	return g.put(held)
}

func (g *growing) put(inner []byte) string {
	var s string
	// What was valid within a larger string is valid by itself. Invalid UTF-8 and single surrogates become U+FFFD.
	_ = json.Unmarshal([]byte(`"`+string(inner)+`"`), &s)
	s = contract.Clean(s)
	g.text.WriteString(s)
	return s
}

func (g *growing) String() string { return g.text.String() }

// unfinished is how many bytes at the end of a JSON string's inside wait for others.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if at := b[len(b)-n:]; utf8.RuneStart(at[0]) {
			if !utf8.FullRune(at) {
				return n
			}
			break
		}
	}
	// The first half of a pair is \ud800 to \udbff.
	const escape = len(`\ud83d`)
	if len(b) < escape {
		return 0
	}
	at := b[len(b)-escape:]
	if at[0] != '\\' || at[1] != 'u' || at[2]|0x20 != 'd' || !strings.ContainsRune("89abAB", rune(at[3])) {
		return 0
	}
	slashes := 0
	for i := len(b) - escape - 1; i >= 0 && b[i] == '\\'; i-- {
		slashes++
	}
	if slashes%2 == 1 {
		return 0 // The backslash is itself escaped.
	}
	return escape
}
