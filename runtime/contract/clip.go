package contract

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Clip is the beginning of s, at most limit bytes, cut between runes; invalid UTF-8 and NUL, which Postgres and
// the API server refuse, are replaced.
func Clip(s string, limit int) string {
	s = Clean(s)
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Clean is s with invalid UTF-8 and NUL replaced by U+FFFD.
func Clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Fit is the beginning of s, cleaned, at most limit bytes long and at most room bytes in JSON, where one byte may take six. It
// is cut between runes.
func Fit(s string, limit, room int) string {
	s = Clip(s, limit)
	if len(s)*6 <= room || InJSON(s)-len(`""`) <= room {
		return s
	}
	for i, r := range s {
		if room -= InJSON(string(r)) - len(`""`); room < 0 {
			return s[:i]
		}
	}
	return s
}

// InJSON is how many bytes v takes in JSON. What is measured marshals.
func InJSON(v any) int {
	b, _ := json.Marshal(v)
	return len(b)
}
