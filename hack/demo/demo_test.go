package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

func TestTheScriptIsOneAndItsBreakIsMadeGood(t *testing.T) {
	t.Parallel()
	p := place{repo: filepath.Join("..", "..")}
	b, err := os.ReadFile(scriptFile(p))
	if err != nil {
		t.Fatal(err)
	}
	script, err := modelserver.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	steps := script.Rules[0].Steps
	for i, step := range steps {
		last := i == len(steps)-1
		if step.Break != nil && (last || !strings.HasPrefix(steps[i+1].Text, step.Text)) {
			t.Errorf("step %d breaks off and the next one does not say the same again", i)
		}
		if (step.Finish == "") != last {
			t.Errorf("step %d finishes with %q", i, step.Finish)
		}
	}
	read, err := readScript(p)
	if err != nil {
		t.Fatal(err)
	}
	answer := read.answer("reply")
	if !strings.HasPrefix(answer, "Dear ") || !strings.HasSuffix(answer, "Your support team") || strings.Count(answer, "same card") != 1 {
		t.Errorf("the script adds up to %q", answer)
	}
	arguments := read.arguments("refund", "crm__refund")
	if canonical, err := contract.Canonical([]byte(arguments)); err != nil || string(canonical) != arguments {
		t.Errorf("the arguments %s are not as people see them: %s, %v", arguments, canonical, err)
	}
	if answer := read.answer("refund"); !strings.HasPrefix(answer, "Dear ") {
		t.Errorf("the refund ends with %q", answer)
	}
}

func TestAStreamIsWrappedBetweenWordsAndCannotMoveTheCursor(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", textWidth-6)
	cases := map[string]struct {
		given []string
		want  string
	}{
		"a word in two pieces":     {given: []string{"re", "ady. "}, want: "| ready."},
		"words that fit":           {given: []string{"a b\nc"}, want: "| a b\n| c"},
		"a word that does not fit": {given: []string{long + " does not"}, want: "| " + long + " does\n| not"},
		"an empty line":            {given: []string{"a\n\nb"}, want: "| a\n|\n| b"},
		"sequences that steer":     {given: []string{"a\x1b[2Jb\u202e \a\r"}, want: "| a[2Jb"},
		"nothing":                  {given: nil, want: ""},
		"nothing but a space":      {given: []string{" "}, want: ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			s := &screen{out: &out, column: -1}
			for _, piece := range c.given {
				s.Stream(piece)
			}
			s.Pause()
			got := strings.TrimSuffix(strings.ReplaceAll(out.String(), margin, ""), "\n")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACommandIsShownAsOneTypesIt(t *testing.T) {
	t.Parallel()
	got := typed([]string{"patch", "areq", "a", "-o", "jsonpath={.spec}", "--field-selector", "status.phase!=Succeeded", "-p", `{"a":1}`})
	if want := `kubectl patch areq a -o jsonpath='{.spec}' --field-selector 'status.phase!=Succeeded' -p '{"a":1}'`; got != want {
		t.Errorf("shown as %s", got)
	}
}
