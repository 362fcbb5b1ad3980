package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// Route is how a server is reached: past which ranges, through which proxy, and whose certificates are trusted.
//
// Without a proxy it is the server's address that is checked, when it is dialled. With one it is the proxy's: nobody here looks up the
// server's name, so what it resolves to cannot be checked here either. What is written as an address still is, in whatever spelling,
// and so are the names that mean this machine or a metadata service everywhere. Which other names may be reached is for the proxy to
// say; whoever writes spec.proxy trusts it with that. Variables such as HTTPS_PROXY are not heeded: such a proxy would dial for us
// unasked.
type Route struct {
	allow []netip.Prefix
	proxy *url.URL
	roots *x509.CertPool
}

// NewRoute is the route that the fields of a spec describe. The bundle holds certificates of authorities in PEM that are trusted besides
// those of the image; nil means none.
func NewRoute(e v1alpha1.Egress, p v1alpha1.Proxy, bundle []byte) (*Route, error) {
	var r Route
	var err error
	if r.allow, err = Parse(e.Allow); err != nil {
		return nil, fmt.Errorf("spec.egress.allow: %w", err)
	}
	if p.URL != "" {
		r.proxy, err = url.Parse(p.URL)
		if err != nil || r.proxy.Scheme != "http" && r.proxy.Scheme != "https" || r.proxy.Hostname() == "" || r.proxy.User != nil {
			return nil, errors.New("spec.proxy.url must be an absolute http or https URL without a user, such as http://proxy.corp:3128")
		}
	}
	if bundle == nil {
		return &r, nil
	}
	if r.roots, err = x509.SystemCertPool(); err != nil { // an image without any
		r.roots = x509.NewCertPool()
	}
	if !r.roots.AppendCertsFromPEM(bundle) {
		return nil, errors.New("spec.tls.caBundle: it holds no certificate in PEM")
	}
	return &r, nil
}

// Proxy is the URL of the proxy, or an empty one.
func (r *Route) Proxy() *url.URL {
	if r.proxy == nil {
		return &url.URL{}
	}
	return r.proxy
}

// Certificates reports whether a bundle holds any.
func Certificates(bundle []byte) bool { return x509.NewCertPool().AppendCertsFromPEM(bundle) }

// Equip has the transport take the route.
func (r *Route) Equip(t *http.Transport) {
	t.DialContext = r.dial
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: r.roots}
	t.Proxy = nil
	if r.proxy == nil {
		return
	}
	t.Proxy = func(req *http.Request) (*url.URL, error) { return r.proxy, r.checkName(req.URL.Hostname()) }
	t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
		if res.StatusCode == http.StatusOK {
			return nil
		}
		return &ProxyError{Status: res.StatusCode}
	}
}

func (r *Route) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := Dialer(r.allow).DialContext(ctx, network, address)
	if refused, ok := errors.AsType[*Refusal](err); ok {
		refused.Proxy = r.proxy != nil
	}
	return c, err
}

// everywhere are names that mean the same special address wherever they are looked up.
var everywhere = map[string]netip.Addr{
	"localhost":                  netip.MustParseAddr("127.0.0.1"),
	"metadata.google.internal":   netip.MustParseAddr("169.254.169.254"),
	"metadata.goog":              netip.MustParseAddr("169.254.169.254"),
	"instance-data.ec2.internal": netip.MustParseAddr("169.254.169.254"),
}

// checkName refuses what of a server that a proxy will look up is known to be refused.
func (r *Route) checkName(host string) error {
	// The transport would map such letters when it writes the name, digits and dots of other scripts among them: what is judged here
	// would not be what the proxy is asked for.
	if strings.ContainsFunc(host, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return &Refusal{Host: strconv.QuoteToASCII(host), Kind: "written with letters beyond ASCII: write it in ASCII (punycode, such as xn--bcher-kva.example)"}
	}
	host = strings.ToLower(strings.TrimRight(host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return Check(a, r.allow)
	}
	if strings.HasSuffix(host, ".localhost") {
		host = "localhost"
	}
	if a, known := everywhere[host]; known {
		return Check(a, r.allow)
	}
	last := host[strings.LastIndex(host, ".")+1:]
	if last != "" && strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") { // 127.1, 2130706433, 0x7f000001
		return &Refusal{Host: host, Kind: "another spelling of an address: write it as four numbers"}
	}
	return nil
}

// ProxyError is the error of a proxy that makes no connection. Nothing was sent to the server.
type ProxyError struct{ Status int }

func (e *ProxyError) Error() string { return fmt.Sprintf("the proxy answered %d to CONNECT", e.Status) }

// AtProxy reports whether it was the proxy that could not be reached.
func AtProxy(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "proxyconnect"
}
