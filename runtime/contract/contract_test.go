package contract_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	want := contract.Snapshot{
		Schema: contract.SnapshotSchema, Run: contract.Identity{Namespace: "ns", Name: "r", UID: "u"}, Revision: "triage-6d5f8c00",
		Agent: v1alpha1.CompiledAgent{Instructions: "Sort <tickets> & \"quote\".", Limits: v1alpha1.Limits{Turns: 4}}, Task: "a\u2028b",
	}
	body, digest, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := contract.DecodeSnapshot(body)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, again, _ := got.Encode(); again != digest {
		t.Errorf("what was read has another digest: %s, %s", again, digest)
	}
	for name, stored := range map[string]string{
		"a later schema":  strings.Replace(string(body), `"schema":1`, `"schema":2`, 1),
		"no schema":       `{}`,
		"half a snapshot": string(body[:len(body)/2]),
	} {
		if _, err := contract.DecodeSnapshot([]byte(stored)); !errors.Is(err, contract.ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTermsOfAnotherVersion: those that are older than their number are read, those of a later form never half.
func TestTermsOfAnotherVersion(t *testing.T) {
	t.Parallel()
	want := contract.Snapshot{Agent: v1alpha1.CompiledAgent{Limits: v1alpha1.Limits{Turns: 4}}}.Terms()
	body, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	const number = `"schema":1,`
	for name, stored := range map[string]string{"of this version": string(body), "without a number": strings.Replace(string(body), number, "", 1)} {
		got, err := contract.DecodeTerms([]byte(stored))
		if got.Schema = want.Schema; err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, stored := range map[string]string{"a later schema": strings.Replace(string(body), number, `"schema":2,`, 1), "half": string(body[:len(body)/2])} {
		if got, err := contract.DecodeTerms([]byte(stored)); !errors.Is(err, contract.ErrSchema) || got.Limits.Turns != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestClip cuts texts of one to four bytes a character at every length.
func TestClip(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"plain", "naïve", "日本語", "🏃‍♀️🏃", "e\u0301e\u0301", "a\x00b\xffc"} {
		clean := contract.Clean(s)
		for limit := range len(clean) + 2 {
			got := contract.Clip(s, limit)
			if len(got) > limit || !utf8.ValidString(got) || !strings.HasPrefix(clean, got) || strings.ContainsRune(got, 0) {
				t.Errorf("Clip(%q, %d) = %q", s, limit, got)
			}
			if len(clean) <= limit && got != clean {
				t.Errorf("Clip(%q, %d) = %q: cut although it fits", s, limit, got)
			}
			if limit-len(got) >= utf8.UTFMax && len(got) < len(clean) {
				t.Errorf("Clip(%q, %d) = %q: shorter than it must be", s, limit, got)
			}
		}
	}
}

func TestFaultsThatAreNobodysAreNotCounted(t *testing.T) {
	t.Parallel()
	for code, want := range map[contract.FaultCode]bool{
		contract.FaultLedger: false, contract.FaultDeferred: false, contract.FaultStopped: false,
		contract.FaultSecretMissing: true, contract.FaultCABundleMissing: true, "OfALaterVersion": true,
	} {
		if got := code.Counted(); got != want {
			t.Errorf("%s: counted %t", code, got)
		}
	}
}

// TestTermsSayWhatToMount lists each key and each bundle that a snapshot names.
func TestTermsSayWhatToMount(t *testing.T) {
	t.Parallel()
	key := func(name string) v1alpha1.KeyReference { return v1alpha1.KeyReference{Name: name, Key: "k"} }
	tls := func(name string) v1alpha1.TLS {
		return v1alpha1.TLS{CABundle: v1alpha1.CABundle{ConfigMap: key(name)}}
	}
	var s contract.Snapshot
	s.Agent.Model.Endpoint.Credentials.SecretRef = key("llm")
	s.Agent.Model.Endpoint.TLS = tls("model-ca")
	s.Agent.Servers = []v1alpha1.CompiledServer{
		{Name: "a", TLS: tls("tools-ca")}, {Name: "b", Credentials: v1alpha1.Credentials{SecretRef: key("b")}}, {Name: "c", TLS: tls("tools-ca")},
	}
	want := contract.Terms{
		Schema: contract.TermsSchema, Credential: key("llm"), Tools: []contract.ToolCredential{{Server: "b", Key: key("b")}},
		CABundles: []contract.CABundle{{File: "model/ca.crt", Key: key("model-ca")}, {File: "tools/a/ca.crt", Key: key("tools-ca")}, {File: "tools/c/ca.crt", Key: key("tools-ca")}},
	}
	if diff := cmp.Diff(want, s.Terms()); diff != "" {
		t.Errorf("Terms() (-want +got):\n%s", diff)
	}
}
