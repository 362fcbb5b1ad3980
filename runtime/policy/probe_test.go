package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/runtime/policy"
)

func TestProbeAsks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		expression string
		want       map[string]any
		problem    string
	}{
		"by the key":                          {`{'key': key}`, map[string]any{"key": "k-1"}, ""},
		"by an argument, whatever it is":      {`{'order': args.order, 'of': args.of}`, map[string]any{"order": int64(9007199254740993), "of": []any{"a", nil, true, 1.5}}, ""},
		"by all arguments":                    {`args`, map[string]any{"order": int64(9007199254740993), "of": []any{"a", nil, true, 1.5}}, ""},
		"with nothing":                        {`{}`, map[string]any{}, ""},
		"by what is not there":                {`{'x': args.missing}`, nil, "its expression arguments fails, as when it looks at something that is not there"},
		"with what is no object":              {`args.order`, nil, "its expression arguments makes no JSON object"},
		"with a field that has no name":       {`{'x': {1: 2}}`, nil, "its expression arguments makes no JSON object"},
		"with a number that JSON cannot hold": {`{'x': 1.0 / 0.0}`, nil, "its expression arguments makes no JSON object"},
		"with a time, which JSON has not":     {`{'x': timestamp('2026-01-01T00:00:00Z')}`, nil, "its expression arguments makes no JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := policy.CompileProbe(tc.expression, "true")
			if err != nil {
				t.Fatal(err)
			}
			args := map[string]any{"order": json.Number("9007199254740993"), "of": []any{"a", nil, true, json.Number("1.5")}}
			got, problem := p.Arguments(args, "k-1")
			if diff := cmp.Diff(tc.want, got); diff != "" || problem != tc.problem {
				t.Errorf("%s\nproblem %q", diff, problem)
			}
		})
	}
}

func TestProbeReads(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		expression, answer string
		want               bool
		problem            string
	}{
		"a field":                               {`answer.found`, `{"found":true}`, true, ""},
		"a field that says no":                  {`answer.found`, `{"found":false}`, false, ""},
		"a list":                                {`size(answer) > 0`, `[1]`, true, ""},
		"a number against another":              {`answer.n == 3`, `{"n":3.0}`, true, ""},
		"words":                                 {`text.contains('paid')`, "it was paid", true, ""},
		"words of an answer that is no JSON":    {`answer == null && text == 'x'`, "x", true, ""},
		"nothing of two answers in a line":      {`answer == null`, `{"found":true} {}`, true, ""},
		"what is not there":                     {`answer.found`, `{}`, false, "its expression happened fails, as when it looks at something that is not there"},
		"an answer that is no JSON as if it is": {`answer.found`, `found`, false, "its expression happened fails, as when it looks at something that is not there"},
		"what is neither":                       {`answer.found`, `{"found":"yes"}`, false, "its expression happened is not true or false on the answer"},
		"more than is looked at": {
			`answer.all(x, answer.all(y, answer.all(z, x == y || y == z || x != z)))`, "[" + strings.Repeat("1,", 200) + "1]", false,
			"its expression happened costs more than 100000 steps",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := policy.CompileProbe("{}", tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			if got, problem := p.Happened(tc.answer); got != tc.want || problem != tc.problem {
				t.Errorf("got %t, %q", got, problem)
			}
		})
	}
}
