package egress_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
	"github.com/ekiden-dev/ekiden/runtime/egress"
	"github.com/ekiden-dev/ekiden/runtime/egress/egresstest"
)

var loopback = v1alpha1.Egress{Allow: []string{"127.0.0.0/8"}}

// through asks for a URL by a route.
func through(t *testing.T, r *egress.Route, url string) (string, error) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	r.Equip(transport)
	t.Cleanup(transport.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

func route(t *testing.T, e v1alpha1.Egress, proxy string, bundle []byte) *egress.Route {
	t.Helper()
	r, err := egress.NewRoute(e, v1alpha1.Proxy{URL: proxy}, bundle)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func TestABundleIsTrusted(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(http.HandlerFunc(hello))
	srv.Config.ErrorLog = nil
	t.Cleanup(srv.Close)
	if got, err := through(t, route(t, loopback, "", egresstest.Bundle(srv)), srv.URL); err != nil || got != "hello" {
		t.Errorf("with its bundle: %q, %v", got, err)
	}
	_, err := through(t, route(t, loopback, "", nil), srv.URL)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("without it: %v", err)
	}
	other := []byte("-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n")
	for name, bundle := range map[string][]byte{"nothing": {}, "words": []byte("trust me"), "no certificate": other} {
		if _, err := egress.NewRoute(loopback, v1alpha1.Proxy{}, bundle); err == nil || egress.Certificates(bundle) {
			t.Errorf("a bundle of %s is taken", name)
		}
	}
}

func TestAProxyIsUsed(t *testing.T) {
	t.Parallel()
	secure, plain := httptest.NewTLSServer(http.HandlerFunc(hello)), httptest.NewServer(http.HandlerFunc(hello))
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	proxy := egresstest.Start(t)
	r := route(t, loopback, proxy.URL, egresstest.Bundle(secure))
	// Only the proxy knows who example.com is.
	named := strings.Replace(secure.URL, "127.0.0.1", "example.com", 1)
	for _, url := range []string{named, strings.Replace(plain.URL, "127.0.0.1", "example.com", 1)} {
		if got, err := through(t, r, url); err != nil || got != "hello" {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	if proxy.Connects.Load() != 1 || proxy.Forwards.Load() != 1 || proxy.Hosts()[0] != strings.TrimPrefix(named, "https://") {
		t.Errorf("%d tunnels, %d requests, of %v", proxy.Connects.Load(), proxy.Forwards.Load(), proxy.Hosts())
	}
	proxy.Refuse = http.StatusProxyAuthRequired
	_, err := through(t, r, named)
	if refused, ok := errors.AsType[*egress.ProxyError](err); !ok || refused.Status != http.StatusProxyAuthRequired {
		t.Errorf("a proxy that refuses: %v", err)
	}
	_, err = through(t, route(t, loopback, "http://127.0.0.1:1", nil), "https://example.com")
	if err == nil || !egress.AtProxy(err) {
		t.Errorf("a proxy that is not there: %v", err)
	}
	if _, err = through(t, route(t, loopback, "", nil), "http://127.0.0.1:1"); err == nil || egress.AtProxy(err) {
		t.Errorf("a server that is not there, without a proxy: %v", err)
	}
}

// TestAVariableIsNoProxy: what the environment says would dial for us unasked.
func TestAVariableIsNoProxy(t *testing.T) {
	proxy := egresstest.Start(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	_, err := through(t, route(t, v1alpha1.Egress{}, "", nil), "http://127.0.0.1:1")
	if !errors.Is(err, egress.ErrRefused) || proxy.Forwards.Load()+proxy.Connects.Load() != 0 {
		t.Errorf("%v; the proxy was asked for %v", err, proxy.Hosts())
	}
}

func TestWhatIsCheckedThroughAProxy(t *testing.T) {
	t.Parallel()
	proxy := egresstest.Start(t)
	proxy.Refuse = http.StatusTeapot
	tests := map[string]struct {
		egress v1alpha1.Egress
		url    string
		proxy  string
		// want is what is refused, or nothing if the proxy is asked; ofProxy says that it is the proxy's address.
		want    string
		ofProxy bool
	}{
		"a name is for the proxy to judge":                {egress: loopback, url: "https://intranet.corp"},
		"so is a public address":                          {egress: loopback, url: "https://8.8.8.8"},
		"a private address is refused":                    {egress: loopback, url: "https://10.1.2.3", want: "10.1.2.3 is private"},
		"unless it is listed":                             {egress: v1alpha1.Egress{Allow: []string{"127.0.0.0/8", "10.0.0.0/8"}}, url: "https://10.1.2.3"},
		"a private address in IPv6 is refused":            {egress: loopback, url: "https://[fd00::1]", want: "fd00::1 is private (unique local)"},
		"a mapped address is refused":                     {egress: loopback, url: "https://[::ffff:10.1.2.3]", want: "10.1.2.3 is private"},
		"the metadata address is refused":                 {egress: loopback, url: "http://169.254.169.254/latest", want: "a metadata service"},
		"so is its name":                                  {egress: loopback, url: "http://metadata.google.internal./", want: "a metadata service"},
		"an address in one number is refused":             {egress: loopback, url: "http://2130706433", want: "2130706433 is another spelling of an address"},
		"an address in hexadecimal is refused":            {egress: loopback, url: "http://0x7f000001", want: "another spelling"},
		"an address with a part left out is refused":      {egress: loopback, url: "http://127.1", want: "another spelling"},
		"an address in wide digits is refused":            {egress: loopback, url: "https://１６９.２５４.１６９.２５４/", want: "write it in ASCII"},
		"so is one with dots of another script":           {egress: loopback, url: "https://169。254。169。254/", want: "write it in ASCII"},
		"and this machine in wide letters":                {egress: loopback, url: "https://ｌocalhost/", want: "write it in ASCII"},
		"and a metadata service with half a dot":          {egress: loopback, url: "https://metadata｡google｡internal/", want: "write it in ASCII"},
		"and a hyphen that nobody sees, which is shown":   {egress: loopback, url: "http://meta\u00addata.google.internal/", want: `"meta\u00addata.google.internal" is`},
		"a name of another script is to be in punycode":   {egress: loopback, url: "https://bücher.example", want: "write it in ASCII"},
		"and then the proxy judges it":                    {egress: loopback, url: "https://xn--bcher-kva.example"},
		"an address with two dots at its end is refused":  {egress: v1alpha1.Egress{Allow: []string{"127.0.0.1/32"}}, url: "https://10.0.0.1..", want: "10.0.0.1 is private"},
		"so is a name of a metadata service":              {egress: loopback, url: "http://metadata.google.internal...", want: "a metadata service"},
		"and its short name":                              {egress: loopback, url: "https://metadata.goog", want: "a metadata service"},
		"and that of another cloud":                       {egress: loopback, url: "http://instance-data.ec2.internal", want: "a metadata service"},
		"this machine is refused":                         {egress: v1alpha1.Egress{Allow: []string{"127.0.0.1/32"}}, url: "http://localhost"},
		"a name below this machine is this machine":       {egress: loopback, url: "http://x.localhost"},
		"a private proxy that is not listed is refused":   {url: "https://example.com", want: "127.0.0.1 is loopback", ofProxy: true},
		"a proxy is refused by what its name resolves to": {proxy: "http://localhost:1", url: "https://example.com", want: "is loopback", ofProxy: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := tc.proxy
			if at == "" {
				at = proxy.URL
			}
			got, err := through(t, route(t, tc.egress, at, nil), tc.url)
			refused, ok := errors.AsType[*egress.Refusal](err)
			if tc.want == "" && ok {
				t.Errorf("refused: %v", err)
			}
			if tc.want != "" && (!ok || !strings.Contains(err.Error(), tc.want) || refused.Proxy != tc.ofProxy || got != "") {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestTheMachineItselfIsRefusedThroughAProxy(t *testing.T) {
	t.Parallel()
	// The proxy is elsewhere, so that nothing needs the loopback.
	r := route(t, v1alpha1.Egress{}, "http://192.0.2.1:3128", nil)
	for _, url := range []string{"http://localhost", "http://a.LOCALHOST.", "http://localhost..", "http://127.0.0.1", "http://127.0.0.1..", "http://[::1]"} {
		if _, err := through(t, r, url); !errors.Is(err, egress.ErrRefused) || strings.Contains(err.Error(), "192.0.2.1") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestRoutesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, proxy := range []string{"proxy:3128", "socks5://proxy", "http://", "http://user:pw@proxy", "http://a b"} {
		if _, err := egress.NewRoute(loopback, v1alpha1.Proxy{URL: proxy}, nil); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v", proxy, err)
		}
	}
	if _, err := egress.NewRoute(v1alpha1.Egress{Allow: []string{"10.0.0.1"}}, v1alpha1.Proxy{}, nil); err == nil {
		t.Error("a range that is none is taken")
	}
}
