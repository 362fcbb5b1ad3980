package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

const (
	// maxBranches is how many schemas may be applied to one and the same value by way of $ref, allOf, anyOf, oneOf, not, if and
	// dependencies, each counted as often as it is applied; maxNesting is how deep they may stand in one another.
	maxBranches, maxNesting = 4096, 128
	// maxWeight is how many steps the check of one value may take. Where each step fails and is remembered, they take most of a second.
	maxWeight = 200_000
	// maxPattern is the most instructions of a pattern.
	maxPattern = 4096
)

// tame makes a compiled schema harmless: formats and unknown patterns are forgotten, and what would loop, branch without end or
// leave the schema is refused.
func tame(root *jsonschema.Schema) (notes []string, err error) {
	all := reachable(root)
	for _, s := range all {
		if !strings.HasPrefix(s.Location, here+"#") {
			return nil, fmt.Errorf("%q is not in the schema: %w", contract.Clip(s.Location, 128), errOutside)
		}
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return nil, fmt.Errorf("%s: $dynamicRef and $recursiveRef are not supported: use $ref", place(s))
		}
		s.Format = nil
		notes = append(notes, forgetPatterns(s)...)
	}
	slices.Sort(notes)
	u := unfolding{known: map[*jsonschema.Schema]extent{}}
	for _, s := range all {
		if _, err := u.of(s); err != nil {
			return nil, err
		}
	}
	return notes, nil
}

// forgetPatterns takes the patterns out of s that are not known, so that nothing is refused because of them.
func forgetPatterns(s *jsonschema.Schema) (notes []string) {
	note := func(p unknown) {
		notes = append(notes, fmt.Sprintf("%s: the pattern %q is not checked: %s", place(s), contract.Clip(p.text, 128), p.why))
	}
	if p, ok := s.Pattern.(unknown); ok {
		s.Pattern = nil
		note(p)
	}
	for re := range s.PatternProperties {
		if p, ok := re.(unknown); ok {
			delete(s.PatternProperties, re)
			s.AdditionalProperties = true // the fields that the pattern was for would be refused as additional ones
			note(p)
		}
	}
	return notes
}

func place(s *jsonschema.Schema) string {
	return contract.Clip(strings.TrimPrefix(s.Location, here), 128)
}

// inPlace are the schemas that s applies to the very value it is applied to, as far as they do not hang on a field.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	out := slices.Concat([]*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf)
	return slices.DeleteFunc(out, func(s *jsonschema.Schema) bool { return s == nil })
}

// dependent are the schemas that s applies to its own value if there is a field of that name.
func dependent(s *jsonschema.Schema, each func(field string, sub *jsonschema.Schema)) {
	for name, sub := range s.DependentSchemas {
		each(name, sub)
	}
	for name, d := range s.Dependencies {
		if sub, ok := d.(*jsonschema.Schema); ok {
			each(name, sub)
		}
	}
}

// below are the schemas that s applies to parts of its value.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	out := []*jsonschema.Schema{s.PropertyNames, s.Contains, s.Items2020, s.UnevaluatedItems, s.UnevaluatedProperties}
	for _, sub := range s.Properties {
		out = append(out, sub)
	}
	for _, sub := range s.PatternProperties {
		out = append(out, sub)
	}
	for _, v := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch v := v.(type) {
		case *jsonschema.Schema:
			out = append(out, v)
		case []*jsonschema.Schema:
			out = append(out, v...)
		}
	}
	out = append(out, s.PrefixItems...)
	return slices.DeleteFunc(out, func(s *jsonschema.Schema) bool { return s == nil })
}

// reachable are all schemas by which root checks anything.
func reachable(root *jsonschema.Schema) []*jsonschema.Schema {
	seen, list := map[*jsonschema.Schema]bool{root: true}, []*jsonschema.Schema{root}
	for i := 0; i < len(list); i++ {
		next := append(inPlace(list[i]), below(list[i])...)
		dependent(list[i], func(_ string, sub *jsonschema.Schema) { next = append(next, sub) })
		for _, s := range next {
			if !seen[s] {
				seen[s] = true
				list = append(list, s)
			}
		}
	}
	return list
}

// extent is how many schemas are applied in place, and how deep they stand in one another. Zero is one that is being measured.
type extent struct{ branches, nesting int }

type unfolding struct {
	known map[*jsonschema.Schema]extent
}

func (u unfolding) of(s *jsonschema.Schema) (extent, error) {
	if e, ok := u.known[s]; ok {
		if e.branches == 0 {
			return e, fmt.Errorf("%s refers to itself for the same value: a reference must lead into a part of the value", place(s))
		}
		return e, nil
	}
	u.known[s] = extent{}
	subs := inPlace(s)
	dependent(s, func(_ string, sub *jsonschema.Schema) { subs = append(subs, sub) })
	e := extent{branches: 1, nesting: 1}
	for _, sub := range subs {
		inner, err := u.of(sub)
		if err != nil {
			return e, err
		}
		e.branches += inner.branches
		e.nesting = max(e.nesting, inner.nesting+1)
	}
	if e.branches > maxBranches || e.nesting > maxNesting {
		return e, fmt.Errorf("%s branches too much: its $ref, allOf, anyOf and oneOf apply more than %d schemas to one value, or stand more than %d deep in one another",
			place(s), maxBranches, maxNesting)
	}
	u.known[s] = e
	return e, nil
}

// weighing counts the steps of a check before it is made. Schemas that branch at each level of a value take exponential time in
// its depth; counting does not, because what one schema makes of one part of the value is counted once.
type weighing struct {
	known map[pair]int
	spent int
}

type pair struct {
	s *jsonschema.Schema
	v *value
}

func affordable(s *jsonschema.Schema, v *value) bool {
	w := &weighing{known: map[pair]int{}}
	return w.of(s, v) <= maxWeight
}

func (w *weighing) of(s *jsonschema.Schema, v *value) int {
	if n, ok := w.known[pair{s, v}]; ok {
		return n
	}
	n := own(s, v)
	w.spent += n
	if w.spent > maxWeight { // what was looked at is only a part of the whole
		return maxWeight + 1
	}
	add := func(s *jsonschema.Schema, v *value) {
		if n <= maxWeight {
			n = min(n+w.of(s, v), maxWeight+1)
		}
	}
	for _, sub := range inPlace(s) {
		add(sub, v)
	}
	dependent(s, func(field string, sub *jsonschema.Schema) {
		if v.fields[field] != nil {
			add(sub, v)
		}
	})
	if v.fields != nil {
		intoFields(s, v, add)
	}
	intoItems(s, v, add)
	w.known[pair{s, v}] = n
	return n
}

func intoFields(s *jsonschema.Schema, v *value, add func(*jsonschema.Schema, *value)) {
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for name, field := range v.fields {
		sub, declared := s.Properties[name]
		if declared {
			add(sub, field)
		}
		for re, sub := range s.PatternProperties {
			if re.MatchString(name) {
				declared = true
				add(sub, field)
			}
		}
		if !declared && additional != nil {
			add(additional, field)
		}
		if s.UnevaluatedProperties != nil {
			add(s.UnevaluatedProperties, field)
		}
		if s.PropertyNames != nil {
			add(s.PropertyNames, &value{text: name, size: 1})
		}
	}
}

func intoItems(s *jsonschema.Schema, v *value, add func(*jsonschema.Schema, *value)) {
	prefix := s.PrefixItems
	rest := s.Items2020
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		rest = items
	case []*jsonschema.Schema:
		prefix = items
		rest, _ = s.AdditionalItems.(*jsonschema.Schema)
	}
	for i, item := range v.items {
		switch {
		case i < len(prefix):
			add(prefix[i], item)
		case rest != nil:
			add(rest, item)
		}
		for _, sub := range []*jsonschema.Schema{s.Contains, s.UnevaluatedItems} {
			if sub != nil {
				add(sub, item)
			}
		}
	}
}

// own is what s does to v itself.
func own(s *jsonschema.Schema, v *value) int {
	n := 1 + len(v.fields) + len(v.items) + len(v.text)/64 + len(s.Required) + len(s.DependentRequired) + len(s.Dependencies)
	if s.Enum != nil {
		n += len(s.Enum.Values)
	}
	if s.UniqueItems {
		n += 20 * v.size // up to 20 items are compared each with each
	}
	if re, ok := s.Pattern.(pattern); ok {
		n += re.steps(v.text)
	}
	for re := range s.PatternProperties {
		for name := range v.fields {
			if re, ok := re.(pattern); ok {
				n += re.steps(name)
			}
		}
	}
	return n
}

// pattern is a regular expression that knows how much work it is.
type pattern struct {
	*regexp.Regexp
	weight int
}

// steps is reckoned in the same coin as the application of a schema, which is much dearer than one instruction.
func (p pattern) steps(text string) int { return 1 + p.weight*(len(text)+1)/16 }

// unknown stands for a pattern that is not checked.
type unknown struct{ text, why string }

func (p unknown) String() string        { return p.text }
func (unknown) MatchString(string) bool { return true }

// compilePattern never fails: look-ahead and the like, which other engines know, must not make a tool unusable.
func compilePattern(text string) (jsonschema.Regexp, error) {
	p, why := engine(text)
	if why != "" {
		return unknown{text, why}, nil
	}
	return p, nil
}

// engine compiles a pattern, or says why it does not.
func engine(text string) (p pattern, why string) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return p, "RE2 does not know it"
	}
	if p.weight = instructions(tree); p.weight > maxPattern {
		return p, "it is too large"
	}
	if p.Regexp, err = regexp.Compile(text); err != nil {
		return p, "RE2 does not know it"
	}
	return p, ""
}

// instructions is about how many instructions re compiles to, counted without compiling it.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min+1, re.Max)
	}
	return min(n, maxPattern+1)
}
