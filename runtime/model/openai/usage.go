package openai

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/ekiden-dev/ekiden/runtime/budget"
)

// count is a number of tokens, whichever way a server writes numbers. What is no number is zero.
type count int64

func (c *count) UnmarshalJSON(b []byte) error {
	*c = 0
	if f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64); err == nil && f > 0 {
		*c = count(math.Min(f, 1e12))
	}
	return nil
}

// reported is what one usage object says.
type reported struct {
	Prompt     count `json:"prompt_tokens"`
	Completion count `json:"completion_tokens"`
	Total      count `json:"total_tokens"`
	// Details are how most servers report cached tokens, the next two are how DeepSeek and Moonshot do.
	Details struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CacheHit count `json:"prompt_cache_hit_tokens"`
	Cached   count `json:"cached_tokens"`
	// The names of other protocols, which gateways let through. The first two stand in for Prompt and Completion.
	Input       count `json:"input_tokens"`
	Output      count `json:"output_tokens"`
	CacheRead   count `json:"cache_read_input_tokens"`
	CacheWrite  count `json:"cache_creation_input_tokens"`
	InputDetail struct {
		Cached count `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

// UnmarshalJSON takes what it can: usage that does not parse is usage that was not reported.
func (r *reported) UnmarshalJSON(b []byte) error {
	type plain reported
	var p plain
	if json.Unmarshal(b, &p) == nil {
		*r = reported(p)
	}
	return nil
}

// tokens puts the tokens into classes that do not overlap. Servers disagree on two questions: whether cached tokens
// are part of the prompt's, and whether reasoning is part of the completion's. The total, where there is one, tells.
func (r reported) tokens() budget.Tokens {
	prompt, output := r.Prompt, r.Completion
	outside := false
	if prompt == 0 && r.Input > 0 {
		// By these names, cached tokens are counted beside the input, unless the details say that they are part of it.
		prompt, outside = r.Input, r.CacheRead+r.CacheWrite > 0 && r.InputDetail.Cached == 0
	}
	if output == 0 {
		output = r.Output
	}
	cached := max(r.Details.Cached, r.CacheHit, r.Cached, r.InputDetail.Cached, r.CacheRead)
	extra := r.Total - prompt - output
	if prompt == 0 || output == 0 || r.Total == 0 {
		extra = 0
	}
	if beside := r.CacheRead + r.CacheWrite; beside > 0 && (outside || extra == beside) {
		outside = true
		extra = max(0, extra-beside)
	}
	if outside {
		prompt += r.CacheRead + r.CacheWrite
	}
	if extra > 0 {
		output += extra // Reasoning that the total counts and the completion does not.
	}
	cached = min(cached, prompt)
	return budget.Tokens{Input: int64(prompt - cached), CacheRead: int64(cached), Output: int64(output)}
}

// usage is what the stream has reported so far. Reports are cumulative: the last one that says something about a
// side, input or output, is right about it.
type usage struct{ budget.Tokens }

func (u *usage) add(c chunk) {
	u.take(c.XGroq.Usage)
	for _, ch := range c.Choices {
		u.take(ch.Usage)
	}
	u.take(c.Usage)
}

func (u *usage) take(r reported) {
	t := r.tokens()
	if t.Input+t.CacheRead > 0 {
		u.Input, u.CacheRead = t.Input, t.CacheRead
	}
	if t.Output > 0 {
		u.Output = t.Output
	}
}

// filled is the usage of an answer for which so many bytes were sent and received. What was not reported is reckoned
// at four bytes a token, and never as nothing.
func (u usage) filled(sent, received int) (t budget.Tokens, estimated bool) {
	t = u.Tokens
	input := t.Input+t.CacheRead > 0
	if !input {
		t.Input = reckon(sent)
	}
	output := t.Output > 0 || input && received == 0
	if !output {
		t.Output = reckon(received)
	}
	return t, !input || !output
}

// spent is the usage of an answer that broke off: what was reported so far, or what has passed the wire.
func (u usage) spent(sent, received int) budget.Tokens {
	t := u.Tokens
	if t.Input+t.CacheRead == 0 {
		t.Input = reckon(sent)
	}
	if received > 0 {
		t.Output = max(t.Output, reckon(received))
	}
	return t
}

func reckon(bytes int) int64 { return max(1, int64(bytes+3)/4) }
