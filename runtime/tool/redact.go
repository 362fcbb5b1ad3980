package tool

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const redacted = "[redacted]"

// short is how long the form of a key must be to be looked for beside the key itself.
const short = 6

// redactor takes keys out of texts: as they are, and in the forms in which programs like to repeat them.
func redactor(keys []string) func(string) string {
	var all []string
	for _, key := range keys {
		all = append(all, forms(key)...)
	}
	// Of two that begin in one place the longer is taken.
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, form := range slices.Compact(all) {
		pairs = append(pairs, form, redacted)
	}
	return strings.NewReplacer(pairs...).Replace
}

var escape = regexp.MustCompile("%[0-9A-F]{2}")

func forms(key string) []string {
	out := []string{key}
	quoted, err := json.Marshal(key)
	if err == nil {
		out = append(out, strings.Trim(string(quoted), `"`))
	}
	out = append(out, url.QueryEscape(key), url.PathEscape(key))
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		out = append(out, e.EncodeToString([]byte(key)))
	}
	for _, form := range []string{url.QueryEscape(key), url.PathEscape(key)} {
		out = append(out, escape.ReplaceAllStringFunc(form, strings.ToLower))
	}
	return slices.DeleteFunc(append(out, within(key)...), func(form string) bool {
		return form == "" || form != key && len(form) < short
	})
}

// within are the parts of base64 that the key fills when it stands in a longer text, such as after a name and a colon: at
// each of the three places where it may begin.
func within(key string) []string {
	var out []string
	for before := range 3 {
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			form := e.EncodeToString(append(make([]byte, before), key...))
			form = form[[]int{0, 2, 3}[before]:] // what holds bits of what stands before
			if (before+len(key))%3 != 0 {
				form = form[:max(len(form)-1, 0)] // and of what follows
			}
			out = append(out, form)
		}
	}
	return out
}
