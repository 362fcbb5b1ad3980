package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxDepth bounds how deep a JSON value may be nested.
const maxDepth = 64

// ErrJSON is returned for text that is not one JSON value, or is one that two readers may understand differently.
var ErrJSON = errors.New("not a usable JSON value")

// Canonical is a JSON value with its keys sorted, without spaces and with nothing escaped that need not be: equal values
// give equal bytes. Numbers stay as they are written, because a float would round them. A key that stands twice in
// an object is refused: an approver might read one value and the tool the other. The error is ErrJSON.
func Canonical(raw []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := value(d, 0)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("something follows the value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJSON, err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJSON, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// value reads one value.
func value(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return object(d, depth)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	default:
		return t, nil
	}
}

func object(d *json.Decoder, depth int) (any, error) {
	fields := map[string]any{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string) // the decoder accepts nothing else as a key
		if _, twice := fields[key]; twice {
			return nil, fmt.Errorf("the key %q stands twice in one object", Clip(key, 64))
		}
		if fields[key], err = value(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return fields, err
}
