package terminal_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/ekiden-dev/ekiden/cli/terminal"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ given, want string }{
		"plain words stay":       {"Grüße, 世界 👩‍💻\n\tindented", "Grüße, 世界 👩‍💻\n\tindented"},
		"colours go":             {"\x1b[1;31mred\x1b[0m", "red"},
		"moves of the cursor go": {"a\x1b[2J\x1b[Hb\x1b[?25lc", "abc"},
		"a link keeps its words and loses its target": {"\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"},
		"a title ended by a bell goes":                {"\x1b]0;owned\ahello", "hello"},
		"the clipboard is not written":                {"\x1b]52;c;cm0gLXJm\ahello", "hello"},
		"device strings go":                           {"\x1bP$q\x1b\\a\x1b_x\x1b\\b", "ab"},
		"8-bit controls go too":                       {"\u009b31mred\u009d0;t\u009c.", "red."},
		"a raw 8-bit byte is no UTF-8 and no control": {"\x9b31mred", "\uFFFD31mred"},
		"a string without an end hides nothing":       {"\x1b]0;all that\nfollows", "0;all that\nfollows"},
		"a broken sequence loses its opener":          {"\x1b[31", "31"},
		"what is left never makes a new sequence":     {"\x1b\x1b[31m[31mx", "[31mx"},
		"a return cannot write over a line":           {"safe\rEVIL\r\nnext", "safe\nEVIL\nnext"},
		"backspaces and nulls go":                     {"abc\b\b\b\x00d", "abcd"},
		"the direction of text does not change":       {"user\u202egnp.exe\u2066\u200f", "usergnp.exe"},
		"a two-character escape goes with its second": {"\x1bcreset \x1b(Bset", "reset set"},
		"an escape at the end goes":                   {"x\x1b", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := terminal.Clean(tc.given); got != tc.want {
				t.Errorf("Clean(%q) = %q, want %q", tc.given, got, tc.want)
			}
		})
	}
}

// TestNothingGetsThrough is a law: whatever comes in, no control and no bidirectional control comes out, and cleaning
// again changes nothing.
func TestNothingGetsThrough(t *testing.T) {
	t.Parallel()
	alphabet := []string{"\x1b", "[", "]", "P", "\\", "\a", "\u009b", "\u009d", "\u009c", "8;;", "31m", "x", "\n", "\r", "\x9b", "\u202e", "(", " ", "é"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		got := terminal.Clean(b.String())
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
				t.Fatalf("Clean(%q) = %q, which holds %U", b.String(), got, r)
			}
		}
		if again := terminal.Clean(got); again != got {
			t.Fatalf("Clean(%q) = %q, and again %q", b.String(), got, again)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	if got, want := terminal.Line(" a\r\n b\x1b[0m\tc "), "a b c"; got != want {
		t.Errorf("Line = %q, want %q", got, want)
	}
}
