package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/runtime/schema"
)

func decoded(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func compiled(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestWhatAModelIsTold(t *testing.T) {
	t.Parallel()
	const form = `{"oneOf": [
		{"properties": {"kind": {"const": "card"}, "number": {"type": "string"}}, "required": ["kind", "number"]},
		{"properties": {"kind": {"const": "bank"}, "iban": {"type": "string"}}, "required": ["kind", "iban"]}]}`
	tests := map[string]struct{ schema, value, want string }{
		"a value that fits":                        {`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":1.0}`, ``},
		"a field of the wrong type":                {`{"properties":{"amount":{"type":"integer"}}}`, `{"amount":"12"}`, `the field "amount" is a string and must be an integer`},
		"null where there must be something":       {`{"properties":{"a":{"type":"object"}}}`, `{"a":null}`, `the field "a" is null and must be an object`},
		"one of several types":                     {`{"properties":{"a":{"type":["string","null"]}}}`, `{"a":1}`, `the field "a" is a number and must be null or a string`},
		"a fraction where a whole number must be":  {`{"properties":{"a":{"type":"integer"}}}`, `{"a":1.5}`, `the field "a" is a number and must be an integer`},
		"missing fields, sorted":                   {`{"required":["b","a"]}`, `{}`, `the field "a" is missing; the field "b" is missing`},
		"a missing field deep inside":              {`{"properties":{"c":{"items":{"required":["id"]}}}}`, `{"c":[{"id":1},{}]}`, `the field "c[1].id" is missing`},
		"a field that nobody declared":             {`{"properties":{"a":{}},"additionalProperties":false}`, `{"a":1,"b":2}`, `the field "b" is not allowed`},
		"a field that the rest does not evaluate":  {`{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`, `{"a":1,"b":2}`, `the field "b" is not allowed`},
		"not one of a few values":                  {`{"properties":{"a":{"enum":["x","y",3]}}}`, `{"a":"z"}`, `the field "a" must be one of "x", "y", 3`},
		"not one of many values":                   {`{"properties":{"a":{"enum":[1,2,3,4,5,6,7,8,9]}}}`, `{"a":10}`, `the field "a" must be one of 9 values, and is another`},
		"not the only value":                       {`{"properties":{"a":{"const":"x"}}}`, `{"a":"z"}`, `the field "a" must be "x"`},
		"too small and too large":                  {`{"properties":{"a":{"minimum":0.10},"b":{"exclusiveMaximum":5}}}`, `{"a":0.099,"b":5}`, `the field "a" must be at least 0.1; the field "b" must be less than 5`},
		"beyond a bound that a double cannot hold": {`{"properties":{"a":{"maximum":9007199254740992}}}`, `{"a":9007199254740993}`, `the field "a" must be at most 9007199254740992`},
		"no multiple":                              {`{"properties":{"a":{"multipleOf":0.01}}}`, `{"a":0.015}`, `the field "a" must be a multiple of 0.01`},
		"too short":                                {`{"properties":{"a":{"minLength":3}}}`, `{"a":"日本"}`, `the field "a" has 2 characters and must have at least 3`},
		"the wrong pattern":                        {`{"properties":{"a":{"pattern":"^[a-z]+$"}}}`, `{"a":"A"}`, `the field "a" must match the pattern "^[a-z]+$"`},
		"too many items":                           {`{"properties":{"a":{"maxItems":1}}}`, `{"a":[1,2]}`, `the field "a" has 2 items and may have at most 1`},
		"the same item twice":                      {`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[1,2,1.0]}`, `the field "a" holds the same item twice, at 0 and 2`},
		"no item of the kind":                      {`{"properties":{"a":{"contains":{"const":1}}}}`, `{"a":[2]}`, `the field "a" holds too few items of the kind that is wanted`},
		"a field that wants another":               {`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `the value has "a" and so must have "b"`},
		"a name that is not allowed":               {`{"propertyNames":{"pattern":"^[a-z]$"}}`, `{"A\n":1}`, `the field name "A\n" is not allowed`},
		"a form that is not allowed":               {`{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"x"}`, `the field "a" has a form that is not allowed`},
		"an optional field as generators write it": {`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":1}`, `the field "a" is a number and must be null or a string`},
		"the alternative that was meant":           {form, `{"kind":"bank","iban":5}`, `the field "iban" is a number and must be a string`},
		"no alternative":                           {form, `{"kind":"cash"}`, `the value fits none of the 2 forms that are allowed`},
		"two alternatives where one must be":       {`{"properties":{"a":{"oneOf":[{"type":"number"},{"type":"integer"}]}}}`, `{"a":1}`, `the field "a" fits more than one of the forms of which it must fit one`},
		"by way of a reference":                    {`{"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"number"}}}`, `{"a":"1"}`, `the field "a" is a string and must be a number`},
		"more than three things":                   {`{"required":["a","b","c","d","e"]}`, `{}`, `the field "a" is missing; the field "b" is missing; the field "c" is missing; and more`},
		"names that would break a line":            {`{"properties":{"a\nb":{"type":"string"}}}`, `{"a\nb":1}`, `the field "a\nb" is a number and must be a string`},
		"a number that nobody can compare":         {`{"properties":{"a":{"minimum":1}}}`, `{"a":[0,1e999999999]}`, `the field "a[1]" is a number out of range`},
		"a number of a thousand digits":            {`{}`, `{"a":` + strings.Repeat("9", 1000) + `}`, `the field "a" is a number out of range`},
		"a schema that allows nothing":             {`false`, `{}`, `the value is not allowed`},
		"formats are notes, in old drafts too":     {`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"email"}}}`, `{"a":"x"}`, ``},
		"the words of draft 4":                     {`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`, `{"a":1}`, `the field "a" must be more than 1`},
		"the items of draft 7":                     {`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, `["a",1]`, `the value has 1 items too many`},
		"a tree that refers to itself":             {`{"$ref":"#/$defs/n","$defs":{"n":{"properties":{"c":{"items":{"$ref":"#/$defs/n"}},"v":{"type":"integer"}}}}}`, `{"c":[{"c":[{"v":"x"}]}]}`, `the field "c[0].c[0].v" is a string and must be an integer`},
		"a pattern with look-ahead is not checked": {`{"properties":{"a":{"pattern":"^(?=x).*$"}}}`, `{"a":"y"}`, ``},
		"nor are fields named by one refused":      {`{"patternProperties":{"^(?!x)":{"type":"string"}},"additionalProperties":false}`, `{"y":1}`, ``},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compiled(t, tc.schema)
			for range 20 { // fields come in no order, what is said does
				if diff := cmp.Diff(tc.want, text(s.Validate(decoded(t, tc.value)))); diff != "" {
					t.Fatal(diff)
				}
			}
		})
	}
}

func TestSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ schema, want string }{
		"a file":                      {`{"$ref":"file:///etc/passwd"}`, `"file:///etc/passwd" is not in the schema: references may only point into the schema itself`},
		"an address":                  {`{"properties":{"a":{"$ref":"http://127.0.0.1/x.json#/a"}}}`, `"http://127.0.0.1/x.json" is not in the schema: references may only point into the schema itself`},
		"a neighbour":                 {`{"$ref":"other.json"}`, `"https://schema.invalid/other.json" is not in the schema: references may only point into the schema itself`},
		"a base elsewhere":            {`{"$id":"file:///etc/","$ref":"passwd"}`, `"file:///etc/passwd" is not in the schema: references may only point into the schema itself`},
		"a language of its own":       {`{"$schema":"http://127.0.0.1/x"}`, `"http://127.0.0.1/x" is not in the schema: references may only point into the schema itself`},
		"the schema of schemas":       {`{"$ref":"http://json-schema.org/draft-07/schema#"}`, `"http://json-schema.org/draft-07/schema#" is not in the schema: references may only point into the schema itself`},
		"a reference to nothing":      {`{"$ref":"#/$defs/a"}`, `it cannot be compiled: json-pointer in "#/$defs/a" not found`},
		"a loop":                      {`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}`, `#/$defs/a refers to itself for the same value: a reference must lead into a part of the value`},
		"a reference found on the go": {`{"$dynamicAnchor":"a","properties":{"b":{"$dynamicRef":"#a"}}}`, `#/properties/b: $dynamicRef and $recursiveRef are not supported: use $ref`},
		"a type that there is not":    {`{"properties":{"a":{"type":"strng"}}}`, `it is no JSON Schema: the field "properties.a.type" fits none of the 2 forms that are allowed`},
		"no JSON":                     {`{"type":`, `the schema cannot be read: not a usable JSON value: EOF`},
		"a key twice":                 {`{"type":"object","type":"array"}`, `the schema cannot be read: not a usable JSON value: the key "type" stands twice in one object`},
		"a text":                      {`"object"`, `the schema must be an object`},
		"a bound that is out of hand": {`{"properties":{"a":{"maximum":1e999999}}}`, `in the schema, the field "properties.a.maximum" is a number out of range`},
		"too many bytes":              {`{"description":"` + strings.Repeat("x", 64<<10) + `"}`, `the schema has 65554 bytes: it may have 65536`},
		"too many values":             {`{"enum":[` + strings.Repeat("1,", 9000) + `2]}`, `the schema is made of 9003 values: it may be made of 8192`},
		"too deep":                    {strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70), `the schema cannot be read: not a usable JSON value: it is nested deeper than 64`},
		"a bomb":                      {bomb(25, "anyOf"), `#/$defs/l14 branches too much: its $ref, allOf, anyOf and oneOf apply more than 4096 schemas to one value, or stand more than 128 deep in one another`},
		"a chain":                     {chain(200), `branches too much`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := schema.Compile(json.RawMessage(tc.schema))
			if got := text(err); got != tc.want && (tc.want == "" || !strings.HasSuffix(got, tc.want) && !strings.Contains(got, tc.want)) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// bomb doubles at each of its levels, all of them applied to one value.
func bomb(levels int, keyword string) string {
	var b strings.Builder
	for i := range levels {
		fmt.Fprintf(&b, `"l%d":{%q:[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, keyword, i+1, i+1)
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/l0","$defs":{%s"l%d":{"type":"string"}}}`, b.String(), levels)
}

func chain(links int) string {
	var b strings.Builder
	for i := range links {
		fmt.Fprintf(&b, `"l%d":{"$ref":"#/$defs/l%d"},`, i, i+1)
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/l0","$defs":{%s"l%d":{}}}`, b.String(), links)
}

// TestAValueThatSetsABombOff has schemas that are small in place and double with each level of the value.
func TestAValueThatSetsABombOff(t *testing.T) {
	t.Parallel()
	const doubling = `{"$ref":"#/$defs/n","$defs":{"n":{"%s":[
		{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["x"]},
		{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["y"]}]}}}`
	nested := func(n int) string { return strings.Repeat(`{"c":`, n) + `{}` + strings.Repeat(`}`, n) }
	wide := `{"a":["` + strings.Repeat(strings.Repeat("x", 40)+`","`, 5000) + `"]}`
	tests := map[string]struct{ schema, value, want string }{
		"anyOf, deep":         {fmt.Sprintf(doubling, "anyOf"), nested(60), "the value is too large or too deeply nested to be checked"},
		"oneOf, deep":         {fmt.Sprintf(doubling, "oneOf"), nested(60), "the value is too large or too deeply nested to be checked"},
		"allOf, at the limit": {fmt.Sprintf(doubling, "allOf"), nested(13), "the field \"c.c"},
		"a pattern that is much work": {
			`{"properties":{"a":{"items":{"pattern":"^(a{0,30}x{0,30}){30}$"}}}}`, wide, "the value is too large or too deeply nested to be checked",
		},
		"many choices, many items": {
			`{"properties":{"a":{"items":{"enum":[` + strings.Repeat("1,", 5000) + `2]}}}}`, wide, "the value is too large or too deeply nested to be checked",
		},
		"items that must differ": {`{"properties":{"a":{"uniqueItems":true}}}`, wide, `the field "a" holds the same item twice, at 0 and 1`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, v := compiled(t, tc.schema), decoded(t, tc.value)
			if got := text(s.Validate(v)); !strings.HasPrefix(got, tc.want) || len(got) > 1<<10 {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	s := compiled(t, `{"properties":{"b":{"pattern":"(?=x)y"},"a":{"pattern":"a{1000}b{1000}c{1000}d{1000}e{1000}"},"pattern":{"const":"(?=x)"},"c":{"patternProperties":{"(?<!x)":{}}}}}`)
	want := []string{
		`#/properties/a: the pattern "a{1000}b{1000}c{1000}d{1000}e{1000}" is not checked: it is too large`,
		`#/properties/b: the pattern "(?=x)y" is not checked: RE2 does not know it`,
		`#/properties/c: the pattern "(?<!x)" is not checked: RE2 does not know it`,
	}
	if diff := cmp.Diff(want, s.Notes()); diff != "" {
		t.Error(diff)
	}
}

func TestCheckSchema(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"type":"object"}`:              ``,
		`{"properties":{}}`:              `type must be "object": arguments are named`,
		`true`:                           `type must be "object": arguments are named`,
		`{"type":["object","null"]}`:     `type must be "object": arguments are named`,
		`{"type":"object","required":1}`: `it is no JSON Schema: the field "required" is a number and must be an array`,
	} {
		if diff := cmp.Diff(want, text(schema.CheckSchema(json.RawMessage(raw)))); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
	}
}

// FuzzSchema compiles anything and checks anything by it: neither panics, neither takes long, and what is said is short.
func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"anyOf":[{"pattern":"x"},{"enum":[1,{"b":2}]}]}}}`, `{"a":"x","b":[1,2,{}]}`)
	f.Add(`{"$ref":"#/$defs/n","$defs":{"n":{"properties":{"c":{"$ref":"#/$defs/n"}},"unevaluatedProperties":false}}}`, `{"c":{"c":{"d":1e5}}}`)
	f.Add(bomb(5, "oneOf"), `"x"`)
	f.Add(`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","dependencies":{"a":["b"],"c":{"not":{}}}}`, `{"a":1,"c":null}`)
	f.Add(`{"if":{"const":1},"then":{"multipleOf":0.1},"else":{"contains":{"$anchor":"z","propertyNames":{"maxLength":1}}}}`, `[{"aa":1}]`)
	f.Fuzz(func(t *testing.T, raw, given string) {
		s, err := schema.Compile(json.RawMessage(raw))
		if err != nil {
			if len(err.Error()) > 1<<10 || strings.Contains(err.Error(), "\n") {
				t.Errorf("said at length: %q", err)
			}
			return
		}
		d := json.NewDecoder(strings.NewReader(given))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return
		}
		first := text(s.Validate(v))
		if again := text(s.Validate(v)); again != first || len(first) > 1<<10 {
			t.Errorf("%q, then %q", first, again)
		}
	})
}
