package request

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

func TestWhatCannotBeSeenIsShown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ given, want string }{
		"plain":                     {`{"amount":"120","name":"Zoë 世界 👋 Ш ع"}`, `{"amount":"120","name":"Zoë 世界 👋 Ш ع"}`},
		"what is escaped already":   {`{"a":"\u001b[2J\\\n"}`, `{"a":"\u001b[2J\\\n"}`},
		"order of reading":          {"{\"id\":\"\u202e1174\u202c\u2066\"}", `{"id":"\u202e1174\u202c\u2066"}`},
		"controls of a terminal":    {"{\"id\":\"\u009b31m\u007f\u0085\"}", `{"id":"\u009b31m\u007f\u0085"}`},
		"no width":                  {"{\"id\":\"4\u200b7\u2060\ufeff\u00ad\"}", `{"id":"4\u200b7\u2060\ufeff\u00ad"}`},
		"spaces that are none":      {"{\"id\":\"4\u00a07\u2003\u3000\u2028\"}", `{"id":"4\u00a07\u2003\u3000\u2028"}`},
		"letters that are blank":    {"{\"id\":\"4\u3164\u2800\"}", `{"id":"4\u3164\u2800"}`},
		"tags beyond the first 64k": {"{\"id\":\"\U000e0041\U000e0100\"}", `{"id":"\udb40\udc41\udb40\udd00"}`},
		"nothing":                   {"", ""},
	} {
		got := shown(tc.given)
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
		if tc.given == "" {
			continue
		}
		var before, after any
		if json.Unmarshal([]byte(tc.given), &before) != nil || json.Unmarshal([]byte(got), &after) != nil {
			t.Fatalf("%s is no JSON", got)
		}
		was, err := contract.Canonical([]byte(tc.given))
		is, err2 := contract.Canonical([]byte(got))
		if err != nil || err2 != nil || string(was) != string(is) {
			t.Errorf("%s: a parser reads %s, and %s before", name, is, was)
		}
	}
}

func TestWhatIsShownFits(t *testing.T) {
	t.Parallel()
	for _, worst := range []string{"\x7f", "\u009b", "\u200b", "\U000e0041"} {
		all := strings.Repeat(worst, contract.MaxShownArguments/len(worst))
		if n := utf8.RuneCountInString(shown(all)); n > 49152 {
			t.Errorf("%q becomes %d characters", worst, n)
		}
	}
}
