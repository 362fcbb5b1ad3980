package openai_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/egress/egresstest"
	"github.com/ekiden-dev/ekiden/runtime/model/openai"
	"github.com/ekiden-dev/ekiden/runtime/segment"
	"github.com/ekiden-dev/ekiden/test/modelserver"
)

// TestARoute reaches a model behind an authority of its own and a proxy, and says in words what went wrong if not.
func TestARoute(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(modelserver.New(modelserver.One(modelserver.Step{Text: "ok"}), nil))
	t.Cleanup(srv.Close)
	bundle := egresstest.Bundle(srv)
	host := strings.TrimPrefix(srv.URL, "https://")
	tests := map[string]struct {
		bundle  []byte
		proxied bool
		proxy   string
		refuse  int
		allow   []string
		code    string
		want    string
		tunnels int64
	}{
		"with its bundle":                     {bundle: bundle},
		"without it":                          {code: openai.CodeUnreachable, want: "the certificate of " + host + " is not trusted"},
		"through a proxy":                     {bundle: bundle, proxied: true, tunnels: 1},
		"through a proxy, without its bundle": {proxied: true, tunnels: 1, code: openai.CodeUnreachable, want: "the certificate of " + host + " is not trusted"},
		"through a proxy that refuses": {
			proxied: true, refuse: http.StatusForbidden, tunnels: 1, code: openai.CodeUnreachable,
			want: "the proxy (spec.proxy of the ModelEndpoint) makes no connection to " + host + ": it answered 403 Forbidden",
		},
		"through a proxy that is not there": {
			proxy: "http://127.0.0.1:1", code: openai.CodeUnreachable, want: "127.0.0.1:1 (spec.proxy of the ModelEndpoint) refused the connection",
		},
		"through a proxy of no name": {
			proxy: "http://proxy.invalid:1", code: openai.CodeUnreachable, want: "proxy.invalid (spec.proxy of the ModelEndpoint)",
		},
		"through a private proxy that is not listed": {
			proxied: true, allow: []string{"10.0.0.0/8"}, code: v1alpha1.ReasonEgressRefused, want: "the endpoint's address 127.0.0.1 is loopback",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := egresstest.Start(t)
			proxy.Refuse = tc.refuse
			e := endpoint(srv.URL + "/v1")
			if e.Proxy.URL = tc.proxy; tc.proxied {
				e.Proxy.URL = proxy.URL
			}
			if tc.allow != nil {
				e.Egress.Allow = tc.allow
			}
			c, err := openai.New(e, v1alpha1.Sampling{}, key, tc.bundle)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			a, err := c.Answer(t.Context(), task("hi"), nil)
			if tc.code == "" && (err != nil || a.Text != "ok") {
				t.Errorf("%+v, %v", a, err)
			}
			if failed, ok := errors.AsType[*segment.CallError](err); tc.code != "" && (!ok || failed.Code != tc.code || !strings.Contains(failed.Message, tc.want)) {
				t.Errorf("got %v, want %s %q", err, tc.code, tc.want)
			}
			if got := proxy.Connects.Load(); got != tc.tunnels {
				t.Errorf("%d tunnels, want %d", got, tc.tunnels)
			}
		})
	}
}

// TestAPrivateProxyIsRefused by its own address, though its server is public.
func TestAPrivateProxyIsRefused(t *testing.T) {
	t.Parallel()
	proxy := egresstest.Start(t)
	_, err := client(t, "https://llm.example/v1", func(e *v1alpha1.ModelEndpointSpec) { e.Proxy.URL, e.Egress.Allow = proxy.URL, nil }).Answer(t.Context(), task("hi"), nil)
	e, ok := errors.AsType[*segment.CallError](err)
	if !ok || e.Retryable || e.Code != v1alpha1.ReasonEgressRefused || !strings.HasPrefix(e.Message, "the proxy's address 127.0.0.1 is loopback") || proxy.Connects.Load() != 0 {
		t.Errorf("got %v", err)
	}
}

// TestAnAddressInDisguiseIsRefused with what to write, and not with a range to list.
func TestAnAddressInDisguiseIsRefused(t *testing.T) {
	t.Parallel()
	proxy := egresstest.Start(t)
	_, err := client(t, "https://１２７.0.0.1/v1", func(e *v1alpha1.ModelEndpointSpec) { e.Proxy.URL = proxy.URL }).Answer(t.Context(), task("hi"), nil)
	e, ok := errors.AsType[*segment.CallError](err)
	if !ok || e.Code != v1alpha1.ReasonEgressRefused || !strings.Contains(e.Message, "write it in ASCII") || strings.Contains(e.Message, "egress.allow") || proxy.Connects.Load() != 0 {
		t.Errorf("got %v", err)
	}
}
