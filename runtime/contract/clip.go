package contract

import (
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
