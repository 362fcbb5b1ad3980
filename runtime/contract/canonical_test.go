package contract_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ given, want string }{
		"keys are sorted at each level":       {`{"b":{"d":1,"c":2},"a":[{"f":1,"e":2}]}`, `{"a":[{"e":2,"f":1}],"b":{"c":2,"d":1}}`},
		"spaces go":                           {" {\n\t\"a\" : [ 1 , 2 ] }\r\n", `{"a":[1,2]}`},
		"numbers stay as they are written":    {`[1.0,1e2,-0,9007199254740993,0.1000]`, `[1.0,1e2,-0,9007199254740993,0.1000]`},
		"nothing is escaped that need not be": {`"\u003ca\u003e \u0026 \/ \u00e9"`, `"<a> & / é"`},
		"what must be escaped is":             {`"\u0000\u001f\"\\"`, `"\u0000\u001f\"\\"`},
		"half a surrogate is replaced":        {`"\ud800"`, "\"\uFFFD\""},
		"empty values":                        {`{"a":{},"b":[],"c":"","d":null}`, `{"a":{},"b":[],"c":"","d":null}`},
		"a text":                              {`"x"`, `"x"`},
		"null":                                {`null`, `null`},
		"64 levels":                           {strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 64) + strings.Repeat("]", 64)},
		"keys that differ in their case":      {`{"a":1,"A":2}`, `{"A":2,"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := contract.Canonical([]byte(tc.given))
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v; want %s", got, err, tc.want)
			}
		})
	}
}

func TestWhatIsNotCanonical(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]string{
		"nothing":                             ``,
		"a space":                             ` `,
		"a beginning":                         `{"a":1`,
		"half a text":                         `{"a":"b`,
		"half a literal":                      `tru`,
		"two values":                          `{} {}`,
		"a value and more":                    `{}x`,
		"a comma too many":                    `{"a":1,}`,
		"a comma too many in a list":          `[1,]`,
		"a comma missing":                     `[1 2]`,
		"the wrong bracket":                   `[1}`,
		"a bracket too many":                  `]`,
		"a key without quotes":                `{a:1}`,
		"a number with a zero before it":      `01`,
		"no number":                           `NaN`,
		"a key twice":                         `{"a":1,"b":{},"a":2}`,
		"a key twice, escaped":                `{"a":1,"\u0061":2}`,
		"a key twice, once it can be read":    "{\"\xff\":1,\"\xfe\":2}",
		"a key twice, deep inside":            `[{"x":[{"a":1,"a":1}]}]`,
		"66 levels":                           strings.Repeat("[", 66) + strings.Repeat("]", 66),
		"more levels than a stack may have":   strings.Repeat(`{"a":`, 1<<20),
		"a text with a line break in the raw": "\"a\nb\"",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := contract.Canonical([]byte(given)); !errors.Is(err, contract.ErrJSON) || len(err.Error()) > 256 {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// FuzzCanonical: what is canonical stays as it is, means what it meant, and only JSON has a canonical form.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[true,null,"\u2028<\ud83d\ude00"]}`, `-1.50e+7`, `{"a":1,"a":2}`, `[1,]`, "\"\xff\"", `{"":{"":[[]]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := contract.Canonical(raw)
		if err != nil {
			if !errors.Is(err, contract.ErrJSON) {
				t.Errorf("not ErrJSON: %v", err)
			}
			return
		}
		if !json.Valid(raw) {
			t.Errorf("%q is not JSON and became %q", raw, once)
		}
		twice, err := contract.Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%q, then %q, %v", once, twice, err)
		}
		var meant, means any
		if json.Unmarshal(raw, &meant) == nil && json.Unmarshal(once, &means) == nil {
			a, _ := json.Marshal(meant)
			b, _ := json.Marshal(means)
			if !bytes.Equal(a, b) {
				t.Errorf("%q means %s and became %s", raw, a, b)
			}
		}
	})
}
