package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/prompt"
)

// preamble is the part of a request that is the same for every prompt.
type preamble struct {
	Model         string        `json:"model"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
	// OpenAI refuses max_tokens for its reasoning models, and most compatible servers ignore max_completion_tokens
	// without a word. So the host decides.
	MaxTokens           int32 `json:"max_tokens,omitempty"`
	MaxCompletionTokens int32 `json:"max_completion_tokens,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

func newPreamble(model, host string, s v1alpha1.Sampling) preamble {
	p := preamble{Model: model, Stream: true, StreamOptions: streamOptions{IncludeUsage: true}}
	if host == "api.openai.com" {
		p.MaxCompletionTokens = s.MaxOutputTokens
	} else {
		p.MaxTokens = s.MaxOutputTokens
	}
	return p
}

type wireMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// request is the body of a request. Messages come last, so that a longer conversation begins with the bytes of the
// shorter one, and equal prompts give equal bytes.
func (p preamble) request(pr prompt.Prompt) ([]byte, error) {
	head, err := encode(p)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(head[:len(head)-1])
	if err := offer(&b, pr.Tools); err != nil {
		return nil, err
	}
	b.WriteString(`,"messages":[`)
	messages := pr.Conversation
	if pr.System != "" {
		messages = append([]prompt.Message{{Role: "system", Text: pr.System}}, messages...)
	}
	var ids []string // of the calls of the last assistant message
	for i, m := range messages {
		if i > 0 {
			b.WriteByte(',')
		}
		var err error
		if m.Role == prompt.Tool {
			err = result(&b, m, ids)
		} else {
			ids = callIDs(m.Raw)
			err = write(&b, m)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d of the conversation: %w", i, err)
		}
	}
	b.WriteString(`]}`)
	return b.Bytes(), nil
}

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// offer appends the tools. An empty list is left out: some servers refuse one.
func offer(b *bytes.Buffer, tools []prompt.Offer) error {
	if len(tools) == 0 {
		return nil
	}
	var list []wireTool
	for _, t := range tools {
		list = append(list, wireTool{Type: "function", Function: wireFunction{Name: t.Name, Description: contract.Clean(t.Description), Parameters: t.Schema}})
	}
	out, err := encode(list)
	if err != nil {
		return fmt.Errorf("the tools: %w", err)
	}
	b.WriteString(`,"tools":`)
	b.Write(out)
	return nil
}

type wireResult struct {
	Role    string `json:"role"`
	CallID  string `json:"tool_call_id"`
	Content string `json:"content"`
}

// callIDs are the ids of an assistant message's calls, in order. Each has one of its own: see callList.wire.
func callIDs(raw json.RawMessage) []string {
	var m struct {
		Calls []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	var ids []string
	for _, c := range m.Calls {
		ids = append(ids, c.ID)
	}
	return ids
}

// result appends the result of a call.
func result(b *bytes.Buffer, m prompt.Message, ids []string) error {
	if m.Call < 0 || m.Call >= len(ids) {
		return fmt.Errorf("a result of call %d follows a message with %d calls", m.Call, len(ids))
	}
	out, err := encode(wireResult{Role: "tool", CallID: ids[m.Call], Content: contract.Clean(m.Text)})
	b.Write(out)
	return err
}

// write appends a message: as the provider sent it, if it did.
func write(b *bytes.Buffer, m prompt.Message) error {
	if len(m.Raw) > 0 {
		if !json.Valid(m.Raw) {
			return errors.New("the stored message does not parse")
		}
		b.Write(m.Raw)
		return nil
	}
	out, err := encode(wireMessage{Role: string(m.Role), Content: contract.Clean(m.Text)})
	b.Write(out)
	return err
}

// encode is json.Marshal without the escapes for HTML, which would cost tokens with servers that do not undo them in templates.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
