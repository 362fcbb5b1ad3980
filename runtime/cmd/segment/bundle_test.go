package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/egress/egresstest"
)

// TestBundles says for each way in which a bundle can be missing what becomes of the segment.
func TestBundles(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(nil)
	t.Cleanup(srv.Close)
	pem := string(egresstest.Bundle(srv))
	in := func(configMap string) v1alpha1.TLS {
		return v1alpha1.TLS{CABundle: v1alpha1.CABundle{ConfigMap: v1alpha1.KeyReference{Name: configMap, Key: "ca.crt"}}}
	}
	absent := func(what string) *contract.Fault {
		return &contract.Fault{Code: contract.FaultCABundleMissing, Message: what}
	}
	for name, tc := range map[string]struct {
		files map[string]string
		model v1alpha1.TLS
		tools v1alpha1.TLS
		want  *contract.Fault
	}{
		"none is wanted":               {},
		"both are there":               {files: map[string]string{contract.ModelCA: pem, contract.ToolCA("crm"): pem}, model: in("a"), tools: in("b")},
		"that of the model is missing": {files: map[string]string{contract.ToolCA("crm"): pem}, model: in("a"), tools: in("b"), want: absent(`ConfigMap "a" has no key "ca.crt" in this namespace: create it, or correct spec.tls.caBundle`)},
		"that of a server is missing":  {files: map[string]string{contract.ModelCA: pem}, model: in("a"), tools: in("b"), want: absent(`ConfigMap "b" has no key "ca.crt" in this namespace: create it, or correct spec.tls.caBundle`)},
		"it is empty":                  {files: map[string]string{contract.ModelCA: ""}, model: in("a"), want: absent(`key "ca.crt" of ConfigMap "a" holds no certificate in PEM: correct it, or spec.tls.caBundle`)},
		"it is something else":         {files: map[string]string{contract.ModelCA: "trust me"}, model: in("a"), want: absent(`key "ca.crt" of ConfigMap "a" holds no certificate in PEM: correct it, or spec.tls.caBundle`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range tc.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			agent := v1alpha1.CompiledAgent{Servers: []v1alpha1.CompiledServer{{Name: "crm", TLS: tc.tools}}}
			agent.Model.Endpoint.TLS = tc.model
			got, fault := bundles(options{caDir: dir}, agent)
			if diff := cmp.Diff(tc.want, fault); diff != "" {
				t.Errorf("fault (-want +got):\n%s", diff)
			}
			if tc.want == nil && (string(got.model) != tc.files[contract.ModelCA] || string(got.tools["crm"]) != tc.files[contract.ToolCA("crm")]) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
