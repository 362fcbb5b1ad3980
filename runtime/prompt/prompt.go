// Package prompt lays out what the model reads. It is pure: the same layers give the same bytes in every pod,
// segment and release of a minor version, so that a provider's cache of the prefix hits.
package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Role says whose words a message holds.
type Role string

const (
	// User is the role of the task and of everything else said to the model.
	User Role = "user"
	// Assistant is the role of the model's own messages.
	Assistant Role = "assistant"
	// Tool is the role of the result of a call.
	Tool Role = "tool"
)

// Message is one message of the conversation.
type Message struct {
	Role Role
	// Text is the message in words.
	Text string
	// Raw is the message as the provider sent it. When set it is replayed as it is, so that reasoning and
	// signatures survive; Text is then only for people.
	Raw json.RawMessage
	// Call is the index, among the calls of the assistant message before it, of the call whose result this is.
	Call int
}

// Offer is a tool as the model is told of it.
type Offer struct {
	Name, Description string
	// Schema is the JSON Schema of the arguments.
	Schema json.RawMessage
}

// Prompt is one request to a model, layer by layer. Later versions put pinned and retrieved context between Tools and
// Conversation.
type Prompt struct {
	System string
	// Tools are sorted by name.
	Tools        []Offer
	Conversation []Message
}

// Continue is what the model is told after an answer that was cut at its bound.
const Continue = "Your last message was cut at its length limit. Continue exactly where it stopped: repeat nothing, add no preamble."

// Fingerprint is the digest of the prefix: everything before the conversation.
func (p Prompt) Fingerprint() string {
	sum := sha256.New()
	layer := func(parts ...string) {
		for _, s := range parts { // lengths keep the end of one part from passing for the beginning of the next
			_, _ = fmt.Fprintf(sum, "%d:%s", len(s), s)
		}
	}
	layer(p.System)
	for _, t := range p.Tools {
		layer(t.Name, t.Description, string(t.Schema))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
