package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// request is what the server reads of a request.
type request struct {
	Model               string    `json:"model"`
	Messages            []message `json:"messages"`
	Stream              bool      `json:"stream"`
	StreamOptions       *options  `json:"stream_options"`
	MaxTokens           *int64    `json:"max_tokens"`
	MaxCompletionTokens *int64    `json:"max_completion_tokens"`
}

type options struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  *[]toolCall     `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

// text is what the message says, whether as a string or in parts.
func (m message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Validate is nil for a request that every provider would take. It is stricter than any one of them.
func Validate(body []byte) error {
	_, err := read(body)
	return err
}

func read(body []byte) (request, error) {
	var r request
	if !utf8.Valid(body) {
		return r, errors.New("the body is not valid UTF-8")
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("the body does not parse: %w", err)
	}
	if err := characters(body); err != nil {
		return r, err
	}
	if err := r.options(); err != nil {
		return r, err
	}
	return r, r.conversation()
}

// characters finds what JSON can escape but databases and tokenizers refuse.
func characters(body []byte) error {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		i++ // The escaped character. After a u, its digits follow.
		if body[i] != 'u' {
			continue
		}
		digits := strings.ToLower(string(body[i+1 : i+5]))
		switch {
		case digits == "0000":
			return errors.New("the body holds NUL")
		case digits >= "d800" && digits < "dc00":
			next := strings.ToLower(string(body[i+5 : min(i+11, len(body))]))
			if len(next) < 6 || next[:2] != `\u` || next[2:] < "dc00" || next[2:] > "dfff" {
				return errors.New("the body holds half of a surrogate pair")
			}
			i += 10
		case digits >= "dc00" && digits <= "dfff":
			return errors.New("the body holds half of a surrogate pair")
		}
	}
	return nil
}

func (r request) options() error {
	switch {
	case r.Model == "":
		return errors.New("model is empty")
	case len(r.Messages) == 0:
		return errors.New("messages is empty")
	case r.Stream && (r.StreamOptions == nil || !r.StreamOptions.IncludeUsage):
		return errors.New("a stream is asked for without stream_options.include_usage, so nobody would know what it cost")
	case !r.Stream && r.StreamOptions != nil:
		return errors.New("stream_options is only for streams")
	case r.MaxTokens != nil && r.MaxCompletionTokens != nil:
		return errors.New("max_tokens and max_completion_tokens exclude each other")
	case r.MaxTokens != nil && *r.MaxTokens < 1, r.MaxCompletionTokens != nil && *r.MaxCompletionTokens < 1:
		return errors.New("the bound of output tokens is less than 1")
	}
	return nil
}

// conversation checks the order of messages: system, user, then turns in which each call has its result.
func (r request) conversation() error {
	var open []string // ids of calls that wait for their result, in order
	for i, m := range r.Messages {
		at := func(format string, args ...any) error {
			return fmt.Errorf("messages[%d]: %s", i, fmt.Sprintf(format, args...))
		}
		if len(open) > 0 && m.Role != "tool" {
			return at("call %q has no result", open[0])
		}
		switch m.Role {
		case "system", "developer":
			if i != 0 {
				return at("role %s comes first or not at all", m.Role)
			}
			if m.text() == "" {
				return at("the system message is empty")
			}
		case "user":
			if m.text() == "" {
				return at("the user message is empty")
			}
		case "assistant":
			if i == 0 || r.Messages[i-1].Role == "system" || r.Messages[i-1].Role == "developer" {
				return at("the conversation begins with the model")
			}
			ids, err := m.calls()
			if err != nil {
				return at("%v", err)
			}
			open = ids
		case "tool":
			if len(open) == 0 {
				return at("the result of %q answers no call", m.ToolCallID)
			}
			if m.ToolCallID != open[0] {
				return at("the result of %q comes where that of %q is due", m.ToolCallID, open[0])
			}
			if string(m.Content) == "" || string(m.Content) == "null" {
				return at("the result has no content")
			}
			open = open[1:]
		default:
			return at("role %q is unknown", m.Role)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("call %q has no result", open[0])
	}
	if last := r.Messages[len(r.Messages)-1].Role; last != "user" && last != "tool" {
		return fmt.Errorf("the last message is of role %s: there is nothing to answer", last)
	}
	return nil
}

// calls are the ids of the calls that m makes. They need to differ within the message: some servers begin anew with each.
func (m message) calls() ([]string, error) {
	if m.ToolCalls == nil {
		if string(m.Content) == "" || string(m.Content) == "null" {
			return nil, errors.New("the assistant message has neither content nor calls")
		}
		return nil, nil
	}
	if len(*m.ToolCalls) == 0 {
		return nil, errors.New("tool_calls is there but empty")
	}
	var ids []string
	for _, c := range *m.ToolCalls {
		switch {
		case c.ID == "":
			return nil, errors.New("a call has no id")
		case slices.Contains(ids, c.ID):
			return nil, fmt.Errorf("two calls have the id %q", c.ID)
		case c.Type != "function":
			return nil, fmt.Errorf("call %q is of type %q", c.ID, c.Type)
		case c.Function.Name == "":
			return nil, fmt.Errorf("call %q has no name", c.ID)
		case c.Function.Arguments == nil || !json.Valid([]byte(*c.Function.Arguments)):
			return nil, fmt.Errorf("the arguments of call %q are not JSON in a string", c.ID)
		}
		ids = append(ids, c.ID)
	}
	return ids, nil
}
