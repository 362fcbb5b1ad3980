package openai

import (
	"bytes"
	"encoding/json"

	"github.com/ekiden-dev/ekiden/runtime/contract"
)

// fields are the parts of a message that this package does not know. They are kept for the replay, because some
// servers refuse a conversation without them: the reasoning of DeepSeek, the thought signatures of Gemini.
//
//	text     concatenated, but for names and types, which servers repeat
//	lists    appended
//	others   the last one wins
type fields struct {
	texts  map[string]*growing
	others map[string]any
}

// add takes a field of a delta and returns how many bytes of it are new.
func (f *fields) add(name string, raw json.RawMessage) int {
	if f.texts == nil {
		f.texts, f.others = map[string]*growing{}, map[string]any{}
	}
	raw = bytes.TrimSpace(raw)
	switch {
	case string(raw) == "null" || string(raw) == `""` || string(raw) == "[]":
		return 0
	case raw[0] == '"' && !repeated[name]:
		g, ok := f.texts[name]
		if !ok {
			g = &growing{}
			f.texts[name] = g
		}
		delete(f.others, name)
		g.add(raw)
	case raw[0] == '[':
		list, _ := f.others[name].([]any)
		more, _ := tidy(raw).([]any)
		f.others[name] = append(list, more...)
	default:
		delete(f.texts, name)
		f.others[name] = tidy(raw)
	}
	return len(raw)
}

// repeated are texts that come whole each time.
var repeated = map[string]bool{"id": true, "type": true, "name": true, "object": true, "format": true}

// into writes the fields into a message.
func (f *fields) into(m map[string]any) {
	for k, g := range f.texts {
		g.end()
		m[contract.Clean(k)] = g.String()
	}
	for k, v := range f.others {
		m[contract.Clean(k)] = v
	}
}

// tidy is a JSON value with its numbers as they are and its texts clean: neither invalid UTF-8, nor single
// surrogates, nor NUL, which cannot be stored.
func tidy(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	_ = d.Decode(&v) // It was part of a larger value that parsed.
	return clean(v)
}

func clean(v any) any {
	switch v := v.(type) {
	case string:
		return contract.Clean(v)
	case []any:
		for i := range v {
			v[i] = clean(v[i])
		}
	case map[string]any:
		for k, x := range v {
			delete(v, k)
			v[contract.Clean(k)] = clean(x)
		}
	}
	return v
}
