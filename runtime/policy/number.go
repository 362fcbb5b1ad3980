package policy

import (
	"encoding/json"
	"strconv"
)

// variables is v with its numbers as CEL has them. See the package comment.
func variables(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, of := range v {
			out[name] = variables(of)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, of := range v {
			out[i] = variables(of)
		}
		return out
	case json.Number:
		return number(string(v))
	default:
		return v
	}
}

func number(literal string) any {
	if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil && f == 0 {
		return literal // no number at all: comparing it fails, and the call needs an approval
	}
	return f // beyond the range of a double it is infinite, which is on the right side of every bound
}
