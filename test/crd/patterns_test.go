package crd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// patterns are what each pattern is for, and what it keeps out. A path that ends a longer one stands for it.
var patterns = map[string]struct{ accepted, refused []string }{
	"spec.idempotencyKey": {
		accepted: []string{"k", "ticket-4711", "https://example.test/a?b#c", `a"b\c`},
		refused:  []string{"two words", "tab\t", "grün", "line\n"},
	},
	"input.from.configMap.key": {
		accepted: []string{"task", "today.txt", ".hidden", "a_b-c.D"},
		refused:  []string{"a/b", "../x ", "a b", "ü"},
	},
	"credentials.secretRef.key": {
		accepted: []string{"apiKey", "api.key"},
		refused:  []string{"a/b", "a b"},
	},
	"caBundle.configMap.key": {
		accepted: []string{"ca.crt", "ca-bundle.pem"},
		refused:  []string{"a/b", "a b"},
	},
	"pods.serviceAccountName": names,
	"pods.runtimeClassName":   names,
	"pods.priorityClassName":  names,
	"pods.tolerations[0].value": {
		accepted: []string{"agents", "A_b.c-d", "1"},
		refused:  []string{"-a", "a.", "a b", "a/b"},
	},
	"pods.env[0].name": {
		accepted: []string{"GOMEMLIMIT", "_a1"},
		refused:  []string{"1A", "A-B", "A.B", "A B", "Ä"},
	},
	"credentials.header": {
		accepted: []string{"api-key", "X-Api-Key2"},
		refused:  []string{"X Api", "X:Y", "X_Y", "X\r\nY"},
	},
	"headers[0].name": {
		accepted: []string{"X-Team", "x1"},
		refused:  []string{"X Team", "X-Team:", "X\r\nHost", "X_Y"},
	},
	"headers[0].value": {
		accepted: []string{"support", "a b", "~!"},
		refused:  []string{"a\r\nHost: b", "tab\t", "grün"},
	},
	"http.tools[0].name":  toolNames,
	"agent.tools[0].name": toolNames,
	"tools[0].as":         toolNames,
	"http.tools[0].path": {
		accepted: []string{"/", "/customers", "/customers/{id}", "/{a}/{b}", "/a{id}b", "/a:b,c;d", "/grün"},
		refused:  []string{"customers", "/a?b=c", "/a#b", "/a b", "/a\t", "/{id", "/id}", "/{}", "/{{id}}", "/{a/b}"},
	},
	"spec.rules[0].name":          labels,
	"spec.rules[0].approval.pool": labels,
	"spec.pool":                   labels,
	"pricing.inputPerMTok":        prices,
	"pricing.outputPerMTok":       prices,
	"pricing.cacheReadPerMTok":    prices,
	"spec.digest":                 digests,
	"call.digest":                 digests,
	"tools[0].digest":             digests,
	"tools[0].probe.digest":       digests,
	"status.snapshotDigest":       digests,
	"status.result.digest":        digests,
	"status.conditions[0].type": {
		accepted: []string{"Succeeded", "example.test/Succeeded"},
		refused:  []string{"a b", "-x"},
	},
	"status.conditions[0].reason": {
		accepted: []string{"Running", "A_b,c:d"},
		refused:  []string{"two words", "1st", "ends:"},
	},
}

var labels = struct{ accepted, refused []string }{
	accepted: []string{"a", "finance", "small-refunds", "4-eyes"},
	refused:  []string{"Finance", "-a", "a-", "a.b", "a b", "a/b", "ü"},
}

var names = struct{ accepted, refused []string }{
	accepted: []string{"a", "agents-2", "a.b"},
	refused:  []string{"A", "-a", "a-", "a..b", "a_b", "a b", "ü"},
}

var toolNames = struct{ accepted, refused []string }{
	accepted: []string{"a", "get_customer", "crm__get-customer", "A1"},
	refused:  []string{"a.b", "a b", "a/b", "ü", "a\n"},
}

var prices = struct{ accepted, refused []string }{
	accepted: []string{"0", "1.25", "10", "999999.999999", "0.000001", "007"},
	refused:  []string{"-1", "1,25", "1.", ".5", "1e3", "1000000", "0.0000001", "1.25 ", "free", "NaN"},
}

var digests = struct{ accepted, refused []string }{
	accepted: []string{digest},
	refused:  []string{strings.ToUpper(digest), strings.Replace(digest, "sha256", "sha512", 1), strings.Replace(digest, "0", "g", 1)},
}

// TestEveryPatternHolds: no pattern without a value that it lets pass, and one that it keeps out by name of the field.
func TestEveryPatternHolds(t *testing.T) {
	t.Parallel()
	server := installed(t)
	admin, namespace := server.Client(t), server.Namespace(t)
	used := map[string]bool{}
	for kind, of := range schemas(t) {
		status := statusSubject(t, admin, example(t, kind, 0, server.Namespace(t)))
		walk(of, func(path string, field schema, _ bool) {
			if field.Pattern == "" {
				return
			}
			suffix := ending(path)
			if suffix == "" {
				t.Errorf("%s %s has a pattern: say in patterns what it lets pass", kind, path)
				return
			}
			used[suffix] = true
			try := func(value string) error {
				if strings.HasPrefix(path, "status.") {
					return status(t, set(path, value))
				}
				for nth := range examples[kind] {
					if object := example(t, kind, nth, namespace); has(object.Object, path) {
						set(path, value)(t, object.Object)
						return tried(t, admin, object)
					}
				}
				return fmt.Errorf("%s is set in no example", path)
			}
			for _, value := range patterns[suffix].accepted {
				if err := try(value); err != nil {
					t.Errorf("%s %s: %q is refused: %s", kind, path, value, clip(err))
				}
			}
			for _, value := range patterns[suffix].refused {
				if err := try(value); err == nil {
					t.Errorf("%s %s: %q is accepted", kind, path, value)
				} else if !strings.Contains(err.Error(), path) {
					t.Errorf("%s %s: %q is refused without naming the field: %s", kind, path, value, clip(err))
				}
			}
		})
	}
	for _, suffix := range slices.Sorted(maps.Keys(patterns)) {
		if !used[suffix] {
			t.Errorf("patterns has %s, which no field ends in", suffix)
		}
	}
}

func ending(path string) string {
	for suffix := range patterns {
		if path == suffix || strings.HasSuffix(path, "."+suffix) {
			return suffix
		}
	}
	return ""
}
