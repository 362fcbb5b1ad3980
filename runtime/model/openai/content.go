package openai

import (
	"encoding/json"
	"strings"
)

// content is what a message says. Most servers send strings; some send lists of parts, of which only text is said.
type content struct {
	blocks []any // *growing for text, or a part as it came
	parts  bool
}

// add takes a string or a list of parts, tells what was said, and returns how many bytes of it are new.
func (c *content) add(raw json.RawMessage, emit func(string)) int {
	switch raw[0] {
	case '"':
		return c.say(raw, emit)
	case '[':
		var parts []json.RawMessage
		_ = json.Unmarshal(raw, &parts) // It was part of a larger value that parsed.
		n := 0
		for _, p := range parts {
			n += c.part(p, emit)
		}
		return n
	default:
		return 0
	}
}

func (c *content) say(raw json.RawMessage, emit func(string)) int {
	if len(raw) == len(`""`) {
		return 0
	}
	var last *growing
	if n := len(c.blocks); n > 0 {
		last, _ = c.blocks[n-1].(*growing)
	}
	if last == nil {
		last = &growing{}
		c.blocks = append(c.blocks, last)
	}
	if s := last.add(raw); s != "" {
		emit(s)
	}
	return len(raw) - len(`""`)
}

func (c *content) part(raw json.RawMessage, emit func(string)) int {
	c.parts = true
	var p struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
	}
	if json.Unmarshal(raw, &p) == nil && p.Type == "text" && len(p.Text) > 1 && p.Text[0] == '"' {
		return c.say(p.Text, emit)
	}
	c.blocks = append(c.blocks, tidy(raw))
	return len(raw)
}

// end tells what was held back.
func (c *content) end(emit func(string)) {
	for _, b := range c.blocks {
		if g, ok := b.(*growing); ok {
			if s := g.end(); s != "" {
				emit(s)
			}
		}
	}
}

// String is what was said.
func (c *content) String() string {
	var b strings.Builder
	for _, x := range c.blocks {
		if g, ok := x.(*growing); ok {
			b.WriteString(g.String())
		}
	}
	return b.String()
}

// plain says that the content is nothing but text.
func (c *content) plain() bool { return !c.parts }

// wire is the content in the form in which it came.
func (c *content) wire() any {
	if c.plain() {
		return c.String()
	}
	out := []any{}
	for _, x := range c.blocks {
		if g, ok := x.(*growing); ok {
			x = map[string]any{"type": "text", "text": g.String()}
		}
		out = append(out, x)
	}
	return out
}
