package openai

import "strings"

const redacted = "[redacted]"

// beginning is how much of a key gives it away.
const beginning = 8

// redactor takes the key out of texts. Endpoints like to repeat it in their errors, sometimes with its middle
// starred out, so a word that begins as the key does goes as well.
func redactor(key string) func(string) string {
	if key == "" {
		return func(s string) string { return s }
	}
	return func(s string) string {
		if len(key) < 2*beginning {
			return strings.ReplaceAll(s, key, redacted)
		}
		var out strings.Builder
		for {
			before, after, found := strings.Cut(s, key[:beginning])
			out.WriteString(before)
			if !found {
				return out.String()
			}
			out.WriteString(redacted)
			after = strings.TrimPrefix(after, key[beginning:])
			s = strings.TrimLeftFunc(after, func(r rune) bool { return !strings.ContainsRune(" \t\r\n\"'`,;<>()[]{}", r) })
		}
	}
}
