package modelserver

import (
	"fmt"
	"unicode/utf8"
)

// object is a JSON object.
type object = map[string]any

// events are the chunks of a stream, in order: role, reasoning, text, calls, finish, usage.
func (a *answer) events() []object {
	s := a.step
	deltas := []object{{"role": "assistant", "content": ""}}
	if s.Reasoning != "" {
		for _, p := range pieces(a.vars.fill(s.Reasoning), s.Chunks) {
			deltas = append(deltas, object{"reasoning_content": p})
		}
	}
	if s.Text != "" {
		for _, p := range pieces(a.vars.fill(s.Text), s.Chunks) {
			deltas = append(deltas, object{"content": p})
		}
	}
	if s.Calls != nil {
		deltas = append(deltas, s.Calls.deltas(a.vars)...)
	}
	var out []object
	for i, d := range deltas {
		e := a.chunk([]object{{"index": 0, "delta": d, "finish_reason": nil}})
		if a.reports("every") {
			e["usage"] = a.usage(i, len(deltas))
		}
		out = append(out, e)
	}
	if f := a.finish(); f != "" {
		e := a.chunk([]object{{"index": 0, "delta": object{}, "finish_reason": f}})
		if a.reports("every") || a.reports("last") {
			e["usage"] = a.usage(1, 1)
		}
		out = append(out, e)
	}
	if a.reports("final") {
		e := a.chunk([]object{})
		e["usage"] = a.usage(1, 1)
		out = append(out, e)
	}
	return out
}

func (a *answer) chunk(choices []object) object {
	return object{"id": a.id(), "object": "chat.completion.chunk", "created": 0, "model": a.request.Model, "choices": choices}
}

func (a *answer) id() string { return fmt.Sprintf("chatcmpl-%d", a.vars.n) }

func (a *answer) finish() string {
	switch {
	case a.step.Finish == "none":
		return ""
	case a.step.Finish != "":
		return a.step.Finish
	case a.step.Calls != nil:
		return "tool_calls"
	default:
		return "stop"
	}
}

func (a *answer) reports(shape string) bool {
	if a.step.Usage == nil {
		return shape == "final"
	}
	return a.step.Usage.shape() == shape
}

// usage is what has been used after i of n chunks. Without a script it is reckoned at four bytes a token.
func (a *answer) usage(i, n int) object {
	u := a.step.Usage
	if u == nil {
		said := utf8.RuneCountInString(a.vars.fill(a.step.Text)) + len(a.step.Reasoning)
		u = &Usage{Prompt: int64(a.size/4 + 1), Completion: int64(said/4 + 1)}
	}
	done := u.Completion * int64(i) / int64(n)
	return object{
		"prompt_tokens": u.Prompt, "completion_tokens": done, "total_tokens": u.Prompt + done,
		"prompt_tokens_details": object{"cached_tokens": u.Cached},
	}
}

// whole is the answer in one body.
func (a *answer) whole() object {
	m := object{"role": "assistant", "content": a.vars.fill(a.step.Text)}
	if a.step.Reasoning != "" {
		m["reasoning_content"] = a.vars.fill(a.step.Reasoning)
	}
	if c := a.step.Calls; c != nil {
		var list []object
		for i, call := range c.List {
			list = append(list, c.delta(a.vars, i, call, call.Arguments, true))
		}
		m["tool_calls"] = list
		if a.step.Text == "" {
			m["content"] = nil
		}
	}
	out := object{
		"id": a.id(), "object": "chat.completion", "created": 0, "model": a.request.Model,
		"choices": []object{{"index": 0, "message": m, "finish_reason": a.finish()}},
	}
	if !a.reports("missing") {
		out["usage"] = a.usage(1, 1)
	}
	return out
}

// deltas are the chunks in which calls come.
func (c *Calls) deltas(v vars) []object {
	var out []object
	var all []object
	for i, call := range c.List {
		for k, args := range pieces(call.Arguments, c.Pieces) {
			d := c.delta(v, i, call, args, k == 0)
			if c.Together {
				all = append(all, d)
			} else {
				out = append(out, object{"tool_calls": []object{d}})
			}
		}
	}
	if c.Together {
		out = append(out, object{"tool_calls": all})
	}
	return out
}

func (c *Calls) delta(v vars, i int, call Call, args string, first bool) object {
	fn := object{"arguments": v.fill(args)}
	d := object{"function": fn}
	if first {
		fn["name"], d["type"] = call.Name, "function"
		if !c.NoID {
			d["id"] = call.ID
			if call.ID == "" {
				d["id"] = fmt.Sprintf("call_%d_%d", v.n, i)
			}
		}
	}
	switch c.Index {
	case "absent":
	case "zero":
		d["index"] = 0
	default:
		d["index"] = i
	}
	return d
}
