// Package prompt lays out what the model reads. It is pure: the same layers give the same bytes in every pod,
// segment and release of a minor version, so that a provider's cache of the prefix hits.
package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Role says whose words a message holds.
type Role string

const (
	// User is the role of the task and of everything else said to the model.
	User Role = "user"
	// Assistant is the role of the model's own messages.
	Assistant Role = "assistant"
)

// Message is one message of the conversation.
type Message struct {
	Role Role
	// Text is the message in words.
	Text string
	// Raw is the message as the provider sent it. When set it is replayed as it is, so that reasoning and
	// signatures survive; Text is then only for people.
	Raw json.RawMessage
}

// Prompt is one request to a model, layer by layer. Later versions put tools, pinned and retrieved context
// between System and Conversation.
type Prompt struct {
	System       string
	Conversation []Message
}

// Continue is what the model is told after an answer that was cut at its bound.
const Continue = "Your last message was cut at its length limit. Continue exactly where it stopped: repeat nothing, add no preamble."

// Fingerprint is the digest of the prefix: everything before the conversation.
func (p Prompt) Fingerprint() string {
	sum := sha256.Sum256([]byte(p.System))
	return hex.EncodeToString(sum[:])
}
