// Package schema checks values against the JSON Schemas of strangers: of tool servers and of whoever wrote a definition. It
// is pure. A schema can make nothing be read and nothing be dialled, and neither compiling it nor checking a value by it
// takes longer than a moment, whatever it says:
//
//	bytes, nesting, nodes ─► compile without a loader ─► in-place branches, loops ─► weigh the value ─► validate
//
// Formats are annotations. Patterns that RE2 does not know are not checked; Notes tells which.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// here is where a schema is said to be, so that references which name no place stay inside it. Nothing is ever loaded from there.
const here = "https://schema.invalid/tool"

const (
	// maxNodes is the most values a schema may be made of: compiling takes the square of it.
	maxNodes = 8192
	// maxNumber is the most characters of a number, maxExponent its largest exponent. Numbers are compared exactly, and 1e999999
	// would be written out for that.
	maxNumber, maxExponent = 128, 400
	// maxProblem is the most bytes of what Validate says.
	maxProblem = 640
)

// Schema is a compiled JSON Schema. It is for concurrent use.
type Schema struct {
	root  *jsonschema.Schema
	notes []string
}

// CheckSchema reports why raw cannot be the schema of a tool's arguments, in a sentence that names the place and the cure.
func CheckSchema(raw json.RawMessage) error {
	if _, err := Compile(raw); err != nil {
		return err
	}
	var root struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(raw, &root); err != nil || root.Type != "object" {
		return errors.New(`type must be "object": arguments are named`)
	}
	return nil
}

// Compile compiles a schema of any draft from 4 to 2020-12, the last if it does not say which.
func Compile(raw json.RawMessage) (s *Schema, err error) {
	doc, err := decode(raw)
	if err != nil {
		return nil, err
	}
	// Nobody has shown that the library survives every schema. One that it does not survive is refused like any other bad one.
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, errors.New("the schema cannot be compiled")
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(here, doc); err != nil {
		return nil, refusal(err)
	}
	root, err := c.Compile(here)
	if err != nil {
		return nil, refusal(err)
	}
	notes, err := tame(root)
	if err != nil {
		return nil, err
	}
	return &Schema{root: root, notes: notes}, nil
}

// Notes say what of the schema is not checked, in sentences for whoever wrote it.
func (s *Schema) Notes() []string { return slices.Clone(s.notes) }

// Validate checks a decoded JSON value; its numbers are best json.Number, which is compared exactly. The error tells a model
// in a few words which field is wrong and how, without the end of a sentence.
func (s *Schema) Validate(value any) (err error) {
	v, err := plant(value, nil)
	if err != nil {
		return err
	}
	if !affordable(s.root, v) {
		return errors.New("the value is too large or too deeply nested to be checked")
	}
	defer func() { // as in Compile
		if r := recover(); r != nil {
			err = errors.New("the value cannot be checked")
		}
	}()
	var invalid *jsonschema.ValidationError
	switch err := s.root.Validate(value); {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return errors.New(contract.Clip(explain(invalid), maxProblem))
	default:
		return errors.New("the value cannot be checked")
	}
}

// decode reads a schema and keeps out what would make the compiler work long.
func decode(raw json.RawMessage) (any, error) {
	if len(raw) > contract.MaxContract {
		return nil, fmt.Errorf("the schema has %d bytes: it may have %d", len(raw), contract.MaxContract)
	}
	body, err := contract.Canonical(raw)
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be read: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("the schema cannot be read: %w", err)
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, errors.New("the schema must be an object")
	}
	v, err := plant(doc, nil)
	if err != nil {
		return nil, fmt.Errorf("in the schema, %w", err)
	}
	if v.size > maxNodes {
		return nil, fmt.Errorf("the schema is made of %d values: it may be made of %d", v.size, maxNodes)
	}
	return doc, nil
}

// nowhere is a loader that loads nothing.
type nowhere struct{}

var errOutside = errors.New("references may only point into the schema itself")

func (nowhere) Load(string) (any, error) { return nil, errOutside }

// refusal is an error of the compiler in one line.
func refusal(err error) error {
	var outside *jsonschema.LoadURLError
	if errors.As(err, &outside) {
		return fmt.Errorf("%q is not in the schema: %w", contract.Clip(outside.URL, 128), errOutside)
	}
	var invalid *jsonschema.SchemaValidationError
	var where *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &where) {
		return errors.New("it is no JSON Schema: " + contract.Clip(explain(where), maxProblem))
	}
	text := strings.ReplaceAll(err.Error(), here, "")
	return errors.New("it cannot be compiled: " + contract.Clip(strings.Join(strings.Fields(text), " "), maxProblem))
}

// value is a JSON value that can be told from an equal one by its address, and knows its size.
type value struct {
	fields map[string]*value
	items  []*value
	text   string
	// size is the number of values in it, itself counted.
	size int
}

// plant makes a tree of a decoded value. The error names a number that is out of range.
func plant(v any, at []string) (*value, error) {
	out := &value{size: 1}
	switch v := v.(type) {
	case map[string]any:
		out.fields = make(map[string]*value, len(v))
		for name, of := range v {
			field, err := plant(of, append(at, name))
			if err != nil {
				return nil, err
			}
			out.fields[name] = field
			out.size += field.size
		}
	case []any:
		out.items = make([]*value, 0, len(v))
		for i, of := range v {
			item, err := plant(of, append(at, strconv.Itoa(i)))
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, item)
			out.size += item.size
		}
	case json.Number:
		if !inRange(string(v)) {
			return nil, fmt.Errorf("%s is a number out of range", field(at))
		}
	case string:
		out.text = v
	}
	return out, nil
}

// inRange tells numbers that can be compared exactly without ado.
func inRange(n string) bool {
	if len(n) > maxNumber {
		return false
	}
	at := strings.IndexAny(n, "eE")
	if at < 0 {
		return true
	}
	e, err := strconv.Atoi(strings.TrimPrefix(n[at+1:], "+"))
	return err == nil && -maxExponent <= e && e <= maxExponent
}
