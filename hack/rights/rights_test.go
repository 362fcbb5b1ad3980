package rights_test

import (
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/hack/rights"
)

// TestEveryRightHasAPurpose and every purpose a right. That each is made use of shows in the audit log of the stories.
func TestEveryRightHasAPurpose(t *testing.T) {
	objects, err := rights.Manifests("../../config/default")
	if err != nil {
		t.Fatal(err)
	}
	granted, err := rights.Of("ekiden-manager", objects)
	if err != nil {
		t.Fatal(err)
	}
	if len(granted) < 50 {
		t.Errorf("only %d rights were found: something was not read", len(granted))
	}
	purposes := map[rights.Right]bool{}
	for _, p := range rights.Manager() {
		if purposes[p.Right] {
			t.Errorf("%s has two purposes", p.Right)
		}
		purposes[p.Right] = true
	}
	for _, r := range granted {
		if !purposes[r] {
			t.Errorf("nobody says what the manager may %s for", r)
		}
		delete(purposes, r)
	}
	for r := range purposes {
		t.Errorf("the manager has a purpose for %s and not the right", r)
	}
}

func TestUsed(t *testing.T) {
	const log = `{"verb":"get","user":{"username":"m"},"objectRef":{"resource":"secrets","name":"mine"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"get","user":{"username":"m"},"objectRef":{"resource":"secrets","name":"other"},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"patch","user":{"username":"m"},"objectRef":{"resource":"agentruns","subresource":"status","apiGroup":"ekiden.dev","name":"r"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"delete","user":{"username":"another"},"objectRef":{"resource":"jobs","apiGroup":"batch"},"annotations":{"authorization.k8s.io/decision":"allow"}}
`
	cases := map[string]struct {
		right rights.Right
		used  bool
	}{
		"a right to one object, used on it":   {rights.Right{Resource: "secrets", Verb: "get", Name: "mine"}, true},
		"a right that was refused":            {rights.Right{Resource: "secrets", Verb: "get", Name: "other"}, false},
		"a right to all objects, used on one": {rights.Right{Resource: "secrets", Verb: "get"}, true},
		"a right to a subresource":            {rights.Right{Group: "ekiden.dev", Resource: "agentruns/status", Verb: "patch"}, true},
		"a right to the resource itself":      {rights.Right{Group: "ekiden.dev", Resource: "agentruns", Verb: "patch"}, false},
		"a right that another account used":   {rights.Right{Group: "batch", Resource: "jobs", Verb: "delete"}, false},
		"another verb":                        {rights.Right{Resource: "secrets", Verb: "list"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			used, err := rights.Used(strings.NewReader(log), "m", []rights.Right{tc.right})
			if err != nil || used[tc.right] != tc.used {
				t.Errorf("%s is used: %t (%v), want %t", tc.right, used[tc.right], err, tc.used)
			}
		})
	}
}
