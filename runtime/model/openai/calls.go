package openai

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
)

// calls are the tool calls of a message as they grow. By the protocol each piece carries the index of its call. Many
// servers leave it out, or send 0 for all, and then ids, names and whole arguments tell where a call begins.
type calls struct{ list callList }

type callList []*call

type call struct {
	index     *int
	id        string
	name      growing
	arguments growing
	extra     fields // of the call
	function  fields // of its function
}

// piece is one entry of tool_calls in a delta.
type piece struct {
	index *int
	id    string
	// name and arguments are JSON strings, or nil.
	name, arguments json.RawMessage
	extra, function map[string]json.RawMessage
}

// add takes the tool_calls of a delta and returns how many bytes of them are new.
func (c *calls) add(raw json.RawMessage) int {
	var entries []map[string]json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return 0
	}
	size := 0
	touched := map[*call]bool{}
	for _, e := range entries {
		p := read(e)
		at := c.owner(p, touched)
		touched[at] = true
		size += at.take(p)
	}
	return size
}

// legacy takes a function_call. Its pieces all belong to one call.
func (c *calls) legacy(raw json.RawMessage) int {
	p := piece{index: new(int)}
	p.fn(raw)
	return c.owner(p, nil).take(p)
}

func read(entry map[string]json.RawMessage) piece {
	var p piece
	for name, raw := range entry {
		raw = bytes.TrimSpace(raw)
		switch name {
		case "index":
			if n, err := strconv.Atoi(string(raw)); err == nil {
				p.index = &n
			}
		case "id":
			_ = json.Unmarshal(raw, &p.id) // An id that is no string is as good as none.
			p.id = contract.Clean(p.id)
		case "function":
			p.fn(raw)
		default:
			if p.extra == nil {
				p.extra = map[string]json.RawMessage{}
			}
			p.extra[name] = raw
		}
	}
	return p
}

func (p *piece) fn(raw json.RawMessage) {
	_ = json.Unmarshal(raw, &p.function) // A function that is no object says nothing.
	for name, to := range map[string]*json.RawMessage{"name": &p.name, "arguments": &p.arguments} {
		v := bytes.TrimSpace(p.function[name])
		delete(p.function, name)
		switch {
		case len(v) == 0 || string(v) == "null" || string(v) == `""`:
		case v[0] == '"':
			*to = v
		case name == "arguments": // Arguments that are an object rather than its text.
			text, _ := encode(tidy(v))
			*to, _ = encode(string(text))
		}
	}
}

// owner is the call that a piece belongs to, a new one if it begins one.
func (c *calls) owner(p piece, touched map[*call]bool) *call {
	at := c.candidate(p)
	if at == nil && p.index == nil && p.name == nil && len(c.list) > 0 {
		at = c.list[len(c.list)-1] // Some servers make up a new id for each piece.
	}
	if at == nil || begins(p, at, touched[at]) {
		at = &call{index: p.index, id: p.id}
		c.list = append(c.list, at)
	}
	return at
}

// candidate is the call that a piece would belong to if it began none: by index, else by id, else the last one.
func (c *calls) candidate(p piece) *call {
	for _, at := range slices.Backward(c.list) {
		switch {
		case p.index != nil && at.index != nil:
			if *p.index == *at.index {
				return at
			}
		case p.index == nil && p.id != "":
			if p.id == at.id {
				return at
			}
		default:
			return at
		}
	}
	return nil
}

// begins reports whether a piece that looks like more of a call begins another one. Only a piece with a name can.
func begins(p piece, at *call, touched bool) bool {
	if p.name == nil {
		return false
	}
	same := plain(p.name) == at.name.String()
	switch {
	case p.id != "" && at.id != "" && p.id != at.id:
		return true
	case touched:
		return true // Two entries of one chunk that both have names are two calls, whatever their index.
	case at.name.String() == "":
		return false
	case at.finished():
		return !same || p.arguments != nil // A server may repeat the name with each piece, but has no more to add.
	default:
		// Without an index another name is another call; with one it is the rest of the name.
		return p.index == nil && !same
	}
}

func plain(piece json.RawMessage) string {
	var g growing
	g.add(piece)
	g.end()
	return g.String()
}

// finished says that the arguments are whole: nothing can be added to them.
func (c *call) finished() bool {
	s := strings.TrimSpace(c.arguments.String())
	return strings.HasSuffix(s, "}") && json.Valid([]byte(s))
}

func (c *call) take(p piece) int {
	size := 0
	if c.id == "" {
		c.id = p.id
	}
	if p.name != nil && plain(p.name) != c.name.String() {
		c.name.add(p.name)
		size += len(p.name)
	}
	if p.arguments != nil {
		c.arguments.add(p.arguments)
		size += len(p.arguments) - len(`""`)
	}
	for name, raw := range p.extra {
		size += c.extra.add(name, raw)
	}
	for name, raw := range p.function {
		size += c.function.add(name, raw)
	}
	return size
}

// named are the calls that call something, in the order of their indexes if they have them. Some servers send empty
// entries before or after the real ones.
func (c *calls) named() callList {
	var out callList
	ordered := true
	for _, at := range c.list {
		at.name.end()
		at.arguments.end()
		if at.name.String() == "" && at.arguments.String() == "" {
			continue
		}
		out = append(out, at)
		ordered = ordered && at.index != nil
	}
	if ordered {
		slices.SortStableFunc(out, func(a, b *call) int { return cmp.Compare(*a.index, *b.index) })
	}
	return out
}

// proposed are the calls as the model proposed them. No arguments at all are an empty object, unless the answer was
// cut before they came.
func (l callList) proposed(f segment.Finish) []segment.ProposedCall {
	var out []segment.ProposedCall
	for _, c := range l {
		args := c.arguments.String()
		if strings.TrimSpace(args) == "" && f != segment.FinishLength {
			args = "{}"
		}
		out = append(out, segment.ProposedCall{Tool: c.name.String(), Arguments: args})
	}
	return out
}

// wire are the calls in the provider's form, each with an id of its own.
func (l callList) wire(completion string, proposed []segment.ProposedCall) []any {
	var out []any
	taken := map[string]bool{}
	for i, c := range l {
		id := c.id
		for n := 0; id == "" || taken[id]; n++ {
			id = mint(completion, i, n, proposed[i])
		}
		taken[id] = true
		fn := map[string]any{}
		c.function.into(fn)
		fn["name"], fn["arguments"] = proposed[i].Tool, replayable(proposed[i].Arguments)
		entry := map[string]any{"type": "function"}
		c.extra.into(entry)
		entry["id"], entry["function"] = id, fn
		out = append(out, entry)
	}
	return out
}

// replayable is args as they can be sent back: many servers parse them and refuse the conversation when that fails.
func replayable(args string) string {
	if json.Valid([]byte(args)) {
		return args
	}
	out, _ := encode(map[string]string{"malformed": args})
	return string(out)
}

// mint makes an id from what the call is, so that the same answer gives the same id. Nine letters and digits are
// what the strictest servers ask for.
func mint(completion string, i, n int, p segment.ProposedCall) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{completion, strconv.Itoa(i), strconv.Itoa(n), p.Tool, p.Arguments}, "\x00")))
	return hex.EncodeToString(sum[:])[:9]
}
