package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// kept is a store of contracts in memory.
type kept struct {
	Namespace, Server types.UID
	Generation        int64
	Tools             []string
	refuse            error
}

func (k *kept) Keep(_ context.Context, namespace, server types.UID, generation int64, tools []contract.ToolContract) error {
	if k.refuse != nil {
		return k.refuse
	}
	k.Namespace, k.Server, k.Generation = namespace, server, generation
	for _, t := range tools {
		k.Tools = append(k.Tools, t.Name)
	}
	return nil
}

func TestDiscover(t *testing.T) { // not parallel: the description of the server is in the environment
	const key = "sk-canary-discover"
	broken := errors.New("disk full")
	rows := map[string]struct {
		key    string
		change func(*contract.Discovery)
		store  kept
		want   *contract.Fault
		err    error
		kept   []string
		out    []string
	}{
		"tools are kept and told": {
			key: key + "\n", kept: []string{"get_customer", "refund"}, out: []string{`"event":"ToolFound","tool":"get_customer","digest":"sha256:`, `"tool":"refund"`},
		},
		"a key that is not there is a fault": {
			key: " ", want: &contract.Fault{Code: contract.FaultSecretMissing, Message: `Secret "crm-key" has no key "token" in this namespace, or it is empty: create it`},
		},
		"a bundle that is not there is a fault": {
			key: key, change: func(d *contract.Discovery) {
				d.Server.TLS.CABundle.ConfigMap = v1alpha1.KeyReference{Name: "corp-ca", Key: "ca.crt"}
			},
			want: &contract.Fault{Code: contract.FaultCABundleMissing, Message: `ConfigMap "corp-ca" has no key "ca.crt" in this namespace: create it, or correct spec.tls.caBundle`},
		},
		"a key that is not accepted is one": {
			key: "other", want: &contract.Fault{Code: contract.FaultUnreachable, Message: "HOST: nothing was sent: no session could be opened: the server does not accept the key that it was given (401 Unauthorized)"},
		},
		"a server that cannot be used is one": {
			key: key, change: func(d *contract.Discovery) { d.Server.Type = v1alpha1.ToolServerHTTP },
			want: &contract.Fault{Code: contract.FaultUnusable, Message: `the server has the type "HTTP": only tools of MCP servers are discovered`},
		},
		"a store that does not answer is one": {
			key: key, store: kept{refuse: fmt.Errorf("%w: gone", segment.ErrUnavailable)},
			want: &contract.Fault{Code: contract.FaultLedger, Message: "the store is unavailable: gone"},
		},
		"a store that refuses is a crash": {key: key, store: kept{refuse: broken}, err: broken},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			srv := toolserver.Start(t, toolserver.Options{RequireKey: key})
			d := contract.Discovery{NamespaceUID: "n", Generation: 7, Server: v1alpha1.CompiledServer{
				Name: "crm", UID: "u", Type: v1alpha1.ToolServerMCP, URL: srv.URL + "/mcp", Egress: v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}},
				Credentials: v1alpha1.Credentials{SecretRef: v1alpha1.KeyReference{Name: "crm-key", Key: "token"}},
			}}
			if row.change != nil {
				row.change(&d)
			}
			describe(t, d)
			file := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(file, []byte(row.key), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			got, err := discover(t.Context(), discoverOptions{credentialFile: file}, &out, &row.store)
			if row.want != nil {
				row.want.Message = strings.Replace(row.want.Message, "HOST", strings.TrimPrefix(srv.URL, "http://"), 1)
			}
			if diff := cmp.Diff(row.want, got); diff != "" || !errors.Is(err, row.err) {
				t.Error(err, diff)
			}
			if diff := cmp.Diff(row.kept, row.store.Tools); diff != "" {
				t.Error(diff)
			}
			if row.kept != nil && (row.store.Namespace != "n" || row.store.Server != "u" || row.store.Generation != 7) {
				t.Errorf("kept under %+v", row.store)
			}
			for _, line := range row.out {
				if !strings.Contains(out.String(), line) {
					t.Errorf("%s is missing in %s", line, out.String())
				}
			}
			if strings.Contains(out.String(), key) {
				t.Errorf("the key is told: %s", out.String())
			}
		})
	}
}

func describe(t *testing.T, d contract.Discovery) {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(contract.DiscoveryEnv, string(b))
}

func TestDiscoverWithoutADescription(t *testing.T) {
	t.Setenv(contract.DiscoveryEnv, "")
	if fault, err := discover(t.Context(), discoverOptions{}, &bytes.Buffer{}, &kept{}); fault != nil || err == nil || !strings.Contains(err.Error(), contract.DiscoveryEnv) {
		t.Errorf("got %v, %v", fault, err)
	}
}

func TestParseDiscover(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		given []string
		want  discoverOptions
		says  string
	}{
		"all flags":             {given: []string{"--dsn-file", "d", "--credential-file", "c", "--ca-dir", "a", "--termination-log", "t"}, want: discoverOptions{"d", "c", "a", "t"}},
		"a DSN is needed":       {given: nil, says: "--dsn-file is missing"},
		"nothing else is taken": {given: []string{"--dsn-file", "d", "x"}, says: `unexpected argument "x"`},
		"help is shown":         {given: []string{"--help"}, says: "help requested"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			got, err := parseDiscover(row.given, &out)
			if row.says != "" {
				if err == nil || !strings.Contains(err.Error(), row.says) {
					t.Errorf("got %v", err)
				}
				return
			}
			if diff := cmp.Diff(row.want, got, cmp.AllowUnexported(discoverOptions{})); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}
