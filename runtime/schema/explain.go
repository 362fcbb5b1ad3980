package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// problem is one thing that is wrong with a value.
type problem struct {
	at []string
	// text goes on after the name of the place, unless it is whole.
	text  string
	whole bool
	// got and want are the types, if it is the type that is wrong.
	got  string
	want []string
	// tells says that an alternative with such a problem was not meant: the value is of another type, or a field of it (marks) has a
	// value that is the mark of another alternative.
	tells, marks bool
}

// rulesOut reports whether an alternative for the value at a place was not meant.
func (p problem) rulesOut(at []string) bool {
	return p.tells && len(p.at) <= len(at) || p.marks && len(p.at) <= len(at)+1
}

// explain says what is wrong. It says the same each time: the library goes through fields in no order.
func explain(e *jsonschema.ValidationError) string {
	list := problems(e)
	var texts []string
	for _, p := range list {
		if text := p.sentence(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	const most = 3
	if len(texts) > most {
		texts = append(texts[:most], "and more")
	}
	return strings.Join(texts, "; ")
}

func (p problem) sentence() string {
	if p.whole {
		return p.text
	}
	return field(p.at) + " " + p.text
}

// maxProblems is how many problems are looked at. A value can have more of them than anybody has the time to sort.
const maxProblems = 16

// problems lists what is wrong first, in the order of the places.
func problems(e *jsonschema.ValidationError) []problem {
	out := unsorted(e)
	slices.SortStableFunc(out, func(a, b problem) int {
		return cmp.Or(slices.Compare(a.at, b.at), cmp.Compare(a.text, b.text))
	})
	return out[:min(len(out), maxProblems)]
}

func unsorted(e *jsonschema.ValidationError) []problem {
	var out []problem
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			out = append(out, problems(cause)...)
		}
	case *kind.AnyOf:
		out = alternatives(e)
	case *kind.OneOf:
		out = alternatives(e)
		if len(k.Subschemas) > 0 {
			out = []problem{{at: e.InstanceLocation, text: "fits more than one of the forms of which it must fit one"}}
		}
	case *kind.Required:
		for _, name := range slices.Sorted(slices.Values(k.Missing)) {
			at := append(slices.Clone(e.InstanceLocation), name)
			out = append(out, problem{at: at, text: "is missing"})
		}
	case *kind.AdditionalProperties:
		for _, name := range slices.Sorted(slices.Values(k.Properties)) {
			at := append(slices.Clone(e.InstanceLocation), name)
			out = append(out, problem{at: at, text: "is not allowed"})
		}
	case *kind.PropertyNames: // its location is that of whatever was looked at last
		out = []problem{{whole: true, text: fmt.Sprintf("the field name %s is not allowed", quoted(k.Property))}}
	default:
		out = []problem{leaf(e)}
	}
	return out
}

// alternatives says what is wrong with the one alternative that was meant, if that can be told.
func alternatives(e *jsonschema.ValidationError) []problem {
	var meant [][]problem
	types := problem{at: e.InstanceLocation, tells: true}
	onlyTypes := true
	for _, cause := range e.Causes {
		list := problems(cause)
		if !slices.ContainsFunc(list, func(p problem) bool { return p.rulesOut(e.InstanceLocation) }) {
			meant = append(meant, list)
		}
		if len(list) == 1 && list[0].want != nil && len(list[0].at) == len(e.InstanceLocation) {
			types.got, types.want = list[0].got, append(types.want, list[0].want...)
		} else {
			onlyTypes = false
		}
	}
	switch {
	case len(meant) == 1:
		return meant[0]
	case onlyTypes && len(types.want) > 0:
		slices.Sort(types.want)
		types.want = slices.Compact(types.want)
		types.text = wrongType(types)
		return []problem{types}
	default:
		return []problem{{at: e.InstanceLocation, tells: true, text: fmt.Sprintf("fits none of the %d forms that are allowed", len(e.Causes))}}
	}
}

func wrongType(p problem) string {
	return fmt.Sprintf("is %s and must be %s", named(p.got), strings.Join(each(p.want, named), " or "))
}

func named(kind string) string {
	switch kind {
	case "null", "":
		return "null"
	case "array", "object", "integer":
		return "an " + kind
	default:
		return "a " + kind
	}
}

// leaf is a problem of a single value.
func leaf(e *jsonschema.ValidationError) problem {
	p := problem{at: e.InstanceLocation}
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		p.got, p.want, p.tells = k.Got, k.Want, true
		p.text = wrongType(p)
		return p
	case *kind.Const, *kind.Enum, *kind.FalseSchema:
		p.tells, p.marks = true, true
	}
	p.text = complaint(e.ErrorKind)
	return p
}

// complaint goes on after the name of a field.
func complaint(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Const:
		return "must be " + shown(k.Want)
	case *kind.Enum:
		if len(k.Want) > 8 {
			return fmt.Sprintf("must be one of %d values, and is another", len(k.Want))
		}
		return "must be one of " + strings.Join(each(k.Want, shown), ", ")
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Pattern:
		return "must match the pattern " + contract.Clip(strconv.Quote(k.Want), 128)
	case *kind.Not:
		return "has a form that is not allowed"
	case *kind.Dependency:
		return dependency(k.Prop, k.Missing)
	case *kind.DependentRequired:
		return dependency(k.Prop, k.Missing)
	case *kind.UniqueItems:
		return fmt.Sprintf("holds the same item twice, at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains, *kind.MinContains:
		return "holds too few items of the kind that is wanted"
	case *kind.MaxContains:
		return "holds too many items of one kind"
	default:
		return bound(k)
	}
}

// bound is the complaint about a value beyond a bound.
func bound(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + decimal(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("has %d characters and must have at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters and may have at most %d", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has %d items and must have at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d items and may have at most %d", k.Got, k.Want)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %d items too many", k.Count)
	case *kind.MinProperties:
		return fmt.Sprintf("has %d fields and must have at least %d", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %d fields and may have at most %d", k.Got, k.Want)
	default:
		return "does not fit"
	}
}

func dependency(field string, missing []string) string {
	return fmt.Sprintf("has %s and so must have %s", quoted(field), strings.Join(each(slices.Sorted(slices.Values(missing)), quoted), ", "))
}

// field names a place in a value, in one line, whatever the names in it are.
func field(at []string) string {
	if len(at) == 0 {
		return "the value"
	}
	var b strings.Builder
	for i, token := range at {
		switch _, err := strconv.Atoi(token); {
		case err == nil && i > 0:
			b.WriteString("[" + token + "]")
		case i > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return "the field " + strconv.Quote(contract.Clip(b.String(), 128))
}

func quoted(s string) string { return strconv.Quote(contract.Clip(s, 64)) }

// shown is a value that the schema wants.
func shown(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "another value"
	}
	return contract.Clip(string(b), 64)
}

// decimal is r as people write it.
func decimal(r *big.Rat) string {
	if n, exact := r.FloatPrec(); exact && n <= 40 {
		return contract.Clip(r.FloatString(n), 64)
	}
	return contract.Clip(r.RatString(), 64)
}

func each[T any](list []T, f func(T) string) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}
