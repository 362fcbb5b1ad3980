package tool_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/contract"
	"github.com/ekiden-dev/ekiden/runtime/egress/egresstest"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/runtime/tool"
	"github.com/ekiden-dev/ekiden/test/toolserver"
)

// TestARoute reaches tools behind an authority of their own and a proxy: every request of every protocol takes it.
func TestARoute(t *testing.T) {
	t.Parallel()
	for flavour, o := range flavours {
		o.RequireKey = secret
		behind := toolserver.New(o)
		srv := httptest.NewTLSServer(behind)
		t.Cleanup(srv.Close)
		t.Cleanup(behind.Stop)
		behind.URL = srv.URL
		bundle := egresstest.Bundle(srv)
		for name, tc := range map[string]struct {
			bundle []byte
			allow  []string
			refuse int
			want   segment.CallResult
			url    string
			// unasked says that the proxy must not be asked at all.
			unasked bool
		}{
			"with its bundle":              {bundle: bundle, want: segment.CallResult{Text: "Ada"}},
			"without it":                   {want: segment.CallResult{Text: "the certificate of the server is not trusted"}},
			"through a proxy that refuses": {bundle: bundle, refuse: http.StatusForbidden, want: segment.CallResult{Text: "(spec.proxy of its ToolServer) makes no connection: it answered 403 Forbidden"}},
			"through a proxy that may not be dialled": {
				bundle: bundle, allow: []string{"10.0.0.0/8"}, unasked: true,
				want: segment.CallResult{Text: "the platform does not let this server be dialled"},
			},
			"to an address in disguise": {
				bundle: bundle, url: "https://１２７.0.0.1", unasked: true, want: segment.CallResult{Text: "write it in ASCII"},
			},
		} {
			t.Run(flavour+" "+name, func(t *testing.T) {
				t.Parallel()
				proxy := egresstest.Start(t)
				proxy.Refuse = tc.refuse
				r := rigOn(t, behind, flavour == api, func(s *v1alpha1.CompiledServer) {
					s.Proxy.URL = proxy.URL
					if tc.url != "" {
						s.URL = tc.url
					}
					if tc.allow != nil {
						s.Egress.Allow = tc.allow
					}
				})
				v, err := tool.New([]v1alpha1.CompiledServer{r.compiled}, r.dir, map[string][]byte{"crm": tc.bundle}, v1alpha1.Retry{MaxAttempts: 1})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(v.Close)
				r.invoker = v
				if err := r.make(t.Context(), r.reads()); err != nil {
					t.Fatal(err)
				}
				if len(r.settled) != 1 || !strings.Contains(r.settled[0].Text, tc.want.Text) {
					t.Errorf("settled %+v, want %q", r.settled, tc.want.Text)
				}
				if asked := proxy.Connects.Load() > 0; asked == tc.unasked || proxy.Forwards.Load() > 0 {
					t.Errorf("%d tunnels, %d requests", proxy.Connects.Load(), proxy.Forwards.Load())
				}
			})
		}
	}
}

// TestADiscoveryTakesTheRoute too.
func TestADiscoveryTakesTheRoute(t *testing.T) {
	t.Parallel()
	behind := toolserver.New(toolserver.Options{RequireKey: secret})
	srv := httptest.NewTLSServer(behind)
	t.Cleanup(srv.Close)
	t.Cleanup(behind.Stop)
	proxy := egresstest.Start(t)
	d := contract.Discovery{Server: v1alpha1.CompiledServer{
		Name: "crm", Type: v1alpha1.ToolServerMCP, URL: srv.URL + "/mcp", Proxy: v1alpha1.Proxy{URL: proxy.URL}, Egress: v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}},
		Credentials: v1alpha1.Credentials{SecretRef: v1alpha1.KeyReference{Name: "crm-key", Key: "token"}},
	}}
	tools, _, err := tool.Discover(t.Context(), d, secret, egresstest.Bundle(srv))
	if err != nil || len(tools) != 2 || proxy.Connects.Load() == 0 {
		t.Errorf("%d tools, %v, %d tunnels", len(tools), err, proxy.Connects.Load())
	}
	if _, _, err = tool.Discover(t.Context(), d, secret, nil); err == nil || !strings.Contains(err.Error(), "the certificate of the server is not trusted") {
		t.Errorf("without its bundle: %v", err)
	}
}
