package tool_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/runtime/tool"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

func TestRedactor(t *testing.T) {
	t.Parallel()
	const key = "s3cr/t+k\"y=="
	rows := map[string]struct {
		keys  []string
		given string
		want  string
	}{
		"the key itself":                  {[]string{key}, "a " + key + " b", "a [redacted] b"},
		"each time it stands":             {[]string{key}, key + key, "[redacted][redacted]"},
		"in base64":                       {[]string{key}, base64.StdEncoding.EncodeToString([]byte(key)), "[redacted]"},
		"in base64 without padding":       {[]string{key}, base64.RawURLEncoding.EncodeToString([]byte(key)), "[redacted]"},
		"escaped for a query":             {[]string{key}, "?k=" + url.QueryEscape(key), "?k=[redacted]"},
		"escaped for a query, in small":   {[]string{key}, "?k=s3cr%2ft%2bk%22y%3d%3d", "?k=[redacted]"},
		"escaped for a path":              {[]string{key}, "/" + url.PathEscape(key) + "/", "/[redacted]/"},
		"quoted as JSON":                  {[]string{key}, `{"k":"s3cr/t+k\"y=="}`, `{"k":"[redacted]"}`},
		"an older key":                    {[]string{"older-key", key}, "older-key", "[redacted]"},
		"a key that begins as another":    {[]string{"abcdefgh", "abcdefghijkl"}, "abcdefghijkl", "[redacted]"},
		"a short key only as it is":       {[]string{"abc"}, "abc YWJj", "[redacted] YWJj"},
		"nothing without a key":           {nil, "abc", "abc"},
		"nothing where it does not stand": {[]string{key}, "s3cr/t", "s3cr/t"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(row.want, tool.Redactor(row.keys)(row.given)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRedactorFindsAKeyWithinBase64 covers the header of a name and a key, which servers like to repeat.
func TestRedactorFindsAKeyWithinBase64(t *testing.T) {
	t.Parallel()
	const key = "canary-0123456789"
	for before := range 7 {
		for after := range 4 {
			whole := base64.StdEncoding.EncodeToString([]byte("user:x"[:min(before, 6)] + key + "tail"[:after]))
			got := tool.Redactor([]string{key})(whole)
			if !strings.Contains(got, "[redacted]") || len(got) > len("[redacted]")+before*2+after*2+4 {
				t.Errorf("%d before and %d after: %q of %q", before, after, got, whole)
			}
		}
	}
}

// TestTheCanaryIsNowhere has servers repeat the key in every place they can, and looks for it in whatever is told.
func TestTheCanaryIsNowhere(t *testing.T) {
	t.Parallel()
	leaks := strings.Join([]string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte("me:" + secret))}, " ")
	rows := map[string]func(*rig){
		"in a result":              func(r *rig) { r.Behave(toolserver.GetCustomer, toolserver.Mood{Text: leaks}) },
		"in a failure":             func(r *rig) { r.Behave(toolserver.GetCustomer, toolserver.Mood{Text: leaks, Fail: true}) },
		"in the body of a refusal": func(r *rig) { r.Behave(toolserver.GetCustomer, toolserver.Mood{Status: 403, Body: leaks}) },
		"in a problem":             func(r *rig) { r.Behave(toolserver.GetCustomer, toolserver.Mood{Status: 400, Problem: leaks}) },
		"in an error":              func(r *rig) { r.Behave(toolserver.GetCustomer, toolserver.Mood{Problem: leaks}) },
		"at the cut": func(r *rig) {
			r.Behave(toolserver.GetCustomer, toolserver.Mood{Text: strings.Repeat("x", 4030) + leaks})
		},
		"behind a redirect": func(r *rig) {
			r.Behave(toolserver.GetCustomer, toolserver.Mood{Redirect: "/" + url.PathEscape(secret)})
		},
		"in a description":       func(r *rig) { r.Describe(toolserver.GetCustomer, leaks) },
		"when it is refused":     func(r *rig) { r.compiled.Credentials.Header = "X-Other" },
		"when it cannot be sent": func(r *rig) { r.compiled.Credentials.Prefix = "\x01" },
	}
	for flavour := range flavours {
		for name, given := range rows {
			t.Run(flavour+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, flavour, nil)
				given(r)
				r.reopen(t)
				said := fmt.Sprint(r.make(t.Context(), r.reads()), r.settled)
				for _, form := range []string{secret, "sk-canary", base64.StdEncoding.EncodeToString([]byte(secret)), "c2stY2FuYXJ5", url.QueryEscape(secret)} {
					if strings.Contains(said, form) {
						t.Errorf("%q stands in %q", form, said)
					}
				}
			})
		}
	}
}
